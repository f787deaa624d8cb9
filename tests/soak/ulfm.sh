#!/usr/bin/env bash
# MPI jobs with ULFM, --elastic and --replicate-state, of 2 to 4 ranks on 1 to 4 machines: at a random step a rank, two
# of them or a whole machine is killed. Each run ends with exit 0 and every step and epoch once, with the losses of the
# run that nobody disturbed; or with 137, if fewer are left than a tensor group has.
#   ulfm.sh [SEED]         until there were SOAK_ULFM kills; with a seed that run alone
# All follows from a run's seed. What came of each run is kept in BUILD/soak/ulfm-HASH (of the program), so that kills
# add up over calls of this script; SOAK_FOR=SECONDS ends it earlier.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib/cli_lib.sh"
root=$(dirname "$(dirname "$here")")
. "$here/../cli/ulfm_job.sh"
shapes=("" "--shard zero1" "--shard zero2" "--shard zero3" "--pp-size 2 --num-microbatches 2" "--tp-size 2"
    "--shard zero3 --async-save")
make_all
common=(train --config config.json --data-path data --global-batch-size 8 --epochs 6 --threads 1 --no-report)

# The ranks that die: one, two, or all of a machine; never all.
choose() { # RANKS
    local n=$1 first=$((RANDOM % $1)) r
    case $((RANDOM % 4)) in
    0) victims="$first $(((first + 1 + RANDOM % (n - 1)) % n))" ;;
    1)
        victims=
        for ((r = 0; r < n; r++)); do [ $((r / EACH)) != $((first / EACH)) ] || victims+=" $r"; done
        ;;
    *) victims=$first ;;
    esac
    read -ra victims <<<"$victims"
    [ ${#victims[@]} -lt "$n" ] || unset "victims[-1]"
}

# A line for the state file: SEED KILLS DIFFERENCE MS VERDICT.
disturb() { # SEED
    RANDOM=$(($1 * 7919 + 1))
    local options n=$((2 + RANDOM % 3)) step=$((1 + RANDOM % 70)) kills=0 most=0 ms verdict=same victim p
    export EACH=$((1 << RANDOM % 3))
    read -ra options <<<"${shapes[RANDOM % ${#shapes[@]}]}"
    [ "${options[1]:-}" != 2 ] || n=$((n / 2 * 2))
    choose "$n"
    failures=0
    last_command="seed $1: mpirun -np $n, $EACH a machine, ${options[*]}, kills ${victims[*]} after step $step"
    timeout -k 2 60 "${job[@]}" -np "$n" "$work/enter" "$trident" "${common[@]}" --output-dir run --elastic \
        --replicate-state "${options[@]}" >"$out" 2>"$err" &
    local pid=$!
    until [ "$(steps_of run)" -ge "$step" ] || [ ! -d /proc/$pid ]; do sleep 0.003; done
    for victim in "${victims[@]}"; do
        for p in $(process_of run "$victim"); do kill -KILL "$p" && kills=$((kills + 1)); done
    done
    wait $pid
    code=$?
    if [ "${options[0]:-}" = --tp-size ] && [ $((n - ${#victims[@]})) -lt 2 ] && [ $code = 137 ]; then
        verdict=few
    else
        expect_code 0
        once run 72 6
        most=$(apart run calm)
        expect "$last_command: losses, to $most" is "$most" '<=' 2e-6
        [ $failures = 0 ] || verdict=wrong
    fi
    ms=$(sed -n 's/.*"event":"regroup".*"seconds":\([0-9.]*\).*/\1/p' run/metrics.jsonl | head -n 1)
    rm -rf run
    echo "$1 $kills ${most:-9} ${ms:--} $verdict" >>"$state/runs"
}

total() { awk '{ n += $2 } END { print n + 0 }' "$state/runs"; }

state=$work/state
[ $# -gt 0 ] || state=$TRI_BUILD/soak/ulfm-$(cat "$trident" "$here/ulfm.sh" | sha256sum | cut -c 1-12)
mkdir -p "$state" && touch "$state/runs"
run "${common[@]}" --output-dir calm --nproc-per-node 2
expect_code 0
if [ $# -gt 0 ]; then
    disturb "$1"
else
    seed=$(wc -l <"$state/runs") bad=0
    while [ $bad -lt 3 ] && [ "$(total)" -lt "${SOAK_ULFM:-300}" ] && [ $SECONDS -lt "${SOAK_FOR:-1000000}" ]; do
        seed=$((seed + 1))
        disturb $seed
        [ $failures = 0 ] || bad=$((bad + 1))
    done
fi
awk '$4 != "-" { print 1000 * $4 }' "$state/runs" | sort -n | awk '{ t[NR] = $1 }
    END {
        if (NR) printf "death to the next world: %d ms (median), %d ms (longest)\n", t[int((NR + 1) / 2)], t[NR]
    }'
awk '{ k += $2; n[$5]++; if ($3 > most) most = $3 }
    END {
        printf "%d kills in %d runs: %d ended with every step once, losses at most %g apart; ", k, NR, n["same"], most
        printf "%d with too few ranks for a tensor group\n", n["few"]
        exit k == 0 || n["wrong"] > 0
    }' "$state/runs"
