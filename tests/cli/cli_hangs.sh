# Hangs told apart: a rank that is stopped, a file call that never ends, one that is only slow, a slow disk, a slow
# rank. Each is named with its rank, call, file and time, or is no alarm at all.
# timeout: 240
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib/cli_lib.sh"
[ -z "${TRI_SANITIZED:-}" ] || { echo "sanitizers want to be loaded first"; exit 77; }
make_all
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT
${CC:-cc} -O1 -shared -fPIC -o "$work/slow.so" "$here/../hangs/slow.c" -ldl || exit 1
common=(train --config config.json --data-path data --batch-size 4 --epochs 2 --threads 1 --quiet)

# slow CALL FILE SECONDS RANK ARGS...: two ranks with slow calls
slow() {
    local call=$1 file=$2 seconds=$3 rank=$4
    shift 4
    last_command="SLOW_CALL=$call SLOW_FILE=$file SLOW_SECONDS=$seconds SLOW_RANK=$rank trident $*"
    LD_PRELOAD="$work/slow.so" SLOW_CALL=$call SLOW_FILE=$file SLOW_SECONDS=$seconds SLOW_RANK=$rank \
        "$trident" "$@" >"$out" 2>"$err"
    code=$?
}
# How long the file call had taken when it was reported.
reported_after() { sed -n 's/.* for \([0-9.]*\) s: the disk.*/\1/p' "$err" | head -n 1; }

# ---- An fsync that never ends: the rank, the call and the file are named when --io-timeout is over ----
for way in "" --async-save; do
    slow fsync weights- 100 1 "${common[@]}" --output-dir "stuck$way" --nproc-per-node 2 --progress-timeout 1 \
        --io-timeout 3 --tp-size 2 $way
    expect_code 74
    expect_text "$err" "warning: rank 1 has been in fsync of " "rank 1: has been in fsync of " "weights-00001" \
        "--io-timeout"
    expect "named within a second of its time" is "$(reported_after)" "<" 4
    expect_text "stuck$way/error.json" '"code": 74' '"rank": 1' "see whether that disk answers"
done

# All ranks at once, and the supervisor, whose own file lies on the same disk: nobody waits for a rank, and it ends.
begin=$SECONDS
slow fsync 'weights-|error.json' 100 "" "${common[@]}" --output-dir dead --nproc-per-node 2 --progress-timeout 1 \
    --io-timeout 3 --tp-size 2
expect_code 74
expect_text "$err" "has been in fsync of "
expect "the supervisor does not wait for that disk" test $((SECONDS - begin)) -lt 60
expect "there was no way to write it" test ! -e dead/error.json

# ---- One that only takes long: said, and waited for; the others are told nothing ----
for way in "" --async-save; do
    SLOW_TIMES=1 slow fsync weights- 3 1 "${common[@]}" --output-dir "slow$way" --nproc-per-node 2 \
        --progress-timeout 1 --io-timeout 60 --tp-size 2 $way
    expect_code 0
    [ -n "$way" ] || expect_text "$err" "warning: rank 1 has been in fsync of "
    expect "no rank failed" test ! -e "slow$way/error.json"
done

# ---- Reading: the loader's thread does it, and the rank waits for it ----
slow pread .tokens 100 1 "${common[@]}" --output-dir unread --nproc-per-node 2 --progress-timeout 1 --io-timeout 3
expect_code 74
expect_text "$err" "rank 1: has been in read of " ".tokens for "
# A slow disk: no single call takes long, all together do.
slow pread .tokens 0.1 1 "${common[@]}" --output-dir slowly --nproc-per-node 2 --progress-timeout 1 --io-timeout 2 \
    --max-steps 6
expect_code 0

# ---- A rank that is stopped, wherever it is: --progress-timeout, and no longer ----
"$trident" "${common[@]}" --epochs 100000 --save-every 0 --output-dir stopped --nproc-per-node 2 \
    --progress-timeout 2 --io-timeout 60 >"$out" 2>"$err" &
pid=$! last_command="trident train, and rank 1 is stopped"
until [ -e stopped/metrics.jsonl ] || [ ! -d /proc/$pid ]; do sleep 0.05; done
for child in $(cat "/proc/$pid/task/$pid/children"); do
    [ "$(rank_of "$child")" != 1 ] || { kill -STOP "$child" && stopped=$child; }
done
wait "$pid"
code=$?
expect_code 76
expect_text "$err" "rank 1: hangs: no progress for " "process $stopped: its process is stopped (SIGSTOP"

# ---- Ranks that a launcher started watch one another: the same words ----
export WORLD_SIZE=2 MASTER_PORT=$((20000 + $$ % 20000))
for rank in 0 1; do
    RANK=$rank LD_PRELOAD="$work/slow.so" SLOW_CALL=fsync SLOW_FILE=weights- SLOW_SECONDS=100 SLOW_RANK=1 \
        "$trident" "${common[@]}" --output-dir alone --progress-timeout 1 --io-timeout 3 --tp-size 2 >"$out.$rank" \
        2>"$err.$rank" &
    pids[rank]=$!
done
wait "${pids[0]}"
code=$?
last_command="two ranks by hand, and rank 1 saves for ever"
cp "$err.0" "$err"
expect_code 74
expect_text "$err" "rank 1: has been in fsync of " "weights-00001"
expect_text "$err.1" "warning: rank 1 has been in fsync of "
kill -KILL "${pids[1]}" 2>/dev/null
finish
