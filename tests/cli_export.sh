# Export: folders that others open, from which eval, predict and a new run start; what is there is never overwritten.
. "$(dirname "$0")/cli_lib.sh"
make_all

run train --config config.json --data-path data --output-dir run --max-steps 6 --batch-size 16 --seed 1 --threads 1 --nproc-per-node 2 --shard zero3
expect_code 0
checked run export --checkpoint run --output-dir exported --json
expect_code 0
expect_text "$out" '"output_dir":"exported"' '"encoders":2'
for file in model.safetensors config.json preprocessing.json manifest.json README.md; do expect "exported/$file" test -s "exported/$file"; done
for branch in primary secondary; do
    for file in model.safetensors config.json vocab.txt tokenizer_config.json; do expect "$branch/$file" test -s "exported/$branch/$file"; done
    expect_text exported/$branch/config.json '"model_type": "bert"' '"architectures"'
    expect "$branch has Hugging Face's names" grep -aq '"encoder.layer.0.attention.self.query.weight"' "exported/$branch/model.safetensors"
    expect "$branch has no head" test -z "$(head -c 20000 "exported/$branch/model.safetensors" | grep -ao projection)"
done
expect "no temporary folder is left" test -z "$(ls -d exported.tmp.* 2>/dev/null)"
expect_text exported/README.md text track "6 training steps" AutoModel

# The same answers.
run predict --checkpoint run --data-path data/test.csv -o before.csv
run predict --checkpoint exported --data-path data/test.csv -o after.csv
expect_code 0
expect "an export predicts what its checkpoint does" cmp -s before.csv after.csv
run eval --checkpoint exported --data-path data/test.csv --json
expect_code 0
run checkpoint verify exported
expect_code 0

# A new run begins with its weights: at step 1, of a model whose loss is not that of random weights.
run train --config config.json --data-path data --output-dir again --resume exported --max-steps 2 --batch-size 16 --seed 1 --threads 1
expect_code 0
expect_text "$err" "beginning a new run with the weights of exported"
expect "it counts from step 1" test "$(sed -n 's/.*"event": *"train", *"step": *\([0-9]*\).*/\1/p' again/metrics.jsonl | head -n 1)" = 1

# An encoder's folder is one for a new model.
sed 's,"primary_tokenizer": *"[^"]*","primary_tokenizer": "'"$work"'/exported/primary",' config.json >reuse.json
run train --config reuse.json --data-path data --output-dir reused --max-steps 1 --batch-size 16
expect_code 0
expect_text "$err" "primary: loaded"

# Nothing is overwritten; errors say what.
refuses 73 "not empty" -- export --checkpoint run --output-dir exported
mkdir empty
run export --checkpoint run --output-dir empty
expect_code 0
refuses 66 nowhere -- export --checkpoint nowhere --output-dir other
expect "a refused export leaves nothing" test ! -e other
printf x >>exported/model.safetensors
refuses 65 model.safetensors -- eval --checkpoint exported --data-path data/test.csv
finish
