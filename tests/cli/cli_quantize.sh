# quantize: a folder with int8 weights that every command takes for a model; figures, sizes, errors, damage.
. "$(dirname "$0")/../lib/cli_lib.sh"
make_all
run train --config config.json --data-path data --output-dir run --max-steps 30 --batch-size 16 --seed 1 --threads 1 \
    --nproc-per-node 2 --shard zero3
expect_code 0

# ---- The folder, measured on the run's own validation table ----
checked run quantize run -o small
expect_code 0
expect_text "$out" "before" "int8" "14 of 14 layers in int8, everything else in fp32" "drop"
expect_text "$err" "before: accuracy" "32 rows of data/valid.csv" "all 14 layers in int8"
for file in model.safetensors config.json preprocessing.json manifest.json primary/vocab.txt secondary/vocab.txt; do
    expect "small/$file" test -s "small/$file"
done
expect "no other file" test "$(ls small | wc -l)" = 6
expect "nothing beside it" test -z "$(ls -d small.* 2>/dev/null)"
expect_text small/config.json '"quantize": "int8"' '"precision": "fp32"' '"float_layers": []'
expect_text small/manifest.json '"quantized"' '"before"' '"after"' '"log_loss"' '"max_drop"'
expect "weights are integers with scales" grep -aq '"primary.pooler.dense.weight.scale":{"dtype":"F32"' \
    small/model.safetensors
run quantize run -o again --json --quiet --data-path data/valid.csv --max-drop 0.01
expect_code 0
cp "$out" facts.json
expect "nothing on stderr" test ! -s "$err"
expect_text facts.json '"quantize":"int8"' '"layers_in_16_bits":[]' '"data":"data/valid.csv"' '"max_drop":0.01'
expect "the same file again" cmp -s small/model.safetensors again/model.safetensors
expect "less than two fifths of the bytes, tiny as it is" is "$(json_number bytes facts.json)" "<" \
    "$((4 * $(json_number fp32_bytes facts.json) / 10))"

# ---- Other commands take it for a model, with int8 products ----
run eval --checkpoint small --data-path data/valid.csv --json
expect_code 0
after=$(sed 's/.*"after":{\([^}]*\)}.*/\1/' facts.json | sed -n 's/.*"log_loss":\([0-9.e-]*\).*/\1/p')
expect "its log loss is the one that quantize gave" test -n "$after" -a "$(json_number log_loss "$out")" = "$after"
run predict --checkpoint small --data-path data/test.csv -o small.csv
expect_code 0
run predict --checkpoint run --data-path data/test.csv -o floats.csv
run predict --checkpoint run --data-path data/test.csv -o run.csv --precision int8
expect_code 0
expect "as the run in int8" cmp -s small.csv run.csv
expect "not as the run in floats" test "$(cmp -s small.csv floats.csv; echo $?)" = 1
run export --checkpoint small --output-dir exported
expect_code 0
run predict --checkpoint exported --data-path data/test.csv -o exported.csv
expect "its export predicts the same" cmp -s small.csv exported.csv
run checkpoint verify small
expect_code 0
run checkpoint ls small --json
expect_text "$out" '"valid":true'
run digest small
one=$(cat "$out")
run digest again
expect "one digest" test -n "$one" -a "$(cat "$out")" = "$one"
run quantize run -o half --precision bf16 --max-drop 0.05
expect_code 0
expect_text half/config.json '"precision": "bf16"'
run eval --checkpoint half --data-path data/valid.csv
expect_code 0

# ---- Errors ----
rejects 2 quantize run
rejects 2 quantize -o other
rejects 2 quantize run --checkpoint run -o other
rejects 66 quantize nowhere -o other
rejects 73 quantize run -o small
rejects 2 quantize small -o other
rejects 2 quantize run -o other --precision fp8
rejects 2 quantize run -o other --max-drop 2
rejects 66 quantize run -o other --data-path missing.csv
cut -d, -f1-4 data/valid.csv >unlabelled.csv
rejects 65 quantize run -o other --data-path unlabelled.csv
mv data/valid.csv kept.csv
rejects 66 quantize run -o other
mv kept.csv data/valid.csv
rejects 2 train --config config.json --data-path data --output-dir new --resume small --max-steps 2 --batch-size 16
expect "nothing was made" test ! -e other -a -z "$(ls -d other.* 2>/dev/null)"

# ---- A signal: no folder of a candidate is left ----
for ((i = 0; i < 300; i++)); do tail -n +2 data/valid.csv; done | cat data/valid.csv - >long.csv
"$trident" quantize run -o other --data-path long.csv --threads 1 --max-drop 0 >"$out" 2>"$err" &
pid=$!
while kill -0 $pid 2>/dev/null && ! grep -q 'before: ' "$err"; do sleep 0.02; done
kill -TERM $pid
wait $pid
code=$?
expect_code 75
expect_text "$err" "stopping after the evaluation in progress" "stopped (SIGTERM); nothing was written"
expect "nothing was left" test -z "$(ls -dA other* .trident-* 2>/dev/null)"

# ---- Killed: the next one in that folder removes what is left, but not what another one works with ----
mkdir made
"$trident" quantize run -o made/first --data-path long.csv --threads 1 --max-drop 0 >"$out" 2>"$err" &
pid=$!
left() { find made -maxdepth 1 -name '.trident-*'; }
while kill -0 $pid 2>/dev/null && ! { [ -n "$(left)" ] && [ -e "$(left)/trial" ]; }; do sleep 0.02; done
kill -STOP $pid # else it may end before the export, on a busy machine
one=$(left)
run export --checkpoint run --output-dir made/second
expect_code 0
expect "the folder of a command that goes on" test -n "$one" -a -d "$one" -a "$(left)" = "$one"
kill -KILL $pid
wait $pid 2>/dev/null
expect "it is left" test -d "$one"
mkdir made/.trident-keepme made/.trident-aaaaaa
: >made/.trident-keepme/mine
run quantize run -o made/third --max-drop 1 --quiet
expect_code 0
expect "what the killed one left is gone" test "$(left)" = made/.trident-keepme
rm -r made

# ---- Damage ----
damage() { # FILE: its last byte changes
    printf '\125' | dd of="$1" bs=1 seek=$(($(stat -c %s "$1") - 1)) conv=notrunc 2>/dev/null
}
cp -r small broken
damage broken/model.safetensors
for command in "eval --data-path data/valid.csv --checkpoint" "predict --data-path data/test.csv --checkpoint" \
    "export --output-dir x --checkpoint" "digest"; do
    rejects 65 $command broken
done
run checkpoint verify broken
expect_code 65
expect_text "$err" "broken/model.safetensors is damaged in tensor"
rm -r broken && cp -r small broken
damage broken/config.json
rejects 65 eval --data-path data/valid.csv --checkpoint broken
rm -r broken && cp -r small broken
truncate -s -5 broken/model.safetensors
rejects 65 eval --data-path data/valid.csv --checkpoint broken
rm broken/model.safetensors
rejects 65 eval --data-path data/valid.csv --checkpoint broken
finish
