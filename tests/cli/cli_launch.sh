# Launching: which process starts ranks, what is refused, how failures are reported, and that nothing is left behind.
# timeout: 180
. "$(dirname "$0")/../lib/cli_lib.sh"
make_all
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT SLURM_PROCID OMPI_COMM_WORLD_RANK PMI_RANK
command="train --config config.json --data-path data --output-dir run --batch-size 8 --max-steps 1 --resume never"
train() { echo "$command"; }

# bench_ranks N ARGS...: a run that lasts, in the background; its supervisor is $pid, its ranks' processes ${ranks[@]}
# in order.
bench_ranks() {
    local n=$1
    shift
    last_command="trident bench comm --nproc-per-node $n $*"
    "$trident" bench comm --nproc-per-node "$n" --op all --sizes 4K,1M,8M,25M --json "$@" >"$out" 2>"$err" &
    pid=$!
    ranks=()
    while [ ${#ranks[@]} -lt "$n" ]; do
        sleep 0.01
        read -r -a ranks <"/proc/$pid/task/$pid/children"
    done
    until [ -s "$out" ] || [ ! -d /proc/$pid ]; do sleep 0.02; done # into the operations
}
finish_bench() { # waits for it; its exit code is $code, the milliseconds $took
    local begin
    begin=$(date +%s%N)
    wait "$pid"
    code=$?
    took=$((($(date +%s%N) - begin) / 1000000))
}
# A rank is killed: the others end, the block names it, the exit code is the signal's.
bench_ranks 4
expect "ranks are numbered in order" test "$(rank_of "${ranks[2]}")" = 2
expect "their memory has no name" grep -q '/memfd:trident (deleted)' "/proc/${ranks[2]}/maps"
expect "nothing of theirs is in /dev/shm" test "$(cat /proc/"${ranks[2]}"/maps | grep -c /dev/shm)" = 0
kill -9 "${ranks[2]}"
finish_bench
expect_code 137
expect_text "$err" "trident: rank 2: killed by signal 9 (SIGKILL)" "its peak was" "try" "operation" "last "
expect "the other ranks' ends are said" grep -q '^  others  *rank.* exit code 137' "$err"
expect "the failure is said once" test "$(grep -c '^trident: ' "$err")" = 1
expect "nothing said by the ranks" test "$(grep -c '^\[rank' "$err")" = 0
expect "it ends soon ($took ms)" test "$took" -lt 3000
expect "no rank is left" gone 1000 "${ranks[@]}"

# The supervisor is killed: so are its ranks.
bench_ranks 4
kill -9 "$pid"
expect "all ranks end within 1 s" gone 1000 "${ranks[@]}"
finish_bench
expect_code 137

# A rank stands still.
bench_ranks 3 --progress-timeout 4
kill -STOP "${ranks[1]}"
finish_bench
expect_code 76
expect_text "$err" "trident: rank 1: hangs" "--progress-timeout"
expect "it is said soon ($took ms)" test "$took" -lt 12000
expect "no rank is left" gone 1000 "${ranks[@]}"

# Signals to the supervisor.
for signal in TERM INT USR1; do
    bench_ranks 2
    kill -$signal "$pid"
    finish_bench
    expect_code $((128 + $(kill -l $signal)))
    expect_text "$err" "stopped by signal"
    expect "no rank is left" gone 1000 "${ranks[@]}"
done

# A rank that ends while the others still start: error.json. Now and then all have ended before it is found: then again.
for ((tries = 0, code = 0; tries < 20 && code != 137; tries++)); do
    rm -rf run
    args=$(train) # not below: the shell's own child for it would be the first one found
    "$trident" $args --nproc-per-node 24 >"$out" 2>"$err" &
    pid=$!
    first=
    while [ -z "$first" ] && [ -d /proc/$pid ]; do read -r first _ <"/proc/$pid/task/$pid/children"; done 2>/dev/null
    kill -9 "$first" 2>/dev/null
    finish_bench
done
expect_code 137
expect_text "$err" "trident: rank 0: killed by signal 9 (SIGKILL)"
expect "the failure is said once" test "$(grep -c 'killed by signal' "$err")" = 1
expect "runs of ranks are short" grep -q '^  others .*[0-9]-[0-9]' "$err"
tr -d '\n ' <run/error.json >error
expect_text error '"rank":0' '"code":137' '"phase":' '"cause":"killedbysignal9(SIGKILL)"' '"time":' '"ranks":[{' \
    '"exit":137' '"life":'

# A rank that is killed in the middle of training: the step is known.
rm -rf run
last_command="trident train, rank 1 killed"
"$trident" $args --nproc-per-node 2 --epochs 3000 --max-steps 0 --save-every 0 >"$out" 2>"$err" &
pid=$!
until [ "$(grep -c '"event": *"train"' run/metrics.jsonl 2>/dev/null)" -ge 3 ] || [ ! -d /proc/$pid ]; do
    sleep 0.05
done 2>/dev/null
read -r -a ranks <"/proc/$pid/task/$pid/children"
kill -9 "${ranks[1]}"
finish_bench
expect_code 137
expect_text "$err" "trident: rank 1: killed by signal 9 (SIGKILL)" "where      step"
expect "the failure is said once" test "$(grep -c 'killed by signal' "$err")" = 1
expect "its step is in error.json" is "$(json_number step run/error.json)" '>=' 1
expect "no rank is left" gone 1000 "${ranks[@]}"

# Ranks on this machine: the first lines.
rm -rf run
cores=$(nproc) each="$((cores / 4)) threads"
[ "$cores" -ge 8 ] || each="1 thread"
run $(train) --nproc-per-node 4 --warmup-steps 0
expect_code 0
expect_text "$err" "launcher   trident: 4 ranks, 4 on this machine" "mesh       pp=1 tp=1 dp=4" \
    "batch      8 on each replica, 32 in all" \
    "transport  shm" "device     cpu, $each a rank"
expect "the first line is the launcher's" test "$(head -c 8 "$err")" = launcher
run $(train) --nproc-per-node 2 --quiet
expect "--quiet leaves the first lines out" test "$(grep -c ^launcher "$err")" = 0

# Log files.
run $(train) --nproc-per-node 3 --redirects 3 --log-dir logs --rdzv-id job
expect "a tree of logs" test -s logs/job_*/attempt_0/0/stderr.log
expect "rank 0's lines are there" grep -q ^launcher logs/job_*/attempt_0/0/stderr.log
expect "a log for each rank" test -e logs/job_*/attempt_0/2/stdout.log
rejects 2 $(train) --nproc-per-node 2 --tee 7
rejects 2 $(train) --nproc-per-node 2 --local-ranks-filter 2

# Several machines: MPI, and how.
rejects 2 $(train) --nnodes 2 --nproc-per-node 4 --rdzv-endpoint h1:29400 --node_rank=1
expect_text "$err" "mpirun -np 8 -H h1:4,HOST2:4 trident $command" \
    "srun -N 2 -n 8 --ntasks-per-node=4 --mpi=pmi"
rejects 2 $(train) --nproc-per-node 2 --rdzv-endpoint=localhost:0
expect_text "$err" "mpirun -np 2"
rejects 2 $(train) --nproc-per-node 2 --rdzv-backend c10d
expect_text "$err" "mpirun"
SLURM_JOB_NODELIST='n[08-10]' rejects 2 $(train) --nproc-per-node 2 --nnodes 2
expect_text "$err" "-H n08:2,n09:2 trident"
cp config.json 'a b.json'
rejects 2 train --config 'a b.json' --data-path data --nnodes 2
expect_text "$err" "--config 'a b.json'"
run $(train) --nproc-per-node 2 --standalone --rdzv-backend c10d --rdzv-endpoint localhost:0
expect_text "$err" "2 ranks, 2 on this machine"
rejects 2 $(train) --transport mpi
RANK=4 WORLD_SIZE=8 LOCAL_RANK=0 LOCAL_WORLD_SIZE=4 rejects 2 $(train)
expect_text "$err" "mpirun -np 8"

# What a launcher says counts, unless it contradicts.
RANK=0 WORLD_SIZE=2 rejects 2 $(train) --world-size 3
RANK=0 WORLD_SIZE=2 rejects 2 $(train) --nproc-per-node 4
RANK=0 WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 rejects 2 $(train)
RANK=2 WORLD_SIZE=2 rejects 2 $(train)
RANK=1 rejects 2 $(train)
SLURM_PROCID=0 SLURM_NTASKS=4 SLURM_JOB_ID=7 rejects 2 $(train)
SLURM_PROCID=0 SLURM_NTASKS=4 SLURM_JOB_ID=7 run $(train) --nproc-per-node 2
expect_text "$err" "launcher   trident: 2 ranks"

# Ranks started by hand, or by torchrun: they meet; its threads and its error file.
export WORLD_SIZE=2 MASTER_PORT=$((20000 + $$ % 20000)) TORCHELASTIC_RUN_ID=job
RANK=1 TORCHELASTIC_ERROR_FILE=$work/error1.json "$trident" $(train) --data-path nowhere >/dev/null 2>err1 &
pid=$!
RANK=0 OMP_NUM_THREADS=1 TORCHELASTIC_ERROR_FILE=$work/error0.json run $(train) --data-path nowhere
expect "it fails" test $code != 0
wait $pid
expect "both ranks end alike" test $? = $code
unset WORLD_SIZE MASTER_PORT TORCHELASTIC_RUN_ID
expect_text "$err" "launcher   torchrun or by hand (RANK, WORLD_SIZE): 2 ranks, 2 on this machine"
tr -d '\n ' <error0.json >error
expect_text error '"message":{' '"extraInfo":{' '"timestamp":"'

# --elastic: what it means here is said at the start; what cannot be honoured is refused.
rm -rf run
run $(train) --nproc-per-node 2 --elastic
expect_code 0
expect_text "$err" "elastic    the ranks that are left go on without the dead, from the last checkpoint"
run $(train) --nproc-per-node 4 --tp-size 2 --elastic --replicate-state --output-dir tensor
expect_code 0
expect_text "$err" "at the step that was interrupted; a death inside a tensor group takes its replica along"
run $(train) --elastic --output-dir alone
expect_code 0
expect_text "$err" "elastic    one rank: nobody is left to go on when it dies"
rejects 2 $(train) --elastic --replicate-state
rejects 2 $(train) --nproc-per-node 2 --replicate-state
rejects 2 $(train) --nproc-per-node 2 --min-ranks 2
rejects 2 $(train) --nproc-per-node 2 --elastic --min-ranks 3
rejects 2 $(train) --nnodes 1:4
RANK=0 WORLD_SIZE=2 rejects 2 $(train) --elastic --replicate-state
OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 rejects 2 $(train) --elastic --replicate-state
OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 rejects 2 $(train) --elastic --nnodes 2:4

# Limits: said before any rank starts.
last_command="trident under prlimit --nofile=16"
prlimit --nofile=16 "$trident" $(train) --nproc-per-node 4 >"$out" 2>"$err"
code=$?
expect_code 71
expect_text "$err" "4 ranks need 32 open files, and the limit is 16"
rejects 2 $(train) --nproc-per-node 300 --batch-size 1
finish
