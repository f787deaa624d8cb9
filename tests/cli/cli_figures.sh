# Figures through the command: the positive label, classes by name, rows that were trained on, a finished run, the time
# of all its parts.
. "$(dirname "$0")/../lib/cli_lib.sh"
make_all
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE

# Labels by name, one fraud in eight rows.
mkdir -p named
for part in train valid test; do
    awk -F, -v OFS=, 'NR > 1 { $NF = NR % 8 ? "ok" : "fraud" } { print }' data/$part.csv >named/$part.csv
done
train=(train --config config.json --data-path named --batch-size 16 --epochs 4 --seed 1 --threads 1)
whole() { (cd "$1" && find . -type f ! -name .lock -exec cksum {} + | sort -k 3); } # every file of a run

# ---- The positive label: the rarer one, or the one that is named; said and kept ----
run "${train[@]}" --output-dir run
expect_code 0
expect_text "$err" "positive label: fraud, 12 of 96 training rows (the rarer one; positive_label names another)" \
    "pr_auc (fraud) "
expect_text run/checkpoint-24/config.json '"positive_label": "fraud"'
expect "each validation names it" test \
    "$(grep -c '"event":"epoch".*"average_precision":[0-9].*"positive_label":"fraud"' run/metrics.jsonl)" = 4
expect_text run/summary.json '"positive_label": "fraud"' '"loss_of": "the last training step"'
checked run eval --checkpoint run --data-path named --json
expect_code 0
cp "$out" fraud.json
expect_text fraud.json '"positive_label":"fraud"' '"per_class":{"fraud":' '"classes":{"fraud":{"rows":5,"precision":' \
    '"confusion":{"fraud":{"fraud":' \
    '"rows_trained_on":0'
expect_text "$err" "named/test.csv: 40 rows" "run/checkpoint-24, the best of the run by validation loss"
checked run eval --checkpoint run --data-path named
expect_code 0
expect_text "$out" "are of label fraud." "fraud (positive)" "label \\ predicted"
expect "a row a label" grep -Eq '^ok +35 ' "$out"
run eval --checkpoint run --data-path named --json --positive-label ok
expect_code 0
expect_text "$out" '"positive_label":"ok"'
expect "an area of the frequent label is another" is "$(json_number average_precision "$out")" '>' \
    "$(json_number average_precision fraud.json)"
run "${train[@]}" --output-dir ok --positive-label ok --cache-dir run/cache
expect_code 0
expect_text "$err" "positive label: ok, 84 of 96 training rows" "from the token store"
expect "it changes no weight" test "$("$trident" digest ok)" = "$("$trident" digest run)"
rejects 2 "${train[@]}" --output-dir other --quiet --positive-label Fraud
rejects 2 "${train[@]}" --output-dir run --quiet --positive-label no --nproc-per-node 2
rejects 2 eval --checkpoint run --data-path named --quiet --positive-label no
rejects 2 "${train[@]}" --output-dir other --quiet --positive-label a --num-classes 3 --is-binary=false

# ---- By group: the figures of a group are those of a table that has its rows alone ----
# A column that the model does not use; label and text are kept apart by the rows' numbers.
make_table more.csv 150 300
awk -F, -v OFS=, 'NR == 1 { print $0, "region"; next } { $NF = NR % 8 ? "ok" : "fraud"
    print $0, NR % 7 == 0 ? "" : NR % 11 == 0 ? "r" NR : NR % 3 ? "north" : "south" }' more.csv >regions.csv
region() { awk -F, -v r="$1" 'NR == 1 || $NF == r' regions.csv; }
group() { grep -o "{\"group\":\"$1\".*" by.json | sed 's/,{"group".*//'; } # NAME: its object, or more
checked run eval --checkpoint run --data-path regions.csv --by region,size --by text --json
expect_code 0
cp "$out" by.json
expect_text by.json '"by":[{"column":"region","groups":[{"group":"north","rows":' '"column":"size"' '"column":"text"' \
    '{"group":"(empty)","rows":21,' '{"group":"(rare)","rows":12,' '"worst":{"accuracy":'
for name in north south; do
    region $name >one.csv
    run eval --checkpoint run --data-path one.csv --json --quiet
    expect_code 0
    expect "$name has its rows" sh -c "echo '$(group $name)' | grep -q '\"rows\":$(($(wc -l <one.csv) - 1)),'"
    for key in loss log_loss accuracy pr_auc average_precision roc_auc ece brier; do
        group $name >group.json
        expect_text group.json "\"$key\":$(json_number $key "$out")"
    done
    expect_text group.json "\"f1_macro\":$(json_number macro "$out")" \
        "$(grep -o '"intervals":{"resamples":1000,.*,"brier":\[[^]]*\]' "$out")"
done
run eval --checkpoint run --data-path regions.csv --by region
expect_code 0
expect_text "$out" "region " "interval excludes (all)" "(rare): groups of fewer than 20 rows"
expect "a line for all rows and for each group, with its rows" test \
    "$(awk '/^$/ { on = 0 } on && /^[^ ]/ { printf "%s %s ", $1, $2 } /^region / { on = 1 }' "$out")" = \
    "(all) 150 north $(($(region north | wc -l) - 1)) south $(($(region south | wc -l) - 1)) (empty) 21 (rare) 12 "
run eval --checkpoint run --data-path regions.csv --by region --bootstrap 0
expect_code 0
expect "no intervals of groups" test "$(sed -n '/^region /,$p' "$out" | grep -c ' to \|interval')" = 0
expect "groups and the worst" test "$(sed -n '/^region /,$p' "$out" | grep -c '^north\|^accuracy')" -ge 1
rejects 65 eval --checkpoint run --data-path regions.csv --by colour
rejects 2 eval --checkpoint run --data-path regions.csv --by size,size

# Equally frequent ones: the last. More than two: none, and means over all.
mkdir -p even three
for part in train valid test; do
    awk -F, -v OFS=, 'NR > 1 { $NF = NR % 2 ? "b" : "a" } { print }' data/$part.csv >even/$part.csv
    awk -F, -v OFS=, 'NR > 1 { $NF = "c" NR % 3 } { print }' data/$part.csv >three/$part.csv
done
run "${train[@]}" --output-dir even-run --data-path even --max-steps 2
expect_code 0
expect_text "$err" "positive label: b, 48 of 96 training rows (the last of two that are equally frequent"
make_config three.json '"num_classes": 3' '"is_binary": false'
run "${train[@]}" --config three.json --output-dir three-run --data-path three --max-steps 2
expect_code 0
expect "none is named" sh -c "! grep -q 'positive label' '$err'"
run eval --checkpoint three-run --data-path three --json
expect_code 0
expect_text "$out" '"positive_label":null' '"per_class":{"c0":' '"confusion":{"c0":{"c0":'
run eval --checkpoint three-run --data-path three
expect_text "$out" "are means over all labels, each against the rest" "c2"
rejects 2 eval --checkpoint three-run --data-path three --quiet --positive-label c1

# ---- A run that has ended: everything stays as it is, and it is said where the model lies ----
whole run >before
for ranks in 1 2; do
    run "${train[@]}" --output-dir run --batch-size $((16 / ranks)) --nproc-per-node $ranks
    expect_code 0
    expect_text "$err" "all 24 steps were taken before" "the folder stays as it is"
    expect_text "$out" "this run had finished: run is left as it was" "checkpoint  run/checkpoint-24" \
        "trident eval --checkpoint run --data-path named"
    whole run >after
    expect "no file of it is touched by $ranks ranks" cmp -s before after
done
# Its report alone can be missing, when memory or the disk ran out after the summary.
rm run/report.html
run "${train[@]}" --output-dir run --batch-size 16
expect_code 0
expect "a report that a complete run lacks is written" test -s run/report.html
run "${train[@]}" --output-dir run --json --quiet
expect_code 0
expect "its summary is printed" is "$(json_number steps "$out")" == 24
# Killed between its last checkpoint and its summary: what is lacking is made, with the figures of the whole run.
loss=$(sed -n 's/^  "loss": \([0-9.e-]*\),/\1/p' run/summary.json)
cp -r run cut && rm cut/summary.json
run "${train[@]}" --output-dir cut --quiet
expect_code 0
expect_text "$out" "checkpoint  cut/checkpoint-24"
expect "the loss of its last step" grep -q "^  \"loss\": $loss," cut/summary.json
expect_text cut/summary.json '"checkpoint": "cut/checkpoint-24"' '"best"' '"valid"' '"figures"'

# ---- Gone on: the time of all parts ----
seconds() { sed -n 's/^ *"seconds": \([0-9.e+-]*\),*$/\1/p' "$1" | head -n 1; }
cp -r run late && rm -r late/checkpoint-24 late/best_checkpoint.json
earlier=$(seconds late/checkpoint-18/manifest.json)
run "${train[@]}" --output-dir late
expect_code 0
expect_text "$err" "continuing from late/checkpoint-18 at step 18"
expect "more than the $earlier s before it went on: $(seconds late/summary.json)" is "$(seconds late/summary.json)" \
    '>' "$earlier"

# ---- The end of a run: the last checkpoint, the best, and which of them is taken ----
mkdir -p turned && cp named/train.csv turned
sed '1!{s/,ok$/,x/; s/,fraud$/,ok/; s/,x$/,fraud/}' named/valid.csv >turned/valid.csv # so that more training is worse
run "${train[@]}" --output-dir worse --data-path turned
expect_code 0
expect_text "$out" "checkpoint  worse/checkpoint-24 (last)" \
    "best        worse/checkpoint-6 (by validation loss: what eval, predict and export take)"
tr -d '\n ' <worse/summary.json >summary
best='"best":{"step":6,"loss":[^,]*,"figures":{"valid_loss":[^}]*"positive_label":"fraud","decision":{[^}]*}}'
expect "the best is in the summary" grep -q "$best"',"checkpoint":"worse/checkpoint-6"}' summary
run eval --checkpoint worse --data-path turned
expect_text "$err" "worse/checkpoint-6, the best of the run by validation loss"

# ---- Rows that were trained on: no hint to use them, and eval says so, whatever the file is called ----
run "${train[@]}" --output-dir one --data-path named/train.csv --max-steps 4
expect_code 0
expect_text "$out" "checkpoint  one/checkpoint-4 (last: what eval, predict and export take)" \
    "--data-path TABLE (of rows that were not trained on)"
expect "no hint to evaluate on the training table" sh -c "! grep -q train.csv '$out'"
cp named/train.csv copy.csv
checked run export --checkpoint one --output-dir exported
expect_code 0
for model in one exported; do
    run eval --checkpoint $model --data-path copy.csv --json --quiet
    expect_code 0
    expect_text "$err" "warning: the model was trained on all 96 rows of copy.csv"
    expect_text "$out" '"rows_trained_on":96'
    run eval --checkpoint $model --data-path named/test.csv --quiet
    expect "not of other rows" test ! -s "$err"
done
{ head -n 11 named/train.csv; tail -n +2 named/test.csv; } >mixed.csv
run eval --checkpoint one --data-path mixed.csv --json --quiet
expect_code 0
expect_text "$err" "warning: 10 of the 50 rows of mixed.csv equal rows that the model was trained on"
expect_text "$out" '"rows_trained_on":10'
run eval --checkpoint exported --data-path mixed.csv --json --quiet
expect_text "$out" '"rows_trained_on":null'
finish
