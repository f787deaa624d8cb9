# No false alarm: eight ranks on few cores, beside busy programs, on a disk whose fsync takes longer than the progress
# timeout now and then, while single ranks, the supervisor or all of them stand still for a moment again and again,
# always for less than it. All timeouts are a tenth of their defaults. The run must go on to the end of the time, and
# then stop in good order.
here=$(cd "$(dirname "$0")/.." && pwd)
. "$here/lib/cli_lib.sh"
make_all
seconds=${SOAK_SECONDS:-180}
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT
RANDOM=${SOAK_SEED:-1}
${CC:-cc} -O1 -shared -fPIC -o "$work/slow.so" "$here/hangs/slow.c" -ldl || exit 1
last_command="trident train --nproc-per-node 8 --progress-timeout 3 --io-timeout 60"
LD_PRELOAD="$work/slow.so" SLOW_CALL=fsync SLOW_FILE=weights- SLOW_SECONDS=6 SLOW_RANK=4 SLOW_EVERY=3 \
    "$trident" train --config config.json --data-path data --output-dir run --batch-size 4 --epochs 100000 \
    --save-steps 200 --keep 2 --save-every 0 --tp-size 2 \
    --nproc-per-node 8 --progress-timeout 3 --io-timeout 60 >"$out" 2>"$err" &
pid=$!
epochs() { grep -c '^epoch' "$err"; }
until [ "$(epochs)" -gt 0 ] || [ ! -d /proc/$pid ]; do sleep 0.1; done 2>/dev/null
read -r -a ranks <"/proc/$pid/task/$pid/children"
end=$((SECONDS + seconds)) stops=0
while [ $SECONDS -lt $end ] && [ -d /proc/$pid ]; do
    case $((RANDOM % 10)) in
    0) targets=("$pid") pause=1 ;;                   # nobody watches
    1) targets=("$pid" "${ranks[@]}") pause=1 ;;     # as Ctrl-Z does
    *) targets=("${ranks[RANDOM % 8]}") pause=0.2 ;;
    esac
    kill -STOP "${targets[@]}" 2>/dev/null
    sleep $pause
    kill -CONT "${targets[@]}" 2>/dev/null
    stops=$((stops + 1))
    sleep 0.$((RANDOM % 5))
done
slow='^trident: warning: rank 4 has been in fsync of .*weights-'
expect "the job still runs" test -d /proc/$pid
expect "nothing was said to have failed" test "$(grep '^trident: ' "$err" | grep -vc "$slow")" = 0
expect "it got on" is "$(epochs)" '>' 10
kill -TERM $pid
wait $pid
code=$?
expect "it stops when asked (exit $code)" test "$code" = 143 -o "$code" = 75
expect "no rank is left" gone 2000 "${ranks[@]}"
echo "$seconds s, $stops times stopped and continued, $(epochs) epochs, $(grep -c "$slow" "$err") slow saves said:" \
    "no alarm"
finish
