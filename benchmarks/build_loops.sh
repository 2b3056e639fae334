#!/bin/sh
# Build the compiled loops beside their Python, where nothing can be installed: gcc, Python and its headers are enough.
# Options are those of CMakeLists.txt. Then: PYTHONPATH=src python -m benchmarks cores --shapes narrow
set -eu
cd "$(dirname "$0")/../src/aptset/kernels/c"
python=${PYTHON:-python3}
headers=$($python -c 'import sysconfig; print(sysconfig.get_paths()["include"])')
objects=$(mktemp -d)
trap 'rm -r "$objects"' EXIT
compile() { # the name of the object, then options
    object=$1
    shift
    gcc -O3 -fPIC -fvisibility=hidden -ffp-contract=off -fno-strict-aliasing -fwrapv -fno-math-errno -Wno-psabi "-I$headers" "$@" -o "$objects/$object.o"
}
compile baseline -DLOOPS=baseline_loops '-DLEVEL="baseline"' -c loops.c
levels=
if [ "$(uname -m)" = x86_64 ]; then
    compile v3 -march=x86-64-v3 -DLOOPS=v3_loops '-DLEVEL="v3"' -c loops.c
    compile v4 -march=x86-64-v4 -mprefer-vector-width=512 -DLOOPS=v4_loops '-DLEVEL="v4"' -c loops.c
    levels=-DAPTSET_LEVELS
fi
compile bindings $levels -c compiled.c
gcc -shared "$objects"/*.o -o ../_compiled.abi3.so
