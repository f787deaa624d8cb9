# Decisions: temperature and threshold fitted to validation, kept in checkpoints, used by predict and eval, carried by
# exports and quantised folders; the same on every mesh and after a restart; what is refused. (cli_serve.sh: servers.)
. "$(dirname "$0")/../lib/cli_lib.sh"
make_all
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE

# Labels that the words decide in five rows of seven: no model is always right.
for part in train valid test; do
    awk -F, -v OFS=, 'NR > 1 && NR * 5 % 7 < 2 { $NF = 1 - $NF } { print }' data/$part.csv >made
    mv made data/$part.csv
done
train=(train --config config.json --data-path data --batch-size 16 --epochs 3 --seed 1 --threads 1)
decision() { tr -d '\n' <"$1/manifest.json" | sed 's/.*"decision": *\({[^}]*}\).*/\1/; s/  *//g'; }
member() { sed -n "s/.*\"$1\":\"*\([^],\"}]*\).*/\1/p"; } # of a decision

# ---- Fitted to each validation, and kept with its checkpoint ----
checked run "${train[@]}" --output-dir run --threshold recall=0.9
expect_code 0
expect_text "$out" "decision    temperature " ", 1 from a probability of " "(recall=0.9: precision "
for step in 12 18; do
    expect "checkpoint-$step has a decision of its own" test "$(decision run/checkpoint-$step | member step)" = $step
done
temperature=$(decision run/checkpoint-18 | member temperature)
threshold=$(decision run/checkpoint-18 | member threshold)
expect "a temperature is found" is "$temperature" '>' 0.1
expect "recall is reached" is "$(decision run/checkpoint-18 | member recall)" '>=' 0.9
expect "log loss falls" is "$(decision run/checkpoint-18 | sed 's/.*"log_loss":\[[^,]*,\([^]]*\).*/\1/')" '<=' \
    "$(decision run/checkpoint-18 | sed 's/.*"log_loss":\[\([^,]*\).*/\1/')"
expect "each validation's line has them" test \
    "$(grep -c '"event":"epoch".*"ece":.*"temperature":[0-9.]*,"threshold":[0-9.]*,' run/metrics.jsonl)" = 3
tr -d '\n ' <run/summary.json >summary
expect_text summary '"decision":{"temperature":' '"chosen_for":"recall=0.9"'
run checkpoint ls run
expect_text "$out" "temperature  threshold" "$(printf %.4g "$temperature")"

run "${train[@]}" --output-dir plain --calibration none
expect_code 0
expect "no decision without either" sh -c "! grep -q '\"decision\"' plain/checkpoint-18/manifest.json"
expect "decisions change no weight" test "$("$trident" digest plain)" = "$("$trident" digest run)"

# ---- The same on ranks, and after a restart ----
still=("${train[@]}" --threshold recall=0.9 --lr 0 --max-steps 6 --cache-dir run/cache) # equal weights on all meshes
run "${still[@]}" --output-dir one
expect_code 0
for mesh in "--batch-size 8 --shard zero3" "--pp-size 2"; do
    run "${still[@]}" --output-dir two --nproc-per-node 2 $mesh --resume never
    expect_code 0
    expect "two ranks decide as one: $mesh" test "$(decision two/checkpoint-6)" = "$(decision one/checkpoint-6)"
done
cp -r run again && rm -r again/checkpoint-18 again/summary.json
run "${train[@]}" --output-dir again --threshold recall=0.9
expect_code 0
expect_text "$err" "continuing from again/checkpoint-12"
expect "a resumed run decides as a whole one" test "$(decision again/checkpoint-18)" = "$(decision run/checkpoint-18)"
run "${train[@]}" --output-dir between --threshold f1 --save-steps 4 --keep 9
expect_code 0
run predict --checkpoint between/checkpoint-8 --data-path data/test.csv -o /dev/null
expect_text "$err" "were fitted at step 6, and this checkpoint is of step 8"

# ---- explain says the label that predict does, and importance counts by it ----
for at in "" "--threshold 0.999999" "--threshold 0.000001" "--threshold none --calibration none"; do
    run predict --checkpoint run --data-path data/test.csv --quiet $at
    expect_code 0
    labels=$(awk -F, 'NR > 1 { printf "%s ", $1 }' "$out")
    run explain --checkpoint run --data-path data/test.csv --json --quiet $at
    expect_code 0
    said=$(sed 's/.*"label":"\([^"]*\)","explained":"\([^"]*\)".*/\1\2/; s/00/0/; s/11/1/' "$out" | tr '\n' ' ')
    expect "explain's labels are predict's $at" test "$said" = "$labels"
done
run eval --checkpoint run --data-path data/test.csv --json --quiet --threshold 0.999999
accuracy=$(json_number accuracy "$out")
run explain --checkpoint run --data-path data/test.csv --importance --repeats 1 --json --quiet --threshold 0.999999
expect "importance starts from eval's accuracy" grep -q "\"figures\":{[^}]*\"accuracy\":$accuracy" "$out"

# ---- An ensemble: members are calibrated, the threshold is the mean of theirs; without one in all, there is none ----
run "${train[@]}" --output-dir both --seeds 2 --threshold f1 --quiet --cache-dir run/cache
expect_code 0
run predict --checkpoint both --data-path data/test.csv --quiet
tail -n +2 "$out" >predicted
run explain --checkpoint both --data-path data/test.csv --json --quiet
sed 's/.*"label":"\([^"]*\)".*"probabilities":{"0":\([^,]*\),"1":\([^}]*\)}.*/\1,\2,\3/' "$out" >explained
expect "a model in memory computes what predict does" awk -F, 'NR == FNR { at[NR] = $1; p[NR] = $3; next }
    { d = $3 - p[FNR]; if (at[FNR] != $1 || d > 1e-6 || d < -1e-6) exit 1 }' predicted explained
threshold_of() {
    "$trident" eval --checkpoint "$1" --data-path data/test.csv --quiet --bootstrap 0 |
        sed -n 's/^Threshold.*of \([0-9.]*\) .*/\1/p'
}
expect "the mean of the thresholds" awk -v a="$(threshold_of both/seed-1)" -v b="$(threshold_of both/seed-2)" \
    -v mean="$(threshold_of both)" 'BEGIN { exit !(a > 0 && b > 0 && ((a + b) / 2 - mean) ^ 2 < 1e-10) }'
run eval --checkpoint both --data-path data/test.csv --by text --json --quiet # four texts, of few rows each
expect_code 0
expect "a group of all rows has the figures of the mean" grep -q \
    "\"groups\":\[{\"group\":\"(rare)\",\"rows\":40,\"loss\":$(json_number loss "$out"),\"log_loss\":" "$out"
mkdir -p mixed && cp -r run mixed/a && cp -r plain mixed/b
echo '{"format": "trident-ensemble", "version": 1, "members": [{"folder": "a"}, {"folder": "b"}]}' >mixed/ensemble.json
expect "no threshold that one lacks" test -z "$(threshold_of mixed)"

# ---- predict: probabilities are calibrated, the label flips at the threshold ----
run predict --checkpoint run --data-path data/test.csv -o with.csv
expect_code 0
expect_text "$err" "label 1 from a probability of"
run predict --checkpoint run --data-path data/test.csv -o raw.csv --calibration none
expect_code 0
flips() { awk -F, -v t="$2" 'NR > 1 && ($1 == 1) != ($3 + 0 >= t + 0) { exit 1 }' "$1"; } # FILE THRESHOLD
expect "labels are by the threshold" flips with.csv "$threshold"
expect "without it by the likeliest class" flips raw.csv 0.5
expect "some label differs" test "$(cut -d, -f1 with.csv | cksum)" != "$(cut -d, -f1 raw.csv | cksum)"
paste -d, raw.csv with.csv | awk -F, -v t="$temperature" 'NR > 1 {
    a = $2 ^ (1 / t); b = $3 ^ (1 / t); p = b / (a + b); d = p - $6; if (d < 0) d = -d; if (d > 1e-5) exit 1 }'
expect "probabilities are softmax(log p / T)" test $? = 0
middle=$(cut -d, -f3 with.csv | sed 1d | sort -g | sed -n 20p)
run predict --checkpoint run --data-path data/test.csv -o middle.csv --threshold "$middle"
expect_code 0
expect "a number replaces it" flips middle.csv "$middle"
expect "the probabilities stay" cmp -s <(cut -d, -f2- middle.csv) <(cut -d, -f2- with.csv)
run predict --checkpoint run --data-path data/test.csv -o none.csv --threshold none
expect "none: the likeliest class" flips none.csv 0.5
run predict --checkpoint run --data-path data/test.csv -o top.csv --top-k 2
expect "the label comes first of the top" cmp -s <(cut -d, -f1 top.csv) <(cut -d, -f1 with.csv)

# ---- eval: figures at the threshold, before and after the temperature, intervals ----
checked run eval --checkpoint run --data-path data
expect_code 0
expect_text "$out" "95 % interval" "Brier score" "Threshold: label 1 from a probability of" "(recall=0.9)." \
    "Temperature $(printf %.4g "$temperature"), fitted to validation: log loss" "ECE: how far"
checked run eval --checkpoint run --data-path data --json
cp "$out" once.json
run eval --checkpoint run --data-path data --json --nproc-per-node 2
expect "the same again, on two ranks too" cmp -s "$out" once.json
said=$(cut -d, -f1 with.csv | grep -c '^1$')
expect "the confusion matrix is predict's ($said)" test "$said" = \
    "$(sed 's/.*"confusion":{"0":{"0":[0-9]*,"1":\([0-9]*\)},"1":{"0":[0-9]*,"1":\([0-9]*\)}.*/\1 + \2/' once.json |
    xargs expr)"
expect_text once.json '"before_temperature":{"log_loss":' '"intervals":{"resamples":1000,"confidence":0.95,"loss":['
run eval --checkpoint run --data-path data --json --bootstrap 0 --calibration none
expect_code 0
expect "no intervals" sh -c "! grep -q intervals '$out'"
expect_text "$out" '"decision":{"temperature":1.0,"threshold":null'
run eval --checkpoint plain --data-path data --json --bootstrap 0
expect "without calibration, log loss is that of the model's own probabilities" test \
    "$(json_number log_loss "$out")" = "$(sed 's/.*"before_temperature":{"log_loss":\([^,]*\).*/\1/' once.json)"

# ---- The report has eval's calibration error: of the model's own probabilities, and calibrated ----
run eval --checkpoint run --data-path data/valid.csv --json --bootstrap 0
eces() { grep -o '"ece":[0-9][0-9.]*' "$1" | cut -d: -f2 | cut -c1-8 | sort -u; }
eces "$out" >evaluated
run report run --json
sed 's/.*"predictions":{"best":\(.*\),"last":.*/\1/' "$out" >best.predictions
expect "two errors" test "$(wc -l <evaluated)" = 2
expect "the report's ECE is eval's" cmp -s evaluated <(eces best.predictions)

# ---- Carried along ----
run export --checkpoint run --output-dir exported
expect_code 0
run predict --checkpoint exported --data-path data/test.csv -o exported.csv
expect "an export decides as its checkpoint" cmp -s with.csv exported.csv
run quantize run -o small --max-drop 1 --quiet
expect_code 0
expect "a quantised folder keeps it" test "$(decision small)" = "$(decision run/checkpoint-18)"

# ---- A target that cannot be reached; a class that validation lacks; one class; a row ----
run "${train[@]}" --output-dir high --threshold precision=0.999 --cache-dir run/cache --quiet
expect_code 0
expect_text "$err" "--threshold precision=0.999: no threshold has that precision on the 32 validation rows; the highest"
expect_text "$out" "(precision=0.999, not reached: precision"
mkdir -p lacking && cp data/train.csv lacking && awk -F, 'NR == 1 || $NF == 0' data/valid.csv >lacking/valid.csv
run "${train[@]}" --data-path lacking --output-dir lacks --threshold cost=1:5 --max-steps 6
expect_code 0
expect_text "$err" "no validation row is of the positive label, 1: there is no threshold"
expect_text "$out" "no threshold (cost=1:5: no validation row is of the positive label)"
head -n 2 lacking/valid.csv >x && mv x lacking/valid.csv
run "${train[@]}" --data-path lacking --output-dir lacks --max-steps 6 --resume never
expect_code 0
run eval --checkpoint lacks --data-path lacking
expect_code 0

# ---- Refused ----
mkdir -p alone && cp data/train.csv alone
rejects 2 "${train[@]}" --data-path alone --output-dir no --quiet --threshold f1
run "${train[@]}" --data-path alone --output-dir alone-run --max-steps 2
expect_code 0
expect_text "$err" "no temperature is fitted"
rejects 2 "${train[@]}" --output-dir no --quiet --threshold 0.5
rejects 2 "${train[@]}" --output-dir no --quiet --threshold accuracy
rejects 2 predict --checkpoint run --data-path data --quiet --threshold f1
make_config three.json '"num_classes": 3' '"is_binary": false'
mkdir -p three
for part in train valid; do
    awk -F, -v OFS=, 'NR > 1 { $NF = "c" NR % 3 } { print }' data/$part.csv >three/$part.csv
done
three=("${train[@]}" --config three.json --data-path three --max-steps 6)
rejects 2 "${three[@]}" --output-dir no --quiet --threshold f1
run "${three[@]}" --output-dir three-run
expect_code 0
expect_text "$out" "decision    temperature "
rejects 2 predict --checkpoint three-run --data-path three --quiet --threshold 0.5
finish
