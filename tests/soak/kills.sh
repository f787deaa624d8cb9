# Ranks of real jobs are killed at any moment, training and operations by turns; every tenth time it is the supervisor.
# The failure names the rank, the exit code is the signal's, nothing is left behind.
. "$(dirname "$0")/../lib/cli_lib.sh"
make_all
kills=${SOAK_KILLS:-200}
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT
RANDOM=${SOAK_SEED:-1}
names() { ls /dev/shm | grep -v fuzz | grep -c trident; } # fuzzers may run beside
shared=$(names)

# A job that would last for minutes; $pid is its supervisor.
start_training() {
    rm -rf run
    last_command="trident train --nproc-per-node 4"
    "$trident" train --config config.json --data-path data --output-dir run --batch-size 4 --epochs 2000 \
        --save-steps 40 --keep 2 --save-every 0 \
        --nproc-per-node 4 >"$out" 2>"$err" &
    pid=$!
}
start_operations() {
    last_command="trident bench comm --nproc-per-node 4"
    "$trident" bench comm --nproc-per-node 4 --op all --sizes 4K,1M,8M,25M,100M --json >"$out" 2>"$err" &
    pid=$!
}
read_ranks() { read -r -a ranks <"/proc/$pid/task/$pid/children"; } 2>/dev/null

# Until there are ranks, and then up to 1.2 s more: while they start, load, compute, save.
wait_for_a_moment() {
    ranks=()
    while [ ${#ranks[@]} = 0 ] && [ -d "/proc/$pid" ]; do read_ranks; done
    case $((RANDOM % 4)) in
    0) sleep 0.0$((RANDOM % 100)) ;;
    *) sleep "$((RANDOM % 2)).$((RANDOM % 10))" ;;
    esac
    read_ranks
}

times=()
for ((i = 1; i <= kills; i++)); do
    if ((i % 2)); then start_training; else start_operations; fi
    wait_for_a_moment
    if ((i % 10 == 0)); then
        kill -9 "$pid"
        expect "round $i: all ranks end with their supervisor within 1 s" gone 1000 "${ranks[@]}"
        { wait "$pid"; } 2>/dev/null
        continue
    fi
    [ ${#ranks[@]} -gt 0 ] || { fail "round $i: the job ended by itself" && break; }
    victim=${ranks[RANDOM % ${#ranks[@]}]} rank=
    # empty until it has begun to execute
    while [ -z "$rank" ] && [ -d "/proc/$victim" ]; do rank=$(rank_of "$victim"); done 2>/dev/null
    begin=$(date +%s%N)
    kill -9 "$victim"
    wait "$pid"
    code=$?
    took=$((($(date +%s%N) - begin) / 1000000))
    times+=("$took")
    expect_code 137
    expect_text "$err" "trident: rank $rank: killed by signal 9 (SIGKILL)"
    expect "round $i: the failure is said once" test "$(grep -c 'killed by signal' "$err")" = 1
    expect "round $i: it ends soon ($took ms)" test "$took" -lt 3000
    ((i % 2)) && sed -n 's/.*"phase": *"\([^"]*\)".*/\1/p' run/error.json | head -n 1 >>phases
    expect "round $i: no rank is left" gone 1000 "${ranks[@]}"
    [ "$failures" -lt 5 ] || break
done
expect "no name in /dev/shm is new" test "$(names)" = "$shared"
echo "training was killed: $(sort phases | uniq -c | sort -rn |
    awk '{ n = $1; $1 = ""; printf "%s%d times%s", (NR > 1 ? ", " : ""), n, $0 }')"
printf '%s\n' "${times[@]}" | sort -n | awk '{ t[NR] = $1 }
    END { printf "%d ranks killed: the job had ended after %d ms (median), %d ms (worst)\n",
        NR, t[int((NR + 1) / 2)], t[NR] }'
finish
