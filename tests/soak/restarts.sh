# One run whose ranks are killed at random moments, over and over: while they start, load, compute, save; now and then
# two at once. It is started again each time from its last commit, and ends with the weights of the run that nobody
# disturbed.
#   restarts.sh [RANKS OPTIONS...]      a mesh; without it 3 replicas
. "$(dirname "$0")/../cli_lib.sh"
make_all
[ $# -gt 0 ] || set -- 3 --shard zero2
n=$1
shift
kills=${SOAK_KILLS:-200}
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT
RANDOM=${SOAK_SEED:-1}
epochs=$((kills * 32))
digest() { "$trident" digest "$1" 2>/dev/null; }
mkdir plain && cp data/train.csv plain
common=(train --config config.json --data-path plain --batch-size 4 --save-every 1000000 --save-steps 40 --threads 1
    --nproc-per-node "$n" --log-every 1000 "$@")
starts() { grep -c '^trident: start' "$err"; }
committed() { compgen -G 'run/checkpoint-+([0-9])' >/dev/null; } # not the folder that becomes one
shopt -s extglob

# disturb: trains with kills in between; how many there were is in $killed: fewer, where the run ended first.
disturb() {
    last_command="trident ${common[*]} --epochs $epochs --max-restarts $kills"
    "$trident" "${common[@]}" --epochs "$epochs" --output-dir run --async-save --max-restarts "$((2 * kills))" >"$out" \
        2>"$err" &
    pid=$!
    killed=0 doubles=0
    while [ $killed -lt "$kills" ] && [ -d /proc/$pid ]; do
        ranks=() before=$(starts)
        while [ ${#ranks[@]} -lt "$n" ] && [ -d /proc/$pid ]; do
            read -r -a ranks <"/proc/$pid/task/$pid/children"
        done 2>/dev/null
        # The last comes behind a commit, however slowly ranks start on this machine.
        while [ $killed -eq $((kills - 1)) ] && ! committed && [ -d /proc/$pid ]; do sleep 0.02; done
        case $((RANDOM % 5)) in
        0) sleep 0.0$((RANDOM % 10)) ;; # while they start
        *) sleep "0.$((RANDOM % 9))$((RANDOM % 10))" ;;
        esac
        victims=("${ranks[RANDOM % n]}")
        ((RANDOM % 10)) || { victims=("${ranks[@]:0:2}") && doubles=$((doubles + 1)); }
        kill -9 "${victims[@]}" 2>/dev/null && killed=$((killed + 1))
        until [ "$(starts)" -gt "$before" ] || [ ! -d /proc/$pid ]; do sleep 0.02; done
    done
    wait $pid
    code=$?
    expect_code 0
}

begin=$SECONDS
disturb
while [ "$killed" -lt "$kills" ] && [ "$code" = 0 ]; do # training is faster than this script: a longer run
    epochs=$((4 * epochs))
    rm -rf run
    disturb
done
restarts=$(starts)
expect "started again $restarts times" test "$restarts" -ge "$killed"
resumed=$(grep -c 'continuing from' "$err")
expect "some of them went on from a commit" test "$resumed" -ge 1
expect "killed $killed times" test "$killed" -ge "$kills"
run "${common[@]}" --epochs "$epochs" --output-dir whole --quiet
expect_code 0
expect "the weights are those of the undisturbed run" test "$(digest run)" = "$(digest whole)"
run checkpoint verify run
expect_code 0
expect "nothing half-made is left" test -z "$(ls -d run/*.tmp* 2>/dev/null)"
echo "$killed kills ($doubles of two ranks at once), $restarts restarts, $resumed of them from a commit," \
    "$((SECONDS - begin)) s: the same digest"
finish
