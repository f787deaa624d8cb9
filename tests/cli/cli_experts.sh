# Mixtures of experts: meshes against one rank, the same tokens dropped; resumed on another mesh; started from a dense
# model; exported and evaluated; what is refused.
. "$(dirname "$0")/../lib/cli_lib.sh"
make_all
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE SLURM_JOB_END_TIME
encoder='"model_type": "bert", "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, '
encoder+='"intermediate_size": 32, "max_position_embeddings": 64'
first='"num_experts": 4, "experts_per_token": 2, "expert_capacity_factor": 1.0, "expert_layers": [0]'
second='"num_experts": 2, "expert_capacity_factor": 0.75, "expert_layers": "every 2"'
make_config dense.json "\"primary_encoder\": {$encoder}" "\"secondary_encoder\": {$encoder}"
make_config experts.json "\"primary_encoder\": {$encoder, $first}" "\"secondary_encoder\": {$encoder, $second}"
common=(train --config experts.json --data-path data --global-batch-size 8 --threads 1 --lr 1e-3 --warmup-steps 2
    --quiet --num-microbatches 2 --max-steps 8)
# Loss, its balancing part and dropped tokens of each step.
figures() {
    sed -n 's/.*"loss":\([^,]*\),.*"balance_loss":\([^,]*\),"dropped_tokens":\([0-9]*\).*/\1 \2 \3/p' "$1/metrics.jsonl"
}

run "${common[@]}" --output-dir one
expect_code 0
figures one >one.txt
expect "8 steps" test "$(wc -l <one.txt)" = 8
expect "tokens are dropped" awk '{ n += $3 } END { exit !(n > 8) }' one.txt
expect "two balanced layers cost about 0.02" awk '$2 < 0.019 || $2 > 0.03 { bad = 1 } END { exit bad }' one.txt

# like WORDS...: the figures of one rank, losses by the bounds of other meshes, dropped tokens to the last one.
like() {
    rm -rf many
    run "${common[@]}" --output-dir many "$@"
    expect_code 0
    figures many >many.txt
    expect "the figures of one rank with $*" awk '
        NR == FNR { want[FNR] = $1; drops[FNR] = $3; next }
        { d = $1 - want[FNR]; d = d < 0 ? -d : d; if (d > 1e-5 * (want[FNR] > 0.1 ? want[FNR] : 0.1)) bad = 1
          if ($3 != drops[FNR]) bad = 1; n++ }
        END { exit bad || n != 8 }' one.txt many.txt
}
like --nproc-per-node 4 --tp-size 2 --shard zero3 --recompute full
like --nproc-per-node 2 --pp-size 2 --schedule zb-h1 --num-microbatches 4
if [ "${SOAK_STEPS:-0}" -ge 100 ]; then
    like --num-microbatches 1 --recompute selective
    for shard in none zero1 zero2 zero3; do like --nproc-per-node 2 --shard $shard; done
    for schedule in gpipe 1f1b interleaved zbv; do like --nproc-per-node 2 --pp-size 2 --schedule $schedule; done
    like --nproc-per-node 2 --tp-size 2
    like --nproc-per-node 8 --tp-size 2 --pp-size 2 --shard zero1
    like --offload optimizer,gradients,activations
    run "${common[@]}" --output-dir dropped --layer-drop theta=0.5,gamma=0.4
    expect_code 0
    figures dropped >one.txt
    like --nproc-per-node 2 --pp-size 2 --layer-drop theta=0.5,gamma=0.4
    like --nproc-per-node 2 --shard zero3 --layer-drop theta=0.5,gamma=0.4
    run "${common[@]}" --output-dir windows --windows 3 --stride 5 --max-sen-len 8
    expect_code 0
    figures windows >one.txt
    like --nproc-per-node 2 --windows 3 --stride 5 --max-sen-len 8
    figures one >one.txt
fi

run plan --config experts.json
expect_code 0
expect_text "$out" "2 layers of experts: " "parameters are active for a token"

# A run of one rank goes on with two that share its layers.
rm -rf many
run "${common[@]}" --save-steps 4 --keep 9 --output-dir many
expect_code 0
rm -rf many/checkpoint-8 many/best_checkpoint.json many/summary.json
run "${common[@]}" --save-steps 4 --keep 9 --output-dir many --nproc-per-node 2 --tp-size 2
expect_code 0
figures many | tail -n 1 >last.txt
expect "the last step of the whole run" awk 'NR == FNR { want = $1; next } { d = $1 - want }
    END { exit !(d < 1e-5 && d > -1e-5) }' one.txt last.txt

# Exported, evaluated, and imported again with its experts.
run export --checkpoint one --output-dir exported
expect_code 0
expect_text exported/primary/config.json '"num_experts": 4' '"experts_per_token": 2'
run eval --checkpoint one --data-path data --json --quiet
expect_code 0
want=$(json_number log_loss "$out")
run eval --checkpoint exported --data-path data --json --quiet --nproc-per-node 2 --tp-size 2
expect_code 0
more=$(awk -v x="$want" 'BEGIN { print x + 1e-5 }')
expect "the loss of the export" is "$(json_number log_loss "$out")" "<=" "$more"

# A dense model starts a mixture: experts of equal weights would be that model.
run train --config dense.json --data-path data --global-batch-size 8 --threads 1 --max-steps 2 --output-dir dense
expect_code 0
run export --checkpoint dense --output-dir model2
expect_code 0
sed "s|$work/model\"|$work/model2/primary\"|" experts.json >started.json
run train --config started.json --data-path data --global-batch-size 8 --threads 1 --max-steps 1 --output-dir started
expect_code 0
expect_text "$err" "primary: each of 4 experts begins as a copy of its dense layer, with noise of deviation 0.002"

# One expert with a place for every token is the dense layer; balancing it adds 0.01 for each of two layers.
sed "s|$work/model\"|$work/model2/primary\"|" dense.json >dense2.json
one='"num_experts": 1, "expert_capacity_factor": 1, "expert_layers"'
make_config single.json "\"primary_encoder\": {$encoder, $one: [1]}" "\"secondary_encoder\": {$encoder, $one: [0]}" \
    "\"primary_tokenizer\": \"$work/model2/primary\""
for name in dense2 single; do
    run "${common[@]}" --config $name.json --max-steps 3 --output-dir $name
    expect_code 0
    sed -n 's/.*"event": *"train".*"loss": *\([^,]*\),.*/\1/p' $name/metrics.jsonl >$name.txt
done
expect "three losses of the dense model, and 0.02" awk 'NR == FNR { want[FNR] = $1 + 0.02; next }
    { d = $1 - want[FNR]; if (d > 1e-6 || d < -1e-6) bad = 1; n++ } END { exit bad || n != 3 }' dense2.txt single.txt

# So are copies of it that all have a place, but for their noise.
make_config copies.json "\"secondary_encoder\": {$encoder}" "\"primary_tokenizer\": \"$work/model2/primary\"" \
    "\"primary_encoder\": {$encoder, \"num_experts\": 4, \"experts_per_token\": 2, \"expert_capacity_factor\": 4}"
run "${common[@]}" --config copies.json --max-steps 1 --output-dir copies
expect_code 0
figures copies >copies.txt
expect "the loss of the dense model, but for noise" awk 'NR == FNR { if (FNR == 1) want = $1; next }
    { d = $1 - $2 - want; d = d < 0 ? -d : d; n++ }
    END { exit !(n == 1 && d > 1e-7 && d < 1e-3) }' dense2.txt copies.txt

# refused KEYS: a primary encoder with these.
refused() {
    make_config bad.json "\"primary_encoder\": {$encoder, $1}"
    rejects 2 plan --config bad.json
}
refused '"num_experts": 4, "expert_capacity_factor": 0'
refused '"num_experts": 1, "experts_per_token": 2'
refused '"num_experts": 4, "experts_per_token": 3'
refused '"num_experts": 4, "expert_layers": [0, 2]'
refused '"num_experts": 4, "expert_layers": "every 3"'
refused '"num_experts": 4, "expert_layers": "each"'
refused '"num_experts": 4, "expert_layers": [1, 1]'
refused '"expert_layers": [1]'
refused '"experts_per_token": 2'
for words in "--cp-size 2" "--tp-size 2 --sequence-parallel yes" "--sync-every 2" "--quantize int8"; do
    # shellcheck disable=SC2086
    rejects 2 "${common[@]}" --output-dir no --nproc-per-node 2 $words
done
rejects 2 eval --checkpoint one --data-path data --precision int8 --quiet
make_config single.json "\"primary_encoder\": {$encoder, $first}"
rejects 2 "${common[@]}" --config single.json --output-dir no --nproc-per-node 4 --cp-size 2 --tp-size 2
finish
