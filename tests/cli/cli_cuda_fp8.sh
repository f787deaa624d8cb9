# cli_cuda_fp8.sh - FP8 training on a GPU through the command: it follows bf16 and the CPU's emulation; a stopped run
# goes on to the bit; ranks that share weights, layers or the pipeline reach the result of one rank. Skipped, with the
# reason, without a GPU of compute capability 9.0.
# timeout: 200
. "$(dirname "$0")/../lib/cli_lib.sh"
"$trident" doctor | grep -q '^cuda *yes' || { "$trident" doctor | grep '^cuda'; exit 77; }
make_all
encoder='{"model_type": "bert", "hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4, '
encoder+='"intermediate_size": 128, "max_position_embeddings": 64}'
make_config config.json "\"primary_encoder\": $encoder" "\"secondary_encoder\": $encoder"
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE
common=(--config config.json --data-path data --global-batch-size 8 --epochs 2 --threads 1 --quiet --device cuda)

trains() { # FOLDER OPTIONS...
    local folder=$1
    shift
    run train "${common[@]}" --output-dir "$folder" "$@"
    expect_code 0
}
run train "${common[@]}" --output-dir one --precision fp8
if [ "$code" = 2 ] && grep -q 'no .* kernel' "$err"; then cat "$err"; exit 77; fi
expect_code 0

near() { # LIMIT FOLDER WHAT OPTIONS...: as the first run
    local limit=$1 folder=$2 what=$3
    shift 3
    trains "$folder" "$@"
    losses_near one "$folder" "$limit" "$what"
}
beside near 0.05 half "FP8 and bf16" --precision bf16
beside near 0.05 cpu "GPU and emulation" --precision fp8 --device cpu
beside near 0.03 recomputed "recomputation" --precision fp8 --recompute full

# A run that stops in the middle goes on with the scales it had.
same_bits() { # FOLDER
    expect "$1: the same bits" test "$("$trident" digest one)" = "$("$trident" digest "$1")"
}
again() {
    trains again --precision fp8
    same_bits again
}
parts() {
    trains parts --precision fp8 --until-epoch 1
    trains parts --precision fp8
    same_bits parts
}
beside again
beside parts

# ---- Several ranks on one GPU ----
if "$trident" doctor | grep -q 'no NCCL'; then echo "NCCL does not load: ranks are not tried"
else
    same() { # FOLDER OPTIONS...
        local folder=$1
        shift
        beside near 0.03 "$folder" "$*" --precision fp8 --nproc-per-node 2 "$@"
    }
    same ddp --shard none
    same zero3 --shard zero3
    same pipeline --pp-size 2 --num-microbatches 2
    same tensor --tp-size 2
fi
together
expect "8 bits are in use" test "$(losses one | tail -n 3)" != "$(losses half | tail -n 3)"
finish
