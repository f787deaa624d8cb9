# cli_attention.sh - block-sparse attention from the command line: patterns by name, by file and in an encoder's object;
# errors; the picture; training on several meshes against one rank; resuming, predicting and exporting with the pattern.
. "$(dirname "$0")/../lib/cli_lib.sh"
make_model model
mkdir data
awk 'BEGIN { split("good bad fine late early box lost found the was is it and not very", word, " ")
    print "text,track,size,weight,label"
    for (i = 0; i < 24; i++) {
        line = more = ""
        for (j = 0; j < 20 + i * 37 % 70; j++) line = line " " word[1 + (i * 7 + j * 3 + int(j * j / 5)) % 15]
        for (j = 0; j < 4 + i * 11 % 40; j++) more = more " " word[1 + (i * 5 + j) % 15]
        printf "%s,%s,%d,%d,%d\n", line, more, i % 5, i % 3, (i * 7 + int(i / 3)) % 2
    } }' >data/train.csv
cp data/train.csv data/valid.csv
encoder='"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 24'
encoder+=', "max_position_embeddings": 96'
bigbird='"attention_pattern": {"mode": "bigbird", "different_layout_per_head": true}'
make_config config.json '"max_sen_len": 96' '"warmup_steps": 0' \
    "\"primary_encoder\": {$encoder, $bigbird}" \
    "\"secondary_encoder\": {$encoder, \"attention_pattern\": {\"mode\": \"window\", \"block\": 16, \"window\": 32}}"
common=(--config config.json --data-path data --batch-size 8 --max-steps 3 --threads 1 --quiet)

# Errors, each with its numbers, before anything is read.
while read -r json; do
    echo "$json" >pattern.json
    rejects 2 plan --config config.json --batch-size 8 --attention pattern.json
done <<'ROWS'
{"mode": "window", "block": 48}
{"mode": "window", "window": 0}
{"mode": "window", "windo": 64}
{"mode": "fixed", "attention": "unidirectional"}
{"mode": "offsets", "block": 16, "offsets": [1]}
{"mode": "bigbird", "num_random_blocks": 7}
ROWS
rejects 66 plan --config config.json --attention windos

# Dense by name is the model without a pattern.
run plan --config config.json --batch-size 8 --attention dense --print-program 0 --quiet
expect_code 0
expect "no block is left out" eval '! grep -q attention_sparse "$out"'
run plan --config config.json --batch-size 8 --print-program 0 --quiet
expect_code 0
expect_text "$out" "attention_sparse " "attention_sparse_first " "attention_sparse_din " "block=16"
cp "$out" program.txt
run check program.txt
expect_code 0
run plan --config config.json --batch-size 8 --world-size 8 --tp-size 2 --pp-size 2 --num-microbatches 2 --check --quiet
expect_code 0

# The picture.
run plan --config config.json --batch-size 8 --quiet --attention-map map.svg
expect_code 0
expect_text map.svg "primary: bigbird, head 0" "primary: bigbird, head 3" "secondary: window" "keys, tokens" "</svg>"
cp map.svg first.svg
run plan --config config.json --batch-size 8 --quiet --attention-map map.svg --force
expect "the same bytes" cmp -s map.svg first.svg
rejects 2 plan --config config.json --attention dense --attention-map other.svg

# Meshes against one rank: bits where the sums are the same, else to rounding.
loss() { grep '"event": *"train"' "$1/metrics.jsonl" | tail -n 1 | sed 's/.*"loss": *\([^,]*\),.*/\1/'; }
run train "${common[@]}" --output-dir one
expect_code 0
one=$(loss one)
for mesh in "--tp-size 2" "--pp-size 2 --num-microbatches 2" "--batch-size 4 --shard zero3" "--batch-size 4" \
    "--cp-size 2 --cp-mode heads" "--cp-size 2 --cp-mode ring"; do
    rm -rf other
    run train "${common[@]}" --nproc-per-node 2 $mesh --output-dir other
    expect_code 0
    expect "$mesh: the losses of one rank" is "$(awk -v a="$one" -v b="$(loss other)" 'BEGIN { print (a - b)^2 }')" \
        '<' 1e-10
done
# Which form ranks that share tokens take, and why: by simulation, the same each time; as the only one; as asked for.
tokens=(plan --config config.json --attention dense --batch-size 8 --json)
run "${tokens[@]}" --world-size 2 --cp-size 2
expect_code 0
expect "both were simulated" grep -qE \
    '"context":\{"mode":"(heads|ring)","reason":"faster","heads":\{"seconds":[^}]*\},"ring":\{' "$out"
expect_text "$err" "2 ranks share the tokens of each text: --cp-mode" "predicted" "MB sent"
cp "$out" first.json
run "${tokens[@]}" --world-size 2 --cp-size 2
expect "the same choice" cmp -s "$out" first.json
run "${tokens[@]}" --world-size 3 --cp-size 3
expect_text "$out" '"context":{"mode":"ring","reason":"only"}'
run "${tokens[@]}" --world-size 2 --cp-size 2 --cp-mode heads
expect_text "$out" '"context":{"mode":"heads","reason":"asked"}'

# A window's keys are on neighbouring ranks: of four runs the opposite one is not sent, unless texts may be short.
ring=(plan --config config.json --batch-size 8 --world-size 4 --cp-size 4 --cp-mode ring --print-program 0 --quiet)
run "${ring[@]}"
expect_code 0
expect_text "$out" "recv_post            secondary.layer.0.ctx.kv1" "recv_post            secondary.layer.0.ctx.kv3" \
    "recv_post            primary.layer.0.ctx.kv2"
expect "not from the opposite rank" eval '! grep -q "secondary.layer.0.ctx.kv2" "$out"'
run "${ring[@]}" --data-path data
expect_text "$out" "recv_post            secondary.layer.0.ctx.kv2"

# Evaluation and prediction by ranks that share tokens; a server refuses.
score() { grep -o '"loss":[^,]*' "$out" | cut -d: -f2; }
run eval --checkpoint one --data-path data/valid.csv --json --quiet
expect_code 0
alone=$(score)
for mode in heads ring; do
    run eval --checkpoint one --data-path data/valid.csv --json --quiet --nproc-per-node 2 --cp-size 2 --cp-mode $mode
    expect_code 0
    expect "$mode: the loss of one rank" is "$(awk -v a="$alone" -v b="$(score)" 'BEGIN { print (a - b)^2 }')" '<' 1e-10
done
run predict --checkpoint one --data-path data/valid.csv --output p.csv --quiet --nproc-per-node 2 --cp-size 2
expect_code 0
expect "a row each" test "$(wc -l <p.csv)" = "$(wc -l <data/valid.csv)"
rejects 2 serve one --nproc-per-node 2 --cp-size 2
rm -rf other
run train "${common[@]}" --threads 2 --recompute full --output-dir other
expect "recomputed, by two threads: the same bits" test "$("$trident" digest one)" = "$("$trident" digest other)"
run train "${common[@]}" --attention dense --output-dir dense
expect "a dense model is another" test "$("$trident" digest one)" != "$("$trident" digest dense)"

# The pattern is part of the model.
rejects 2 train "${common[@]}" --max-steps 4 --output-dir one --attention window
run eval --checkpoint one --data-path data --json
expect_code 0
mine=$(json_number loss "$out")
run train "${common[@]}" --output-dir one # it has ended: validates
expect_code 0
run export --checkpoint one --output-dir exported
expect_code 0
expect_text "$err" "attention_pattern, which transformers ignores"
expect_text exported/primary/config.json '"attention_pattern"' '"mode": "bigbird"' '"seed": 42'
run eval --checkpoint exported --data-path data --json
expect "the export has the pattern" test "$(json_number loss "$out")" = "$mine"
finish
