# cli_cuda_ranks.sh - training on a GPU through the command: evaluation, prediction and profile; then 2 and 4 ranks that
# share one GPU over NCCL, with every sharding strategy, reach the result of one rank; ranks that crash or do not fit.
# Skipped, with the reason, without a GPU.
# timeout: 300
. "$(dirname "$0")/../lib/cli_lib.sh"
"$trident" doctor | grep -q '^cuda *yes' || { "$trident" doctor | grep '^cuda'; exit 77; }
make_all
make_table data/train.csv 48 0 # two epochs of 6 steps: ranks that share a GPU take turns at each transfer
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE
common=(--config config.json --data-path data --global-batch-size 8 --epochs 2 --threads 1 --quiet --device cuda)

trains() { # FOLDER OPTIONS...
    local folder=$1
    shift
    run train "${common[@]}" --output-dir "$folder" "$@"
    expect_code 0
}

# ---- One rank ----
trains one
one_rank() {
    run train "${common[@]}" --device cpu --output-dir cpu
    expect_code 0
    losses_near one cpu 1e-4 "GPU and CPU"
    run eval --checkpoint one --data-path data --device cuda --json
    expect_code 0
    cp "$out" scores
    run eval --checkpoint one --data-path data --device cpu --json
    expect_code 0
    expect "the CPU finds the same loss" is \
        "$(awk -v a="$(json_number loss scores)" -v b="$(json_number loss "$out")" \
        'BEGIN { print a - b < 1e-5 && b - a < 1e-5 }')" == 1
    run predict --checkpoint one --data-path data/test.csv --device cuda -o predicted.csv
    expect_code 0
    expect "a line a row" test "$(wc -l <predicted.csv)" = 41
    trains traced --profile wait=1,active=2
    expect "the trace has kernels" grep -q '"attention_first_din"' traced/trace-rank0.json
    expect_text one/metrics.jsonl 'NVIDIA'
}
beside one_rank

# ---- Several ranks on one GPU ----
if "$trident" doctor | grep -q 'no NCCL'; then
    echo "NCCL does not load: ranks are not tried"
    finish
fi
same() { # LIMIT FOLDER OPTIONS...: ends where one rank ends
    local limit=$1 folder=$2
    shift 2
    trains "$folder" "$@"
    losses_near one "$folder" "$limit" "$*"
}
beside same 1e-5 pp4 --nproc-per-node 4 --pp-size 4 --num-microbatches 4
beside same 1e-5 pp2tp2 --nproc-per-node 4 --pp-size 2 --tp-size 2 --num-microbatches 2
beside same 1e-5 pp2dp2 --nproc-per-node 4 --pp-size 2 --num-microbatches 2 --shard zero1 --schedule zbv
beside same 1e-5 tp2dp2 --nproc-per-node 4 --tp-size 2 --shard zero3
for shard in none zero1 zero2 zero3; do beside same 2e-6 "$shard-2" --nproc-per-node 2 --shard "$shard"; done
for shard in none zero2; do beside same 2e-6 "$shard-4" --nproc-per-node 4 --shard "$shard"; done
beside same 2e-6 micro --nproc-per-node 2 --shard zero2 --num-microbatches 2
for schedule in gpipe 1f1b interleaved zb-h1 zbv; do
    beside same 1e-5 "$schedule" --nproc-per-node 2 --pp-size 2 --num-microbatches 4 --pipeline-shape chain \
        --schedule "$schedule"
done
beside same 1e-5 branch --nproc-per-node 2 --pp-size 2 --num-microbatches 4 --pipeline-shape branch
beside same 1e-5 tensor --nproc-per-node 2 --tp-size 2 --sequence-parallel no
beside same 1e-5 sequence --nproc-per-node 2 --tp-size 2 --sequence-parallel yes
halves() {
    trains half-1 --precision bf16
    trains half-2 --nproc-per-node 2 --shard zero3 --precision bf16
    losses_near half-1 half-2 3e-2 "bf16, zero3 on 2 ranks"
    trains half-4 --nproc-per-node 4 --pp-size 2 --tp-size 2 --num-microbatches 2 --precision bf16
    losses_near half-1 half-4 3e-2 "bf16, a pipeline of tensor splits"
}
beside halves

# What a run tells: kernels and transfers on tracks of their own; how busy the GPU is, and how much of it is taken.
told() {
    trains told --nproc-per-node 2 --profile wait=1,active=2
    tid() { grep -o "\"name\":\"$1\"[^}]*" told/trace-rank0.json | grep -o '"tid":[0-9]*' | sort -u; }
    expect "transfers have a track beside the kernels': $(tid attention_din_db) and $(tid all_reduce_post)" test \
        "$(tid attention_din_db)" != "$(tid all_reduce_post)"
    expect "there are transfers" test -n "$(tid all_reduce_post)"
    grep '"event":"train"' told/metrics.jsonl | tail -n 1 >line
    expect "the GPU is in use for more than the plan" is "$(json_number device_bytes line)" '>' \
        "$(json_number mem_bytes line)"
    expect "busy for a part of the step" is "$(json_number device_share line)" '>' 0
    expect "and no more" is "$(json_number device_share line)" '<=' 1.01
    expect "each rank says so" test "$(grep -o '"device_bytes"' told/summary.json | wc -l)" = 2
}
beside told

# More than fits: ranks that share a GPU share its memory.
run train "${common[@]}" --output-dir large --nproc-per-node 4 --global-batch-size 40000 --max-tokens 60000000
expect_code 71
expect_text "$err" "4 ranks need" "is free"

# Ranks that MPI started.
under_mpirun() {
    if command -v mpirun >/dev/null && mpirun --version 2>/dev/null | grep -q 'Open MPI' &&
        [ -e "$TRI_BUILD/libtrident_mpi.so" ]; then
        export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
        last_command="mpirun trident train"
        timeout -k 2 60 mpirun --oversubscribe --bind-to none -np 2 "$trident" train "${common[@]}" --output-dir mpi \
            --shard zero1 >"$out" 2>"$err"
        code=$?
        expect_code 0
        losses_near one mpi 2e-6 "under mpirun"
    else
        echo "left out: ranks that mpirun starts (no Open MPI here, or no plug-in for it)"
    fi
}
beside under_mpirun

# When a rank dies, the others end too: none waits indefinitely, and all name the rank that died.
killed() { # FOLDER OPTIONS...
    local folder=$1 begin job p
    shift
    last_command="trident train $*"
    "$trident" train "${common[@]}" --output-dir "$folder" --epochs 100000 --max-steps 200000 --save-every 0 "$@" \
        >"$out" 2>"$err" &
    job=$!
    for ((p = 0; p < 300; p++)); do
        [ "$(losses "$folder" 2>/dev/null | wc -l)" -ge 3 ] && break
        sleep 0.1
    done
    begin=$(date +%s%N)
    for p in $(pgrep -P "$job"); do [ "$(rank_of "$p")" = 1 ] && kill -KILL "$p"; done
    wait "$job"
    code=$?
    expect_code 137
    expect_text "$err" "rank 1: killed by signal 9"
    expect "it ends soon after a rank was killed: $((($(date +%s%N) - begin) / 1000000)) ms" test \
        $(($(date +%s%N) - begin)) -lt 10000000000
}
together
killed dead-2 --nproc-per-node 2 --shard zero3
killed dead-4 --nproc-per-node 4 --pp-size 2 --tp-size 2 --num-microbatches 2
finish
