# cli_cuda_double.sh - 2, 4 and 8 ranks that share one GPU over the double of NCCL (tests/lib/nccl_double.h), which
# compares what ranks ask for, watches buffers and sums in the order of ranks: meshes of every kind reach the losses of
# one rank, those whose sums have one order the same digests; two ranks have the bits that they have over NCCL; what the
# double reports, and a rank that dies, end all within seconds. Skipped, with the reason, without a GPU.
# TRI_DOUBLE_ON=cpu: the same meshes and the same digests over shared memory, without faults. TRI_DOUBLE_UNDER="TOOL
# OPTIONS": a few meshes under this tool (make sanitize-cuda). Ranks that share a GPU take turns on it, and eight of
# them take 20 s for a run: without TRI_DOUBLE_ALL=1 only a mesh or two of each kind are trained.
# timeout: 500
. "$(dirname "$0")/../lib/cli_lib.sh"
on=${TRI_DOUBLE_ON:-cuda} double=$TRI_BUILD/tests/nccl
if [ "$on" = cuda ]; then
    "$trident" doctor | grep -q '^cuda *yes' || { "$trident" doctor | grep '^cuda'; exit 77; }
    [ -e "$double/libnccl.so.2" ] || { echo "$double/libnccl.so.2 is missing: make nccl-double"; exit 77; }
fi
make_all
make_table data/train.csv 48 0 # an epoch of 6 steps
all=${TRI_DOUBLE_ALL:-}
if [ "$on" = cuda ]; then most_beside=1; else all=1; fi
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE NCCL_DOUBLE
common=(--config config.json --data-path data --global-batch-size 8 --epochs 1 --threads 1 --quiet --device "$on")
loader=${LD_LIBRARY_PATH:-}
over_double() { LD_LIBRARY_PATH=$double${loader:+:$loader} "$@"; }

trains() { # FOLDER OPTIONS...
    local folder=$1
    shift
    over_double run train "${common[@]}" --output-dir "$folder" "$@"
    expect_code 0
}
digest_of() { "$trident" digest "$1" 2>&1 || echo "none: $1"; }

# bits NAME "FIRST OPTIONS" OPTIONS...: meshes of one kind of sums: the first near one rank, the others to its bits.
bits() {
    local name=$1 first=$2 options i=0
    shift 2
    # shellcheck disable=SC2086
    trains "$name" $first
    losses_near one "$name" 1e-5 "$first"
    for options in "$@"; do
        i=$((i + 1))
        # shellcheck disable=SC2086
        trains "$name-$i" $options
        expect "$options: the bits of $first" test "$(digest_of "$name")" = "$(digest_of "$name-$i")"
        rm -rf "${name:?}-$i"
    done
}

# near NAME LIMIT OPTIONS...: ends where one rank with config.json ends
near() {
    local name=$1 limit=$2
    shift 2
    trains "$name" "$@"
    losses_near one "$name" "$limit" "$*"
}

if [ -n "${TRI_DOUBLE_UNDER:-}" ]; then
    printf '#!/bin/sh\nexec %s "%s" "$@"\n' "$TRI_DOUBLE_UNDER" "$trident" >under && chmod +x under
    trident=$work/under
    common+=(--max-steps 3)
    trains zero3 --nproc-per-node 2 --shard zero3
    trains stages --nproc-per-node 2 --pp-size 2 --num-microbatches 2
    trains tokens --nproc-per-node 2 --cp-size 2
    finish
fi

trains one
beside bits two "--nproc-per-node 2" "--nproc-per-node 2" "--nproc-per-node 2 --shard zero1" \
    "--nproc-per-node 2 --shard zero2" "--nproc-per-node 2 --shard zero3" \
    "--nproc-per-node 2 --shard zero1 --offload optimizer"
beside bits four "--nproc-per-node 4" "--nproc-per-node 4 --shard zero3" ${all:+"--nproc-per-node 4 --shard zero1"}
chain="--nproc-per-node 2 --pp-size 2 --num-microbatches 4 --pipeline-shape chain --schedule"
beside bits stages "$chain 1f1b" "$chain zbv" ${all:+"$chain gpipe" "$chain zb-h1" "$chain interleaved"}
beside near mixed 1e-5 --nproc-per-node 8 --pp-size 2 --tp-size 2 --num-microbatches 2 --shard zero1
beside near sequence 1e-5 --nproc-per-node 4 --tp-size 2 --sequence-parallel yes --shard zero3
beside near ring 1e-5 --nproc-per-node 4 --cp-size 4 --cp-mode ring
if [ -n "$all" ]; then
    beside bits eight "--nproc-per-node 8" "--nproc-per-node 8 --shard zero3"
    beside bits hybrid "--nproc-per-node 4 --shard hybrid --shard-size 2" \
        "--nproc-per-node 4 --shard hybrid --shard-size 2 --offload optimizer,params"
    beside near pp4 1e-5 --nproc-per-node 4 --pp-size 4 --num-microbatches 4
    beside near branch 1e-5 --nproc-per-node 4 --pp-size 2 --num-microbatches 2 --pipeline-shape branch --shard zero2
    beside near tensor 1e-5 --nproc-per-node 2 --tp-size 2 --sequence-parallel no
    beside near heads 1e-5 --nproc-per-node 4 --cp-size 2 --cp-mode heads --shard zero2
    beside near offload 1e-5 --nproc-per-node 4 --shard zero3 --offload optimizer,gradients,activations
fi

experts='"num_experts": 4, "experts_per_token": 2, "expert_capacity_factor": 1.0, "expert_layers": [0]'
encoder='"model_type": "bert", "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, '
encoder+='"intermediate_size": 32, "max_position_embeddings": 64'
experts_on() {
    make_config experts.json "\"primary_encoder\": {$encoder, $experts}" "\"secondary_encoder\": {$encoder}"
    trains experts-1 --config experts.json
    for options in "--nproc-per-node 2 --ep-size 2" ${all:+"--nproc-per-node 4 --ep-size 4 --shard zero1"}; do
        # shellcheck disable=SC2086
        trains experts-n --config experts.json $options
        losses_near experts-1 experts-n 1e-5 "$options"
        rm -rf experts-n
    done
}
beside experts_on
[ "$on" = cuda ] || finish

# Two addends have one sum: NCCL's bits are those of the double.
over_nccl() {
    local options
    for options in "--shard zero3" "--pp-size 2 --num-microbatches 2" ${all:+"--shard none" "--tp-size 2"}; do
        # shellcheck disable=SC2086
        trains nccl-double --nproc-per-node 2 $options
        # shellcheck disable=SC2086
        run train "${common[@]}" --output-dir nccl-itself --nproc-per-node 2 $options
        expect_code 0
        expect "$options: the bits of NCCL" test "$(digest_of nccl-double)" = "$(digest_of nccl-itself)"
        rm -rf nccl-double nccl-itself
    done
}
if "$trident" doctor | grep -q 'no NCCL'; then echo "NCCL does not load: the double is not compared with it"
else beside over_nccl
fi

# A rank's operation is spoiled: all end, and say how.
spoiled() { # FAULT "WORDS" OPTIONS...
    local fault=$1 words=$2 begin=$SECONDS
    shift 2
    NCCL_DOUBLE=$fault over_double run train "${common[@]}" --output-dir "spoiled-$n_beside" --progress-timeout 15 "$@"
    expect "$fault: the run fails" test "$code" != 0
    expect_text "$err" "$words"
    expect "$fault: it ends soon: $((SECONDS - begin)) s" test $((SECONDS - begin)) -lt 60
}
beside spoiled "fault=count rank=1 at=6" " asks for " --nproc-per-node 2
[ -n "$all" ] || finish
beside spoiled "fault=count rank=2 at=200" " asks for " --nproc-per-node 4 --shard zero3
# In the first step, a kernel's first use may block a host behind the transfer: the supervisor ends those ranks.
beside spoiled "fault=count rank=2 at=6" "rank" --nproc-per-node 4 --shard zero3
beside spoiled "fault=error rank=1 at=9" "a fault that the test asked for" --nproc-per-node 4 --shard zero1
beside spoiled "fault=async rank=0 at=9" "a fault that the test asked for, later" --nproc-per-node 2 --pp-size 2 \
    --num-microbatches 2
beside spoiled "fault=stall rank=1 at=9" "progress" --nproc-per-node 2

# A rank that dies in a mesh of 8.
killed() {
    local job p begin
    LD_LIBRARY_PATH=$double${loader:+:$loader} "$trident" train "${common[@]}" --output-dir dead --epochs 100000 \
        --max-steps 200000 --save-every 0 --nproc-per-node 8 --pp-size 2 --tp-size 2 --num-microbatches 2 \
        >"$out" 2>"$err" &
    job=$!
    for ((p = 0; p < 600; p++)); do
        [ "$(losses dead 2>/dev/null | wc -l)" -ge 3 ] && break
        sleep 0.1
    done
    begin=$(date +%s%N)
    for p in $(ranks_of "$job"); do [ "$(rank_of "$p")" = 3 ] && kill -KILL "$p"; done
    wait "$job"
    code=$? last_command="a mesh of 8 whose rank 3 is killed"
    expect_code 137
    expect_text "$err" "rank 3: killed by signal 9"
    expect "it ends soon after: $((($(date +%s%N) - begin) / 1000000)) ms" test \
        $(($(date +%s%N) - begin)) -lt 15000000000
}
beside killed

# A rank of four dies, and the others go on with the losses of the run that was not hurt.
elastic() {
    local kept=(--nproc-per-node 4 --elastic --replicate-state)
    common+=(--epochs 4)
    trains calm --nproc-per-node 4 --shard zero1
    common=(train "${common[@]}")
    over_double hurt hurt 4 2 "${kept[@]}" --shard zero1
    expect_code 0
    once hurt 24 4
    losses_near hurt calm 1e-5 "three of four ranks"
    expect "went on once" test "$(regroups hurt)" = 1
}
beside elastic
finish
