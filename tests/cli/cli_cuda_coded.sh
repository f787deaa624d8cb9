# cli_cuda_coded.sh - optimizers, coded transfers and local steps on a GPU through the command: each follows the same
# run on the CPU, with one rank, and with 2 and 4 ranks that share one GPU over NCCL. Skipped, with the reason, without
# a GPU.
# timeout: 300
. "$(dirname "$0")/../lib/cli_lib.sh"
"$trident" doctor | grep -q '^cuda *yes' || { "$trident" doctor | grep '^cuda'; exit 77; }
make_all
make_table data/train.csv 48 0 # two epochs of 6 steps: ranks that share a GPU take turns at each transfer
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE
common=(--config config.json --data-path data --global-batch-size 8 --epochs 2 --threads 1 --quiet)

# follows LIMIT OPTIONS...: a run on the GPU has the losses of the same run on the CPU, which runs meanwhile.
follows_it() {
    local limit=$1 at=$n_beside cpu
    shift
    "$trident" train "${common[@]}" --device cpu --output-dir "cpu-$at" "$@" >"$out.cpu" 2>&1 &
    cpu=$!
    run train "${common[@]}" --device cuda --output-dir "gpu-$at" "$@"
    expect_code 0
    wait $cpu
    code=$? last_command="the same with --device cpu: $(tail -n 1 "$out.cpu")"
    expect_code 0
    expect "$*: losses differ by $(apart "cpu-$at" "gpu-$at")" is "$(apart "cpu-$at" "gpu-$at")" '<=' "$limit"
}
follows() { beside follows_it "$@"; }

for optimizer in adam lamb sgd; do follows 1e-4 --optimizer "$optimizer"; done

if "$trident" doctor | grep -q 'no NCCL'; then
    echo "NCCL does not load: ranks are not tried"
    finish
fi
follows 1e-4 --optimizer sgd --nesterov --nproc-per-node 2 --shard zero3
follows 3e-2 --optimizer lamb --nproc-per-node 2 --shard zero2 --precision bf16
# Gradients of both differ in their last bits, and a number near a boundary of its rounding moves by a whole scale.
follows 1e-3 --nproc-per-node 2 --compress-gradients bf16
follows 1e-3 --nproc-per-node 4 --shard hybrid --shard-size 2 --compress-gradients int8 --compress-weights bf16
follows 3e-3 --nproc-per-node 2 --compress-gradients fp8
follows 1e-2 --nproc-per-node 2 --shard zero2 --compress-gradients int4 --error-feedback
follows 1e-3 --nproc-per-node 2 --shard zero3 --compress-weights int8
follows 1e-3 --nproc-per-node 4 --pp-size 2 --num-microbatches 4 --compress-gradients int8
# Signs of momenta near 0 differ, and with them the step.
follows 1e-2 --nproc-per-node 2 --optimizer onebit-adam --full-steps 5
follows 1e-2 --nproc-per-node 2 --optimizer onebit-adam --full-steps 5 --shard zero2
follows 1e-2 --nproc-per-node 2 --optimizer onebit-lamb --full-steps 5
follows 1e-2 --nproc-per-node 2 --optimizer onebit-lamb --full-steps 5 --shard zero2
follows 1e-3 --nproc-per-node 2 --sync-every 4 --compress-gradients int8
finish
