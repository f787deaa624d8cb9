# Help, man page and completion are generated from the tables; colours only on request; help is instant.
. "$(dirname "$0")/../lib/cli_lib.sh"

run --help all
expect_code 0
cp "$out" commands
for command in $(sed -n 's/^  \([a-z]*\) .*/\1/p' commands); do
    run "$command" --help all
    expect_code 0
    expect_text "$out" "trident $command"
    expect "help of $command leaves stderr empty" test ! -s "$err"
    # Help fits on a screen, and says where the rest is.
    COLUMNS=80 run "$command" --help
    expect_code 0
    expect "help of $command has at most 25 lines of 79 columns" \
        awk 'length > 79 { wide++ } END { exit NR > 25 || wide > 0 }' "$out"
    grep -c '^  --' "$out" >few
    "$trident" "$command" --help all | grep -c '^  --' >all
    more=$(sed -n "s/.*trident $command --help all. lists \([0-9]*\) more options.*/\1/p" "$out")
    expect "$command: $(cat few) options and ${more:-0} more" test "$(($(cat few) + ${more:-0}))" = "$(cat all)"
done
COLUMNS=80 run --help
expect "help has at most 25 lines of 79 columns" awk 'length > 79 { wide++ } END { exit NR > 25 || wide > 0 }' "$out"
for command in $(sed -n 's/^  \([a-z]*\) .*/\1/p' commands); do
    case $command in man | completion) continue ;; esac
    expect_text "$out" "$command"
done
COLUMNS=60 run train --help
expect "wrapped to the window" awk 'length > 59 { wide++ } END { exit wide > 0 }' "$out"
expect_text "$out" --config --data-path --output-dir --epochs --nproc-per-node --shard
cp commands "$out"
for exit_code in 0 2 65 66 70 71 73 74 75 76 79; do
    expect "exit code $exit_code in the help" grep -q "^  $exit_code  *[a-z]" "$out"
done

# The promised defaults.
run train --help all
default() { expect "$1 [$2] in train --help all" grep -q -- "^  $1 .*\[$2\]" "$out"; }
default --output-dir ./outputs
default --batch-size 32
default --epochs 10
default --save-every 1
default --pp-size 1
default --tp-size 1
default --resume auto
default --max-sen-len 512
default --pooling pooler
expect_text "$out" "fp32, bf16, fp16" --sharding-strategy Optimisation Model

run --version
expect_code 0
expect "a version" grep -Eq '^trident [0-9]+\.[0-9]+\.[0-9]+$' "$out"
run help train
expect_code 0
expect_text "$out" --data-path

rejects 2 tarin
rejects 2 frobnicate
rejects 2 help frobnicate
run
expect_code 2
expect_text "$err" "a command is needed" "usage: trident COMMAND"

run man
expect_code 0
expect_text "$out" ".TH TRIDENT 1" ".SH EXIT STATUS" 'pp\-size' "primary_encoder" 'trident predict'
run completion bash
expect_code 0
cp "$out" completion.bash
expect "the completion script is valid bash" bash -n completion.bash
completes() { # completes WANTED WORDS...
    local wanted=$1
    shift
    bash -c '. ./completion.bash; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _trident; echo "${COMPREPLY[*]}"' _ "$@" \
        >completed
    expect "completion of \"$*\" offers $wanted" grep -qw -- "$wanted" completed
}
for shell in zsh fish; do
    run completion $shell
    expect_code 0
    cp "$out" completion.$shell
    ! command -v $shell >/dev/null || expect "the completion script is valid $shell" $shell -n completion.$shell
done
expect_text completion.zsh "#compdef trident" "'predict:write label" "'--data-path:" "--shard) offered=(none zero1" \
    "bench) offered=(comm lab"
expect_text completion.fish "-a predict -d 'write label" "-l data-path -r" "-l shard -x -a 'none zero1" \
    "'__fish_seen_subcommand_from bench' -a 'comm lab"
rejects 2 completion tcsh
completes predict trident pre
completes --data-path trident train --data
completes zero3 trident train --shard ze
completes verify trident checkpoint ver
completes step trident bench ""

# Colours: never on a file, always when forced, never when refused.
run train --nonsense
expect "no colour on a file" grep -q '^trident: ' "$err"
FORCE_COLOR=1 run train --nonsense
expect "forced colour" grep -q "^$(printf '\033')\[31mtrident:" "$err"
NO_COLOR=1 FORCE_COLOR=1 run train --nonsense
expect "NO_COLOR wins" grep -q '^trident: ' "$err"
FORCE_COLOR=1 run train --nonsense --no-color
expect "--no-color wins" grep -q '^trident: ' "$err"

# A reader that goes away is no crash, a full disk is an error.
"$trident" train --help | head -n 1 >/dev/null
expect "a closed pipe ends quietly" test "${PIPESTATUS[0]}" = 0
if [ -w /dev/full ]; then
    "$trident" --help >/dev/full 2>"$err"
    code=$?
    expect_code 74
fi

run doctor
expect_code 0
expect_text "$out" cpu threads memory mpi slurm cuda zlib zstd lz4 yaml places "NUMA node"
# What srun offers: as Slurm 22 and later say it, as older ones do, and one that says nothing.
mkdir bin
list() { printf '#!/bin/sh\n%s\n' "$1" >bin/srun && chmod +x bin/srun; }
list 'printf "MPI plugin types are...\n\tnone\n\tpmi2\n\tpmix\nspecific pmix plugin versions available: pmix_v4\n"'
PATH=$work/bin:$PATH run doctor
expect_text "$out" "/bin/srun; --mpi can be none pmi2 pmix (Open MPI needs pmix, MPICH pmi2)"
list 'printf "srun: MPI types are...\nsrun: cray_shasta\nsrun: none\nsrun: pmi2\n" >&2'
PATH=$work/bin:$PATH run doctor
expect_text "$out" "/bin/srun; --mpi can be cray_shasta none pmi2 (Open MPI"
list 'exec sleep 60'
begin=$(date +%s)
PATH=$work/bin:$PATH run doctor
expect_code 0
expect "a srun that says nothing is not waited for" test $(($(date +%s) - begin)) -lt 30
rm -r bin
run doctor --json
expect_code 0
expect_text "$out" '"cpu":{"found":true' '"version"'
expect "one line of JSON" test "$(wc -l <"$out")" = 1

# Best of five: the machine may be busy.
if [ -z "${TRI_SANITIZED:-}" ]; then
    best=1000000
    for _ in 1 2 3 4 5; do
        begin=$(date +%s%N)
        "$trident" --help >/dev/null
        took=$((($(date +%s%N) - begin) / 1000))
        [ "$took" -lt "$best" ] && best=$took
    done
    echo "--help: best of five $best us"
    expect "--help within 20 ms (best of five: $best us)" test "$best" -lt 20000
fi
finish
