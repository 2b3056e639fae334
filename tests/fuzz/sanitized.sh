#!/bin/sh
# Run Python on a copy of the library whose loops are built with AddressSanitizer: sh sanitized.sh PYTHON ARGUMENTS
# All levels of machines are built, or one with the options that ONLY holds.
set -e
python=$1
shift
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
cp -r src/aptset "$copy/"
rm -f "$copy"/aptset/kernels/_compiled*
loops=src/aptset/kernels/c
include=$("$python" -c "import sysconfig; print(sysconfig.get_path('include'))")
flags="${ONLY:--O1} -g -fsanitize=address -fPIC -ffp-contract=off -fno-strict-aliasing -fwrapv -w -DROWS_CHANGE"
build() { gcc $flags "-DLOOPS=$1_loops" "-DLEVEL=\"$1\"" $2 -c $loops/loops.c -o "$copy/$1.o"; }
build baseline
if [ -z "$ONLY" ] && [ "$(uname -m)" = x86_64 ]; then # all levels, so that the one of this machine runs
    levels=-DAPTSET_LEVELS
    build v3 -march=x86-64-v3
    build v4 "-march=x86-64-v4 -mprefer-vector-width=512"
fi
gcc $flags $levels -I"$include" -shared $loops/compiled.c tests/fuzz/changing_rows.c "$copy"/*.o -o "$copy/aptset/kernels/_compiled.abi3.so"
# Leaks of the interpreter itself are not ours to judge.
ASAN_OPTIONS=detect_leaks=0 LD_PRELOAD=$(gcc -print-file-name=libasan.so) PYTHONMALLOC=malloc \
  PYTHONPATH="$copy:tests" APTSET_SANITIZED=1 "$python" "$@"
