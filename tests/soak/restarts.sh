#!/usr/bin/env bash
# Runs whose ranks are killed at random moments, again and again: while they start, load, compute, save, end. One kill
# in five is of two ranks at once, one in ten of the supervisor, and then this script starts the run again; else
# --max-restarts does. Each run ends with the losses and the digest of the run that nobody disturbed.
#   restarts.sh [SEED]      until there were SOAK_RESTARTS kills, SOAK_JOBS runs at a time; with a seed that run alone
# The mesh and --async-save follow from a run's seed, and so do victims and moments. What came of each run is kept in
# BUILD/soak/restarts-HASH (of the program), so that kills add up over calls of this script; SOAK_FOR=SECONDS ends it
# earlier. SOAK_KEEP=FOLDER keeps what a run that failed wrote.
# A kill counts when the supervisor said that signal 9 ended the very rank that was chosen, and started all again; of
# the supervisor, when it was ended by that signal. Those that came too late are not counted.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib/cli_lib.sh"
. "$here/living.sh"
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT
export OMP_NUM_THREADS=1
meshes=(
    "2"
    "3 --shard zero1"
    "2 --shard zero2"
    "3 --shard zero3"
    "2 --pp-size 2"
    "2 --tp-size 2"
    "4 --pp-size 2 --tp-size 2 --num-microbatches 2"
    "4 --shard hybrid --shard-size 2"
    "4 --pp-size 2 --shard zero2 --schedule zb-h1"
    "4 --tp-size 2 --shard zero1"
    "2 --cp-size 2"
    "4 --tp-size 2 --shard zero3"
    "2 --shard zero1 --offload optimizer"
    "3 --shard zero2 --precision bf16"
    "8 --pp-size 2 --tp-size 2 --shard zero1"
)
most=30 # kills of one run; then it may end

# train FOLDER OPTIONS...: the command of a run in an array.
train() {
    local folder=$1
    shift
    command=("$trident" train --config config.json --data-path data --output-dir "$folder" --batch-size 4
        --max-steps 120 --save-steps 4 --save-every 0 --keep 2 --threads 1 --num-workers 1 --cache-dir none --no-report
        --max-restarts 1000 --nproc-per-node "$@")
}
result() { "$trident" digest "$1" 2>&1; losses "$1"; }

# The undisturbed run of a mesh, and how long it took, once for all seeds: $state/NUMBER.result, .ms
reference() { # NUMBER
    [ ! -e "$state/$1.ms" ] || return 0
    local options
    read -r -a options <<<"${meshes[$1]}"
    train "whole.$1" "${options[@]}"
    local begin=${EPOCHREALTIME/./}
    "${command[@]}" >whole.out 2>whole.err || { fail "${meshes[$1]}: exit $?: $(tail -n 3 whole.err)" && return 1; }
    local ms=$(((${EPOCHREALTIME/./} - begin) / 1000))
    result "whole.$1" >"$state/$1.result.$$" && mv "$state/$1.result.$$" "$state/$1.result"
    echo $ms >"$state/$1.ms.$$" && mv "$state/$1.ms.$$" "$state/$1.ms"
    rm -r "whole.$1"
}

# Into $rank: the number of a process; empty when it has not begun to execute.
number_of() {
    local word
    rank=
    while IFS= read -r -d '' word; do
        [[ $word != RANK=* ]] || rank=${word#RANK=}
    done <"/proc/$1/environ"
} 2>/dev/null

# Into $said: the lines of stderr so far; into $starts: how often the supervisor said that it starts all again.
listen() {
    local line
    mapfile -t said <"$err"
    starts=0
    for line in "${said[@]}"; do [[ $line != 'trident: start '* ]] || starts=$((starts + 1)); done
}

begin_run() {
    "${command[@]}" >"$out" 2>"$err" &
    pid=$!
}

# The supervisor: its ranks end with it, and the run is started again.
kill_supervisor() {
    living
    kill -9 "$pid" 2>/dev/null
    wait "$pid" 2>/dev/null
    code=$?
    if [ $code = 137 ]; then
        kills=$((kills + 1)) supervisors=$((supervisors + 1))
        cat "$err" >>all.err
        expect "all ranks end with their supervisor" gone 2000 "${ranks[@]}"
        begin_run
    fi
}

# One rank, or two at once, in a run that has come to a random moment.
kill_ranks() { # HOW MANY
    local victims=() i p numbers=() second=0 first=0
    living
    [ ${#ranks[@]} -ge "$1" ] || return 0
    i=$((RANDOM % ${#ranks[@]}))
    victims=("${ranks[i]}")
    [ "$1" = 1 ] || victims+=("${ranks[(i + 1 + RANDOM % (${#ranks[@]} - 1)) % ${#ranks[@]}]}")
    for p in "${victims[@]}"; do number_of "$p" && numbers+=("${rank:-[0-9]+}"); done
    listen
    local before=$starts from=${#said[@]}
    kill -9 "${victims[@]}" 2>/dev/null
    while listen && [ "$starts" = "$before" ] && [ -d "/proc/$pid" ]; do tick 0.004; done
    [ "$starts" -gt "$before" ] || return 0 # it had ended before
    for ((i = from; i < ${#said[@]}; i++)); do
        for p in "${numbers[@]}"; do
            [[ ${said[i]} =~ trident:\ rank\ $p:\ killed\ by\ signal\ 9 ]] && first=1 # after a torn line, too
        done
        # the other; those that the supervisor ended have "by the supervisor" before the semicolon
        [[ ${said[i]} =~ ^\ +others.*:\ killed\ by\ signal\ 9\ \(SIGKILL\)\; ]] && second=1
    done
    if [ $first = 0 ]; then
        printf '%s\n' "${said[@]:from}" >>strange
        fail "seed $seed: started again, but rank ${numbers[*]} was not said to have been killed"
    fi
    kills=$((kills + first))
    [ "$1" = 1 ] || doubles=$((doubles + second))
}

# One run: a line for the state file, NUMBER ASYNC SEED KILLS DOUBLES SUPERVISORS COMMITS VERDICT.
disturb() { # SEED
    seed=$1
    local number=$((seed % ${#meshes[@]})) async=$((seed / ${#meshes[@]} % 2)) options wait
    reference "$number" || { echo "$number $async $seed 0 0 0 0 wrong" >>"$state/runs" && return; }
    read -r -a options <<<"${meshes[$number]} $([ $async = 0 ] || echo --async-save)"
    train run "${options[@]}"
    last_command="${command[*]}"
    RANDOM=$((seed * 7919 + 1))
    local span=$(($(cat "$state/$number.ms") / 3)) kind
    kills=0 doubles=0 supervisors=0 failures=0 rank=$RANDOM
    begin_run
    while [ $kills -lt $most ] && [ -d "/proc/$pid" ]; do
        ranks=()
        while [ ${#ranks[@]} -lt "${options[0]}" ] && [ -d "/proc/$pid" ]; do living && tick 0.002; done
        kind=$((RANDOM % 10)) wait=$((RANDOM % (RANDOM % 5 ? span : 20)))
        tick "$((wait / 1000)).$(printf %03d $((wait % 1000)))"
        case $kind in
        0) kill_supervisor ;;
        1 | 2) kill_ranks 2 ;;
        *) kill_ranks 1 ;;
        esac
    done
    wait "$pid"
    code=$?
    cat "$err" >>all.err
    expect_code 0
    result run >found
    expect "seed $seed: the losses and weights of the undisturbed run" cmp -s found "$state/$number.result"
    "$trident" checkpoint verify run >"$out" 2>"$err"
    code=$?
    expect_code 0
    expect "nothing half-made is left" test -z "$(ls -d run/*.tmp* 2>/dev/null)"
    [ $failures = 0 ] || [ -z "${SOAK_KEEP:-}" ] || { mkdir -p "$SOAK_KEEP" && cp -r . "$SOAK_KEEP/seed-$seed"; }
    echo "$number $async $seed $kills $doubles $supervisors $(grep -c 'continuing from' all.err)" \
        "$([ $failures = 0 ] && echo same || echo wrong)" >>"$state/runs"
}

# Runs of every SOAK_JOBS-th seed, in a folder of its own, until there were enough kills.
worker() { # SEED
    local seed=$1 bad=0
    mkdir "worker.$1" && cd "worker.$1" && cp -r ../data ../config.json . || exit 1
    out=$PWD/stdout err=$PWD/stderr
    while [ $bad -lt 3 ] && [ "$(total)" -lt "$wanted" ] && [ $SECONDS -lt "$seconds" ]; do
        disturb "$seed"
        [ $failures = 0 ] || bad=$((bad + 1))
        rm -rf run all.err
        seed=$((seed + jobs))
    done
}
total() { awk '$8 == "same" { n += $4 } END { print n + 0 }' "$state/runs"; }

state=$work/state wanted=${SOAK_RESTARTS:-10000} jobs=${SOAK_JOBS:-$(nproc)} seconds=${SOAK_FOR:-1000000}
[ $# -gt 0 ] || state=$TRI_BUILD/soak/restarts-$(cat "$trident" "$here/restarts.sh" | sha256sum | cut -c 1-12)
mkdir -p "$state" && mkfifo "$work/pipe" && make_all && rm data/valid.csv data/test.csv && touch "$state/runs"
if [ $# -gt 0 ]; then
    disturb "$1"
else
    start_workers
fi
awk '$8 == "same" { same++ } { k += $4; d += $5; s += $6; c += $7 }
    END {
        printf "%d kills (%d of two ranks at once, %d of the supervisor) in %d runs, %d starts from a commit; ", k, d,
            s, NR, c
        printf "%d runs ended with the undisturbed losses and digest\n", same
        exit k == 0 || same < NR
    }' "$state/runs"
