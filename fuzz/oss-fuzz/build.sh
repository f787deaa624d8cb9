#!/bin/bash -eu
# Builds every fuzz target for OSS-Fuzz, with its seeds and its dictionary, into $OUT. The variables are those of
# https://google.github.io/oss-fuzz/getting-started/new-project-guide/#buildsh. The machine that runs the targets lacks
# the libraries, so they are linked in; warnings of newer compilers are not errors.
cd "$SRC/trident"
cflags="$CFLAGS -Wno-error -Wno-unknown-pragmas -Wno-unused-parameter"
# A report of coverage shows all sources; a fuzzer looks through the counters of parsers alone.
[ "${SANITIZER:-address}" = coverage ] || cflags+=" -fsanitize-coverage-ignorelist=fuzz/uncovered"
make -j"$(nproc)" BUILD=build-oss-fuzz CC="$CC" OPENMP= ISAS= MPI= CFLAGS="$cflags" LINK="$CXX $CXXFLAGS" \
    FUZZ_ENGINE="$LIB_FUZZING_ENGINE" \
    LIBS='-Wl,-Bstatic -lutf8proc -lz -lzstd -llz4 -lyaml -Wl,-Bdynamic -pthread -lm' fuzzers
for program in build-oss-fuzz/fuzz_*; do
    name=${program##*/fuzz_}
    [ -x "$program" ] && [ -d "fuzz/corpus/$name" ] || continue
    cp "$program" "$OUT/"
    seeds=("fuzz/corpus/$name")
    [ ! -d "fuzz/regress/$name" ] || seeds+=("fuzz/regress/$name")
    find "${seeds[@]}" -type f | sort | zip -q -j -@ "$OUT/fuzz_${name}_seed_corpus.zip"
    [ ! -f "fuzz/dict/$name" ] || cp "fuzz/dict/$name" "$OUT/fuzz_$name.dict"
done
