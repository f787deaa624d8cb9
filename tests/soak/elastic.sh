#!/usr/bin/env bash
# Runs with --elastic --replicate-state whose ranks are killed at random moments: the others go on, with the ranks that
# are left or with the dead one started again. Each run ends with exit 0; metrics.jsonl has every step once; losses are
# those of the run that nobody disturbed, within the bounds of other meshes.
#   elastic.sh [SEED]      until there were SOAK_ELASTIC kills, SOAK_JOBS runs at a time; with a seed that run alone
# Ranks, sharding and whether ranks are started again follow from a run's seed, and so do victims and moments. What came
# of each run is kept in BUILD/soak/elastic-HASH (of the program), so that kills add up over calls of this script;
# SOAK_FOR=SECONDS ends it earlier, SOAK_KEEP=FOLDER keeps what a run that failed wrote.
# A kill counts when the supervisor said that a rank died. Prints how long it took from kills to the next finished step,
# and the throughput with one rank fewer as a part of what that many ranks should have.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib/cli_lib.sh"
. "$here/living.sh"
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT
export OMP_NUM_THREADS=1
shapes=("2" "3 --shard zero1" "4 --shard zero2" "8 --shard zero1" "2 --shard zero3" "3" "4 --pp-size 2"
    "8 --shard zero2")

# train FOLDER OPTIONS...: the command of a run in an array.
train() {
    local folder=$1
    shift
    command=("$trident" train --config config.json --data-path data --output-dir "$folder" --global-batch-size 48
        --max-steps 100 --save-steps 50 --save-every 0 --threads 1 --num-workers 1 --cache-dir none --no-report
        --nproc-per-node "$@")
}

reference() { # NUMBER
    [ ! -e "$state/$1.losses" ] || return 0
    local options
    read -r -a options <<<"${shapes[$1]}"
    train "whole.$1" "${options[@]}"
    "${command[@]}" >whole.out 2>whole.err || { fail "${shapes[$1]}: exit $?: $(tail -n 3 whole.err)" && return 1; }
    losses "whole.$1" >"$state/$1.losses.$$" && mv "$state/$1.losses.$$" "$state/$1.losses"
    rm -r "whole.$1"
}

deaths() { grep -c '^trident: warning: rank [0-9]* died' "$err"; }

# Kills one rank; its time goes to `kills`, when the supervisor has seen a living one die.
kill_one() {
    local before at
    living
    [ ${#ranks[@]} -gt 1 ] || return 0
    before=$(deaths) at=$EPOCHREALTIME
    kill -9 "${ranks[RANDOM % ${#ranks[@]}]}" 2>/dev/null
    while [ "$(deaths)" = "$before" ] && [ -d "/proc/$pid" ]; do tick 0.004; done
    [ "$(deaths)" = "$before" ] || { kills=$((kills + 1)) && echo "$at" >>kills; }
}

# What metrics.jsonl says of a run: "time RANKS MS" from each kill to the next step that ended after a regroup, "step
# RANKS MS" the median step with so many ranks, "steps N" those that are there, "out-of-order N".
read_metrics() { # RANKS
    local line='^{"ts":\([0-9.]*\),"event":"\(train\|start\|regroup\)","step":\([0-9]*\)\(.*\)'
    sed -n "s/$line/\2 \1 \3 \4/p" run/metrics.jsonl | awk -v ranks="$1" '
        function median(list, n,    i, k, t) {
            for (i = 2; i <= n; i++) for (k = i; k > 1 && list[k] < list[k - 1]; k--) {
                t = list[k]; list[k] = list[k - 1]; list[k - 1] = t
            }
            return list[int((n + 1) / 2)]
        }
        BEGIN { while ((getline line < "kills") > 0) kill[++n_kills] = line; next_kill = 1 }
        $1 == "train" {
            if ($3 != last + 1) wrong++
            last = $3; steps++
            for (; waiting && next_kill <= waiting; next_kill++) print "time", ranks, 1000 * ($2 - kill[next_kill])
            waiting = 0
            if (++since > 2 && match($0, /"step_ms":[0-9.]+/))
                ms[now, ++count[now]] = substr($0, RSTART + 10, RLENGTH - 10)
        }
        $1 == "start" { # of each world, the first and those with ranks that died or joined
            if (match($0, /"world_size":[0-9]+/)) now = substr($0, RSTART + 13, RLENGTH - 13)
            since = 0
        }
        $1 == "regroup" {
            for (k = next_kill; k <= n_kills && kill[k] <= $2; k++) waiting = k
        }
        END {
            for (m in count) {
                for (i = 1; i <= count[m]; i++) list[i] = ms[m, i]
                if (count[m] >= 10) print "step", ranks, m, median(list, count[m])
            }
            print "steps", steps + 0; print "out-of-order", wrong + 0; print "unanswered", n_kills - next_kill + 1
        }'
}

# The largest difference to the undisturbed losses, as a part of the larger of the loss and 0.1.
difference() { # NUMBER
    paste <(losses run) "$state/$1.losses" | awk '
        NF != 2 { bad = 1 }
        { d = $1 - $2; d = d < 0 ? -d : d; d /= $2 > 0.1 ? $2 : 0.1; if (d > most) most = d }
        END { print NR && !bad ? most + 0 : 9 }'
}

# One run: a line for the state file, NUMBER AGAIN SEED KILLS DIFFERENCE VERDICT.
disturb() { # SEED
    seed=$1
    local number=$((seed % ${#shapes[@]})) again=$((seed / ${#shapes[@]} % 2)) options most
    reference "$number" || { echo "$number $again $seed 0 9 wrong" >>"$state/runs" && return; }
    read -r -a options <<<"${shapes[$number]} --elastic --replicate-state $([ $again = 0 ] || echo --max-restarts 1000)"
    train run "${options[@]}"
    last_command="${command[*]}"
    RANDOM=$((seed * 7919 + 1))
    kills=0 failures=0 ranks=() most=$RANDOM
    : >kills
    "${command[@]}" >"$out" 2>"$err" &
    pid=$!
    until [ -s run/metrics.jsonl ] || [ ! -d "/proc/$pid" ]; do tick 0.01; done
    while [ $kills -lt 40 ] && [ -d "/proc/$pid" ]; do
        tick "0.$((100 + RANDOM % 400))"
        kill_one
    done
    wait "$pid"
    code=$?
    expect_code 0
    read_metrics "${options[0]}" >figures
    expect "seed $seed: every step is there once: $(tr '\n' ' ' <figures)" grep -qx 'steps 100' figures
    expect "seed $seed: in order" grep -qx 'out-of-order 0' figures
    most=$(difference "$number")
    expect "seed $seed: losses are those of the undisturbed run, to $most" is "$most" '<=' 2e-6
    "$trident" checkpoint verify run >verified 2>&1 || fail "seed $seed: $(tail -n 1 verified)"
    [ $failures = 0 ] || [ -z "${SOAK_KEEP:-}" ] || { mkdir -p "$SOAK_KEEP" && cp -r . "$SOAK_KEEP/elastic-$seed"; }
    grep -E '^(time|step) ' figures >>"$state/figures"
    echo "$number $again $seed $kills $most $([ $failures = 0 ] && echo same || echo wrong)" >>"$state/runs"
}

# Runs of every SOAK_JOBS-th seed, in a folder of its own, until there were enough kills.
worker() { # SEED
    local seed=$1 bad=0
    mkdir "worker.$1" && cd "worker.$1" && cp -r ../data ../config.json . || exit 1
    out=$PWD/stdout err=$PWD/stderr
    while [ $bad -lt 3 ] && [ "$(total)" -lt "$wanted" ] && [ $SECONDS -lt "$seconds" ]; do
        disturb "$seed"
        [ $failures = 0 ] || bad=$((bad + 1))
        rm -rf run
        seed=$((seed + jobs))
    done
}
total() { awk '$6 == "same" { n += $4 } END { print n + 0 }' "$state/runs"; }

state=$work/state wanted=${SOAK_ELASTIC:-1000} jobs=${SOAK_JOBS:-1} seconds=${SOAK_FOR:-1000000}
[ $# -gt 0 ] || state=$TRI_BUILD/soak/elastic-$(cat "$trident" "$here/elastic.sh" | sha256sum | cut -c 1-12)
mkdir -p "$state" && mkfifo "$work/pipe" && make_all && rm data/valid.csv data/test.csv && touch "$state/runs"
make_table data/train.csv 960 0
encoder='{"model_type": "bert", "hidden_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4, '
encoder+='"intermediate_size": 384, "max_position_embeddings": 64}' # a step of some 20 ms on one core
make_config config.json "\"primary_encoder\": $encoder" "\"secondary_encoder\": $encoder"
if [ $# -gt 0 ]; then
    disturb "$1"
else
    start_workers
fi
awk '$1 == "time" { print $3 }' "$state/figures" | sort -n | awk '{ t[NR] = $1 }
    END {
        if (NR) printf "kill to next finished step: %d ms (median), ", t[int((NR + 1) / 2)]
        if (NR) printf "%d ms (99 of 100), %d kills\n", t[int(NR * 0.99 + 0.5)], NR
    }'
awk '$1 == "step" { n[$2, $3]++; ms[$2, $3] += $4; all[$2] = 1 }
    END {
        for (r in all) {
            few = r - 1
            if (!n[r, r] || !n[r, few]) continue
            part = ms[r, r] / n[r, r] / (ms[r, few] / n[r, few]) * r / few
            printf "%d of %d ranks: %.2f of %d/%d of the throughput\n", few, r, part, few, r
        }
    }' "$state/figures"
awk '$6 == "same" { same++ } { k += $4 }
    END {
        printf "%d kills in %d runs: %d ended with every step once and the undisturbed losses\n", k, NR, same
        exit k == 0 || same < NR
    }' "$state/runs"
