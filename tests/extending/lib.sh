# lib.sh - what the scripts of this folder share. Each proves how little it takes to add one thing. It says in `most`
# how many files under src/ may be touched, and has two functions, both called in a scratch copy of the sources:
#   add   writes the new file or row
#   use   runs $trident with it, in a folder with tables and configurations (tests/frozen.d/inputs.sh); fails if that
#         does not work
# A script alone copies, adds, builds and uses; tests/extending/run does the same for all of them with one build.

# row FILE PATTERN TEXT: puts TEXT before the first line of FILE that begins with PATTERN.
row() {
    awk -v pattern="$2" -v text="$3" '!done && index($0, pattern) == 1 { print text; done = 1 } { print }
        END { exit !done }' "$1" >"$1.new" && mv "$1.new" "$1" || { echo "$1: no line begins with $2" >&2; exit 1; }
}

# train NAME OPTIONS: two steps; what it prints is in NAME.log.
train() {
    local name=$1
    shift
    "$trident" train --config base.json --data-path data --output-dir "$name" --max-steps 2 --epochs 1 --batch-size 8 \
        --threads 1 --lr 1e-3 --no-report --quiet "$@" >"$name.log" 2>&1 || { cat "$name.log" >&2; exit 1; }
}

# extend SCRIPT...: all that these add, in one scratch copy and one build. A build from nothing without optimisation
# takes less time than an optimised one of what the additions touch.
extend() {
    local here=$PWD scratch script touched
    scratch=$(mktemp -d) && trap "rm -rf '$scratch'" EXIT
    cp -a src include tools fuzz examples Makefile libtrident.map "$scratch" && mkdir "$scratch/work"
    cd "$scratch" || exit 1
    for script in "$@"; do
        cp -a src before
        (together=1 && . "$here/$script" && add) || exit 1
        touched=$(diff -rq before src | wc -l)
        rm -r before
        (together=1 && . "$here/$script" && echo "$script: touches $touched of src/, at most $most" &&
            [ "$touched" -le "$most" ]) || exit 1
    done
    make -j"$(nproc)" CC="${CC:-gcc}" CFLAGS=-O0 all examples >make.log 2>&1 || { tail -n 30 make.log >&2; exit 1; }
    cd work && . "$here/tests/frozen.d/inputs.sh" && make_inputs
    for script in "$@"; do
        (together=1 trident=$scratch/build/trident && . "$here/$script" && use) ||
            { echo "$script: what was added does not work" >&2; exit 1; }
    done
}

[ -n "${together:-}" ] || { cd "$(dirname "${BASH_SOURCE[0]}")/../.." && extend "tests/extending/$(basename "$0")"; }
