# Runs that are asked to stop at random moments, through their launcher or one of their ranks: exit 75 each time, and
# in the end the weights of the run that nobody disturbed.
. "$(dirname "$0")/../lib/cli_lib.sh"
make_all
stops=${SOAK_STOPS:-100}
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT
RANDOM=${SOAK_SEED:-1}
common=(train --config config.json --data-path data --batch-size 4 --epochs 150 --save-every 1000000 --save-steps 100
    --threads 1 --nproc-per-node 2)
digest() { "$trident" digest "$1" 2>/dev/null; }
# The launcher's handlers are in place: bit 15 of the signals that it catches (or, while ranks run, blocks).
ready() {
    local mask
    mask=$(sed -n 's/^SigCgt:[[:space:]]*//p' "/proc/$pid/status" 2>/dev/null)
    [ -n "$mask" ] && (((16#$mask >> 14) & 1))
}

run "${common[@]}" --output-dir whole --quiet
expect_code 0
stopped=0 runs=0 worst=0
while [ $stopped -lt "$stops" ] && [ $failures -lt 5 ]; do
    last_command="trident ${common[*]}"
    "$trident" "${common[@]}" --output-dir run $([ $((RANDOM % 2)) = 0 ] && echo --async-save) >"$out" 2>"$err" &
    pid=$!
    until ready || [ ! -d /proc/$pid ]; do sleep 0.002; done
    sleep "$((RANDOM % 2)).$((RANDOM % 100))"
    target=$pid
    { read -r -a ranks <"/proc/$pid/task/$pid/children"; } 2>/dev/null
    # A rank that has joined has its handlers, too.
    ((RANDOM % 3 == 0)) && [ ${#ranks[@]} = 2 ] && grep -q '"event":"train"' run/metrics.jsonl 2>/dev/null &&
        target=${ranks[RANDOM % 2]}
    begin=$(date +%s%N)
    kill -TERM "$target" 2>/dev/null
    wait $pid
    code=$?
    took=$((($(date +%s%N) - begin) / 1000000))
    [ $took -gt $worst ] && worst=$took
    if [ $code = 0 ]; then # it had ended before it could hear
        expect "the weights are those of the undisturbed run" test "$(digest run)" = "$(digest whole)"
        rm -rf run && runs=$((runs + 1))
        continue
    fi
    expect_code 75
    stopped=$((stopped + 1))
done
run "${common[@]}" --output-dir run --quiet
expect_code 0
expect "the weights are those of the undisturbed run" test "$(digest run)" = "$(digest whole)"
echo "$stopped stops in $((runs + 1)) runs, each within $worst ms: exit 75, and the same digest"
finish
