#!/bin/sh
# Run Python on a copy of the library whose loops are built with AddressSanitizer: sh sanitized.sh PYTHON ARGUMENTS
set -e
python=$1
shift
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
cp -r src/aptset "$copy/"
rm -f "$copy"/aptset/kernels/_compiled*
loops=src/aptset/kernels/c
include=$("$python" -c "import sysconfig; print(sysconfig.get_path('include'))")
flags="-O1 -g -fsanitize=address -fPIC -ffp-contract=off -fno-strict-aliasing -fwrapv -w"
gcc $flags -DLOOPS=baseline_loops '-DLEVEL="baseline"' -c $loops/loops.c -o "$copy/baseline.o"
if [ "$(uname -m)" = x86_64 ]; then # all levels, so that the one of this machine runs
    levels=-DAPTSET_LEVELS
    gcc $flags -march=x86-64-v3 -DLOOPS=v3_loops '-DLEVEL="v3"' -c $loops/loops.c -o "$copy/v3.o"
    gcc $flags -march=x86-64-v4 -mprefer-vector-width=512 -DLOOPS=v4_loops '-DLEVEL="v4"' -c $loops/loops.c -o "$copy/v4.o"
fi
gcc $flags $levels -I"$include" -shared $loops/compiled.c "$copy"/*.o -o "$copy/aptset/kernels/_compiled.abi3.so"
# Leaks of the interpreter itself are not ours to judge.
ASAN_OPTIONS=detect_leaks=0 LD_PRELOAD=$(gcc -print-file-name=libasan.so) PYTHONMALLOC=malloc \
  PYTHONPATH="$copy:tests" "$python" "$@"
