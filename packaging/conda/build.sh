#!/bin/sh
# Run by conda-build, which sets PREFIX, CC, CPU_COUNT and flags. tools/deps calls the compiler without these flags.
set -eu
export CPATH="$PREFIX/include" LIBRARY_PATH="$PREFIX/lib"
make -j"${CPU_COUNT:-1}" install CC="${CC:-gcc}" MPI= NVCC= PREFIX="$PREFIX" \
    CFLAGS="${CFLAGS:-} -O3 -g1 -Wno-error" LDFLAGS="${LDFLAGS:-}"
