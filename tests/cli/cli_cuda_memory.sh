# cli_cuda_memory.sh - memory of a GPU: offload memory changes no loss; a model trains with a limit below 16 bytes per
# parameter; a plan that does not fit is refused with figures before the first step, also if ranks share a GPU. Skipped,
# with the reason, without a GPU.
# timeout: 240
. "$(dirname "$0")/../lib/cli_lib.sh"
"$trident" doctor | grep -q '^cuda *yes' || { "$trident" doctor | grep '^cuda'; exit 77; }
make_all
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE
encoder='{"model_type": "bert", "hidden_size": 512, "num_hidden_layers": 8, "num_attention_heads": 8,'
encoder+=' "intermediate_size": 2048, "max_position_embeddings": 64}'
make_config config.json "\"primary_encoder\": $encoder"
common=(--config config.json --data-path data --batch-size 8 --quiet --device cuda)

trains() { # FOLDER OPTIONS...
    local folder=$1
    shift
    run train "${common[@]}" --max-steps 5 --save-every 0 --output-dir "$folder" "$@"
    expect_code 0
    expect "5 losses" test "$(losses "$folder" | wc -l)" = 5
}

# ---- Offload memory ----
all=(optimizer gradients params activations optimizer,gradients,params,activations)
for precision in fp32 bf16; do
    beside trains "$precision" --precision "$precision"
    for classes in "${all[@]}"; do
        beside trains "$precision-$classes" --precision "$precision" --offload "$classes"
    done
done
beside trains micro --num-microbatches 2 --recompute full
beside trains micro-all --num-microbatches 2 --recompute full --offload "${all[4]}"
together
for precision in fp32 bf16; do
    for classes in "${all[@]}"; do
        expect "$precision: $classes in offload memory changes no loss" test "$(losses "$precision")" = \
            "$(losses "$precision-$classes")"
    done
done
expect "with microbatches and recomputation neither" test "$(losses micro)" = "$(losses micro-all)"

# ---- A limit below 16 bytes a parameter ----
run plan --json "${common[@]}" --precision bf16
parameters=$(sed -n 's/.*"parameters":\([0-9]*\).*/\1/p' "$out" | head -n 1)
limit=$((parameters * 15))
refuses 71 "the plan needs" "--memory-limit allows" -- train "${common[@]}" --precision bf16 --output-dir refused \
    --memory-limit "$limit"
trains limited --precision bf16 --memory-limit "$limit" --offload optimizer
expect "a limit changes no loss" test "$(losses bf16)" = "$(losses limited)"
trains least --precision bf16 --memory-limit $((parameters * 4)) --offload optimizer,gradients,params --recompute full

# ---- What is free ----
refuses 71 "the plan needs" "is free" -- train "${common[@]}" --output-dir huge --max-tokens 2000000000
expect "nothing was begun" test ! -e huge/metrics.jsonl
free=$("$trident" doctor | sed -n 's/^cuda.*, \([0-9.]*\) GiB free.*/\1/p')
run plan --json "${common[@]}" --max-tokens 1000000
each=$(grep -o "\"act\":[0-9]*" "$out" | head -n 1 | cut -d: -f2) # of the step
tokens=$(awk -v free="${free:-0}" -v each="$each" 'BEGIN { printf "%d", 0.7 * free * 1073741824 / each * 1000000 }')
run plan --json "${common[@]}" --max-tokens "$tokens" # seven tenths of what is free: one rank has room, two do not
expect_code 0
gpus=$(find /proc/driver/nvidia/gpus -mindepth 1 -maxdepth 1 2>/dev/null | wc -l)
ranks=$((gpus > 0 ? gpus + 1 : 2))
refuses 71 "$ranks ranks need" "together" "is free" -- train "${common[@]}" --nproc-per-node "$ranks" \
    --output-dir shared --max-tokens "$tokens"
finish
