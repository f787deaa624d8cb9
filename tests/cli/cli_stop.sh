# Runs that are asked to stop, crash and resume: exit 75 with a checkpoint, restarts from the last commit, and finally
# the weights of an undisturbed run.
# timeout: 300
. "$(dirname "$0")/../lib/cli_lib.sh"
make_all
mkdir plain && cp data/train.csv plain # without validation there is no best model to save at each epoch
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE SLURM_JOB_END_TIME
common=(train --config config.json --data-path plain --batch-size 4 --epochs 24 --threads 1 --save-every 1000
    --save-steps 40)
digest() { "$trident" digest "$1" 2>/dev/null; }
steps() { grep -c '"event":"train"' "$1/metrics.jsonl" 2>/dev/null; }
seen() { [ "$(steps "$1")" -ge "$2" ] || [ ! -d "/proc/$pid" ]; } 2>/dev/null
# FOLDER STEPS (metrics.jsonl is flushed every two seconds and at checkpoints)
await() { until seen "$1" "$2"; do sleep 0.02; done; }
start() { # FOLDER ARGS...: in the background; $pid
    local folder=$1
    shift
    last_command="trident ${common[*]} --output-dir $folder $*"
    : >"$err"
    "$trident" "${common[@]}" --output-dir "$folder" "$@" >"$out" 2>"$err" &
    pid=$!
}
stop() { # its exit code is $code, the milliseconds $took
    local begin
    begin=$(date +%s%N)
    wait "$pid"
    code=$?
    took=$((($(date +%s%N) - begin) / 1000000))
}
ranks_of() { read -r -a ranks <"/proc/$pid/task/$pid/children"; } 2>/dev/null

run "${common[@]}" --output-dir whole --nproc-per-node 2 --quiet
expect_code 0
run "${common[@]}" --output-dir lone --quiet
expect_code 0

# ---- Millions of epochs begin at once, and a signal ends them ----
for ranks in 1 2; do
    start long --nproc-per-node $ranks --epochs 5000000
    begin=$(date +%s)
    await long 1
    expect "the first step is taken ($(($(date +%s) - begin)) s)" test "$(steps long)" -ge 1
    kill -TERM "$pid"
    stop
    expect_code 75
    expect "it stops ($took ms)" test "$took" -lt 20000
    rm -rf long
done
rejects 2 "${common[@]}" --output-dir long --epochs 5000000 --max-tokens 20
rm -rf long

# ---- A signal to the launcher, to a rank, to a process that is alone ----
for signal in TERM INT USR1; do
    rm -rf asked
    start asked --nproc-per-node 2
    await asked 30
    kill -$signal "$pid"
    stop
    expect_code 75
    expect_text "$err" "is saved: run again to continue" \
        "trident: stopping: the ranks finish the step in progress, or the next one"
    expect "answered once, not by every rank" test "$(grep -c stopping "$err")" = 1
    expect "no error.json" test ! -e asked/error.json
    run "${common[@]}" --output-dir asked --nproc-per-node 2
    expect_code 0
    expect_text "$err" "continuing from asked/checkpoint-"
    expect "after SIG$signal, the same weights" test "$(digest asked)" = "$(digest whole)"
done
rm -rf asked
start asked --nproc-per-node 2 --async-save
await asked 30
ranks_of
kill -TERM "${ranks[1]}"
stop
expect_code 75
run "${common[@]}" --output-dir asked --nproc-per-node 2 --quiet
expect "after a signal to one rank, the same weights" test "$(digest asked)" = "$(digest whole)"
rm -rf asked
start asked
await asked 30
kill -TERM "$pid"
stop
expect_code 75
expect_text "$err" "trident: stopped at step" "(SIGTERM)" "run again to continue"
first=$(grep '^trident: ' "$err" | head -n 1)
expect "the answer comes first: $first" \
    grep -q 'stopping: the step in progress is finished and saved; once more' <<<"$first"
run "${common[@]}" --output-dir asked --quiet
expect "a process alone goes on, too" test "$(digest asked)" = "$(digest lone)"

# ---- While it validates: at once, and the validation is made up for ----
mkdir long && cp data/train.csv long && make_table long/valid.csv 60000 96
long=(train --config config.json --data-path long --batch-size 4 --epochs 2 --threads 1 --nproc-per-node 2
    --log-every 12)
run "${long[@]}" --output-dir quiet
expect_code 0
last_command="trident ${long[*]}"
: >"$err"
"$trident" "${long[@]}" --output-dir asked2 >"$out" 2>"$err" &
pid=$!
until grep -q 'step 12/24' "$err" || [ ! -d /proc/$pid ]; do sleep 0.02; done # its first line: the epoch's last step
kill -TERM "$pid"
stop
expect_code 75
expect "the manifest says what is left" grep -q '"validate": true' asked2/checkpoint-12/manifest.json
run "${long[@]}" --output-dir asked2
expect_code 0
expect "both epochs are validated" test "$(grep -c '"event":"epoch"' asked2/metrics.jsonl)" = 2
expect "and the weights are the same" test "$(digest asked2)" = "$(digest quiet)"

# ---- While ranks start: nothing is trained, and it is no failure ----
rm -rf early
start early --nproc-per-node 8
ranks=()
while [ ${#ranks[@]} = 0 ] && [ -d "/proc/$pid" ]; do ranks_of; done
kill -TERM "$pid"
stop
expect_code 75
expect "no failure is said" test "$(grep -c 'killed by' "$err")" = 0
expect "and no step is promised" test "$(grep -c 'finish the step' "$err")" = 0

# ---- A second signal: at once ----
rm -rf twice
start twice --nproc-per-node 2
await twice 30
ranks_of
kill -STOP "${ranks[1]}" # the step cannot end
kill -TERM "$pid"
sleep 0.6
expect "it waits for the step" test -d "/proc/$pid"
expect "it has answered, though no step can end" grep -q "trident: stopping: the ranks" "$err"
kill -TERM "$pid"
stop
expect_code 143
expect "it ends at once ($took ms)" test "$took" -lt 2000
expect "no rank is left" gone 1000 "${ranks[@]}"

# ---- A process that is alone: the second signal is answered, too. Checkpoints off: said ----
rm -rf alone
start alone --save-every 0 --save-steps 0 --epochs 9999
until grep -q 'step 1/' "$err" || [ ! -d "/proc/$pid" ]; do sleep 0.02; done
kill -INT "$pid"
stop
expect_code 75
expect_text "$err" "trident: stopping after the step in progress; nothing is saved, since checkpoints are off"
mkfifo pipe
"$trident" supervise -- sh -c 'trap "" TERM INT USR1; echo $$ >pipe; while :; do sleep 0.1; done' 2>"$err" >"$out" &
pid=$!
read -r deaf <pipe
kill -INT "$pid"
sleep 0.6
expect_text "$err" "trident: stopping: the job is told; once more ends it at once"
expect "saving is promised only of a run that saves" test "$(grep -c 'save' "$err")" = 0
kill -INT "$pid"
stop
expect_code 130
expect_text "$err" "trident: ended at once by a second signal"
kill -9 "$deaf" # it hears nothing else, also when its supervisor ends

# ---- A job whose end is near ----
SLURM_JOB_END_TIME=$(($(date +%s) + 33)) start slurm --epochs 3000 --nproc-per-node 2
stop
expect_code 75
expect "before the job's end ($took ms)" test "$took" -lt 20000
expect "with a checkpoint" test -n "$(ls -d slurm/checkpoint-* 2>/dev/null)"

# ---- Killed ranks: started again from the last commit ----
rm -rf killed
start killed --nproc-per-node 2 --max-restarts 3 --resume never
for i in 1 2 3; do
    await killed $((40 * i))
    sleep 0.05
    ranks_of
    victim=${ranks[i % 2]:-}
    [ -n "$victim" ] && kill -9 "$victim"
    gone 3000 $victim
done
stop
expect_code 0
expect_text "$err" "killed by signal 9 (SIGKILL)" "trident: start 2 of 4" "trident: start 4 of 4" \
    "continuing from killed/checkpoint-"
expect "killed three times, the same weights" test "$(digest killed)" = "$(digest whole)"
expect "no error.json after success" test ! -e killed/error.json
rm -rf killed
start killed --nproc-per-node 2 --max-restarts 1
for i in 1 2; do
    await killed $((40 * i))
    sleep 0.05
    ranks_of
    [ -n "${ranks[0]:-}" ] && kill -9 "${ranks[0]}"
    gone 3000 "${ranks[0]}"
done
stop
expect_code 137
expect "error.json after the last" grep -q '"code": *137' killed/error.json
make_config huge.json '"lr": 1e30' '"warmup_steps": 0'
run train --config huge.json --data-path data --output-dir huge --epochs 30 --quiet --nproc-per-node 2 --max-restarts 3
expect_code 79
expect "what would happen again is not tried again" test "$(grep -c 'start 2 of' "$err")" = 0

# ---- Under mpirun ----
rejects 2 supervise
rejects 66 supervise -- no-such-program
run supervise --max-restarts 1 --restart-delay 0 -- sh -c 'echo once; exit 76'
expect_code 76
expect "started twice" test "$(grep -c once "$out")" = 2
# A launcher's exit codes are not ours: 1 is not a library that got no memory, 127 is what a shell did not find.
for n in 1 3 126 127 255; do
    run supervise -- sh -c "exit $n"
    expect_code "$n"
    expect_text "$err" "sh ended with exit code $n"
done
rejects 66 supervise -- ./data/train.csv

# Each pause is twice as long as the one before, until a checkpoint was saved.
mkdir -p pauses
run supervise --max-restarts 5 --restart-delay 0.1 --output-dir pauses -- sh -c '
    echo >>pauses/starts
    [ "$(wc -l <pauses/starts)" = 4 ] && mkdir pauses/checkpoint-4
    exit 76'
expect_code 76
expect "pauses: $(sed -n 's/.* in //p' "$err" | tr '\n' ,)" \
    test "$(sed -n 's/.* start [2-6] of 6 in //p' "$err" | tr '\n' ,)" = '0.1 s,0.2 s,0.4 s,0.1 s,0.2 s,'
last_command="trident supervise, stopped in a pause"
: >"$err" # the last command's has such a line
"$trident" supervise --max-restarts 5 --restart-delay 60 -- sh -c 'exit 76' >"$out" 2>"$err" &
pid=$!
until grep -q 'start 2 of 6' "$err" || [ ! -d "/proc/$pid" ]; do sleep 0.02; done
kill -TERM "$pid"
stop
expect_code 75
expect "at once ($took ms)" test "$took" -lt 2000
expect_text "$err" "the job does not run at the moment"

# A launcher whose ranks never meet is ended, and started again; one whose run has begun is not.
mkdir -p hangs
run supervise --max-restarts 1 --restart-delay 0 --start-timeout 0.5 -- sh -c 'echo >>starts; exec sleep 60' \
    trident train --data-path data --output-dir hangs
expect_code 71
expect_text "$err" "no rank has reached hangs within 0.5 s of the start of sh: terminating it (--start-timeout" \
    "trident: the ranks of sh did not meet within 0.5 s"
expect "started twice" test "$(wc -l <starts)" = 2
run supervise --start-timeout 1 --output-dir hangs -- sh -c 'sleep 0.3; echo >hangs/.probe-0; sleep 2; exit 3'
expect_code 3

# A launcher that ends with 0 while its ranks go on, or are dead: what counts is the result in the run folder.
cat >loses <<'END'
#!/bin/bash
# FOLDER MODE: orphans finish the run, or end without a result once
echo start >>"$1/starts"
case $2 in
later) (exec -a trident setsid bash -c "sleep 1; echo '{}' >$1/summary.json") & ;;
again) [ "$(wc -l <"$1/starts")" = 1 ] || echo "{\"start\": 2}" >"$1/summary.json" ;;
failed) (sleep 0.5; echo '{"code": 79}' >"$1/error.json") & ;;
esac
exit 0
END
chmod +x loses
for mode in later again failed; do
    mkdir -p "lost-$mode"
    echo '{"of": "an earlier run"}' >"lost-$mode/summary.json"
    run supervise --max-restarts 1 --restart-delay 0 -- ./loses "lost-$mode" $mode trident train --data-path data \
        --output-dir "lost-$mode" --progress-timeout 0.25
    expect_text "$err" "loses ended with exit code 0, but its run has not written its results in lost-$mode"
    expect_code $([ $mode = failed ] && echo 79 || echo 0)
    expect "$mode: starts" test "$(wc -l <"lost-$mode/starts")" = $([ $mode = again ] && echo 2 || echo 1)
done
rm lost-again/*
run supervise -- ./loses lost-again again trident train --output-dir lost-again --progress-timeout 0.25
expect_code 137
expect_text "$err" "its run is not complete (lost-again has no new summary.json), and no rank of it gives a sign"
last_command="trident supervise -- sleep, two signals"
"$trident" supervise -- sh -c 'trap "" USR1; exec sleep 60' >"$out" 2>"$err" &
pid=$!
ranks=()
while [ ${#ranks[@]} = 0 ]; do ranks_of; done
sleep 0.3 # it executes
kill -TERM "$pid"
sleep 0.7
expect "a deaf command goes on after the first" test -d "/proc/$pid"
kill -TERM "$pid"
stop
expect_code 143
expect "and ends with its supervisor" gone 2000 "${ranks[@]}"

# A launcher that outlives its ranks, is deaf to SIGTERM, and has a child in another process group: both are ended 15 s
# after the ranks' error.json, and the launcher is started again. The run folder is that of `trident train` in its
# command, or --output-dir.
mkdir over over2 over3
cat >outlives <<'END'
#!/bin/bash
[ "$2" = train ] && folder=$4 || folder=over2 # trident train --output-dir FOLDER
echo start >>"$folder/starts"
[ "$(wc -l <"$folder/starts")" = 1 ] || { echo '{}' >"$folder/summary.json" && exit 0; }
trap "" TERM
setsid sleep 300 &
echo $! >"$folder/child"
echo "{\"code\": 76, \"message\": \"rank 1: gave no sign of life\", \"time\": $(date +%s)}" >"$folder/error.json"
while :; do sleep 1; done
END
chmod +x outlives
echo '{"code": 76, "message": "of an earlier run", "time": 1}' >over2/error.json
"$trident" supervise --max-restarts 1 --output-dir over2 -- ./outlives >over2/out 2>over2/err &
second=$!
# A launcher that starts its ranks again by itself: the run that begins removes the report, and nothing is ended.
"$trident" supervise --output-dir over3 -- sh \
    -c 'echo "{\"code\": 76}" >over3/error.json; sleep 2; rm over3/error.json; sleep 11; exit 3' >over3/out 2>&1 &
third=$!
run supervise --max-restarts 1 -- ./outlives trident train --output-dir over
expect_code 0
expect_text "$err" "the ranks have failed (over/error.json)" "start 2 of 2"
expect "started twice" test "$(wc -l <over/starts)" = 2
expect "nothing of the first start is left" gone 1 "$(cat over/child)"
last_command="trident supervise --output-dir over2 -- ./outlives"
wait "$second"
code=$?
expect_code 0
expect_text over2/err "the ranks have failed (over2/error.json)"
expect "started twice" test "$(wc -l <over2/starts)" = 2
last_command="trident supervise --output-dir over3 -- one that starts its ranks again by itself"
wait "$third"
code=$?
expect_code 3

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
if [ -e "$TRI_BUILD/libtrident_mpi.so" ] && mpirun --version 2>/dev/null | grep -q 'Open MPI' &&
    [ -z "${TRI_SANITIZED:-}" ]; then
    under_mpi() { # FOLDER: in the background
        last_command="trident supervise -- mpirun -np 2 trident train --output-dir $1"
        "$trident" supervise --max-restarts 2 -- mpirun --oversubscribe --bind-to none -np 2 "$trident" "${common[@]}" \
            --output-dir "$1" --save-steps 2 --keep 2 >"$out" 2>"$err" </dev/null & # saving makes it last long enough
        pid=$!
    }
    under_mpi mpi
    await mpi 30
    kill -TERM "$pid"
    stop
    expect_code 75
    under_mpi mpi
    await mpi 120
    rank=$(pgrep -P "$(pgrep -P "$pid")" | tail -n 1) # of the supervisor's mpirun, and of nobody else's
    expect "a rank of mpirun to kill" kill -9 "${rank:-none}"
    stop
    expect_code 0
    expect_text "$err" "start 2 of 3"
    expect "under mpirun, stopped and killed: the same weights" test "$(digest mpi)" = "$(digest whole)"
else
    echo "left out: mpirun (no Open MPI here, no plug-in, or a sanitizer)"
fi

# ---- predict and eval: they say what they do, write nothing, and end with 75 ----
make_table many.csv 60000 0
for command in "predict --nproc-per-node 1" "predict --nproc-per-node 2" "eval --nproc-per-node 1"; do
    : >"$err"
    written=; [ "${command%% *}" = eval ] || written="-o stopped.csv"
    last_command="trident $command, and SIGINT"
    "$trident" $command --checkpoint whole --data-path many.csv --threads 1 --batch-size 4 $written \
        >"$out" 2>"$err" &
    pid=$!
    until grep -q "60,000 rows" "$err" || [ ! -d "/proc/$pid" ]; do sleep 0.02; done
    kill -INT "$pid"
    wait "$pid"
    code=$?
    expect_code 75
    expect_text "$err" "stopping after the batch of rows in progress; nothing is written" "run again"
    expect "nothing is written" test ! -e stopped.csv -a ! -s "$out"
done
# One of two ranks is stopped before the other, which waits for it when the first batch begins.
last_command="trident predict on two ranks, and SIGINT to one"
"$trident" predict --nproc-per-node 2 --checkpoint whole --data-path many.csv --threads 1 --batch-size 4 \
    -o stopped.csv >"$out" 2>"$err" &
pid=$!
until rank=$(pgrep -P "$pid" -x trident:1) || [ ! -d "/proc/$pid" ]; do sleep 0.01; done
kill -INT "$rank"
wait "$pid"
code=$?
expect_code 75
expect_text "$err" "stopped; run again"
expect "nothing is written" test ! -e stopped.csv -a ! -s "$out"
finish
