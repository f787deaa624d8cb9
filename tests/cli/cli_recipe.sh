# The recipe through the command: which validation is the best, early stopping, class weights by counting, other losses;
# also on several ranks, killed and continued.
. "$(dirname "$0")/../lib/cli_lib.sh"
make_all
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE

# One fraud in eight rows; `turned` has the validation rows with the other label: more training is worse.
mkdir -p named turned
for part in train valid test; do
    awk -F, -v OFS=, 'NR > 1 { $NF = NR % 8 ? "ok" : "fraud" } { print }' data/$part.csv >named/$part.csv
done
cp named/train.csv turned
sed '1!{s/,ok$/,x/; s/,fraud$/,ok/; s/,x$/,fraud/}' named/valid.csv >turned/valid.csv
train=(train --config config.json --data-path turned --global-batch-size 16 --epochs 8 --seed 1 --threads 1
    --cache-dir cache)
digest() { "$trident" digest "$1"; }

# ---- Early stopping: two validations that are not better end it, with exit 0, a checkpoint and a summary ----
run "${train[@]}" --output-dir early --early-stopping 2
expect_code 0
expect_text "$err" "at step 6): the run ends early, at step 18 of 48" "stopped early  step 18/48"
expect_text "$out" "checkpoint  early/checkpoint-18 (last)" "best        early/checkpoint-6 (by validation loss"
expect_text early/summary.json '"stopped_early": true' '"steps": 18'
ended=$(digest early)
run report early -o page.html
expect_text "$err" "finished early: 18 of 48 steps"
# The learning rate is that of the whole run: the same steps as of one that goes on.
run "${train[@]}" --output-dir on --max-steps 48 --save-steps 18 --keep 9 --quiet
expect "its steps are those of the whole run" test "$(digest on/checkpoint-18)" = "$ended"
expect "without the option nothing is said of it" test "$(grep -c stopped_early on/summary.json)" = 0

# Ended: the same command does nothing. Killed before its summary, or before its last checkpoint: the same end.
run "${train[@]}" --output-dir early --early-stopping 2
expect_code 0
expect_text "$err" "it ended early at step 18 of 48, after 2 validations without a better one: nothing is trained"
rm early/summary.json
run "${train[@]}" --output-dir early --early-stopping 2 --quiet
expect_code 0
expect_text early/summary.json '"stopped_early": true' '"steps": 18' '"checkpoint": "early/checkpoint-18"'
rm -r early/summary.json early/checkpoint-18
checked run "${train[@]}" --output-dir early --early-stopping 2 --quiet
expect_code 0
expect_text early/summary.json '"stopped_early": true' '"steps": 18'
expect "it ends with the same weights" test "$(digest early)" = "$ended"
# More patience goes on; a run that is better at every validation takes all its steps.
run "${train[@]}" --output-dir early --early-stopping 3
expect_code 0
expect_text "$err" "early_stopping was 2, is 3" "the run ends early, at step 24 of 48"
run "${train[@]}" --data-path data --output-dir better --early-stopping 1 --epochs 3 --quiet
expect_code 0
expect_text better/summary.json '"stopped_early": false' '"steps": 18'
rejects 2 "${train[@]}" --data-path named/train.csv --output-dir none --early-stopping 2 --quiet

# A better one begins the count anew: losses that rise and fall end the run where two in a row are not better.
swings=("${train[@]}" --data-path named --lr 2e-2 --lr-schedule constant --seed 3 --quiet)
run "${swings[@]}" --output-dir swings
ends=$(grep -o '"best":[a-z]*' swings/metrics.jsonl | awk -F: '{ n = $2 == "true" ? 0 : n + 1 }
    n == 2 { print NR; exit }')
run "${swings[@]}" --output-dir counted --early-stopping 2
expect_code 0
expect "it ends after epoch ${ends:-8}" test "$(grep -c '"event":"epoch"' counted/metrics.jsonl)" = "${ends:-8}"

# Ranks end together.
for mesh in "--pp-size 2" "--tp-size 2" "--shard zero3"; do
    run "${train[@]}" --output-dir "ranks$mesh" --early-stopping 2 --nproc-per-node 2 $mesh --quiet
    expect_code 0
    expect_text "ranks$mesh/summary.json" '"stopped_early": true' '"steps": 18'
done

# ---- The best by another figure than the loss: recorded, said, taken by eval, and kept by a run that goes on ----
# accuracy is the same at several validations: the first of them stays the best.
run "${train[@]}" --output-dir by --best-by accuracy
expect_code 0
expect_text "$err" "  best by accuracy"
expect_text "$out" "(by validation accuracy: what eval, predict and export take)"
expect_text by/metrics.jsonl '"best":true,"best_by":"accuracy"' '"best":false,"best_by":"accuracy"'
highest=$(sed -n 's/.*"event":"epoch".*"step":\([0-9]*\).*"accuracy":\([0-9.]*\).*/\2 \1/p' by/metrics.jsonl |
    sort -k 1,1nr -k 2,2n | head -n 1)
expect "the first validation with the highest accuracy: $highest" grep -q "\"step\": ${highest#* }," \
    by/best_checkpoint.json
tr -d '\n ' <by/summary.json >summary
expect "the summary says by what" grep -q '"best":{"step":[0-9]*,"loss":.*"by":"accuracy"' summary
run eval --checkpoint by --data-path named
expect_code 0
expect_text "$err" "the best of the run by validation accuracy"
run "${train[@]}" --output-dir part --best-by accuracy --max-steps 12 --quiet
run "${train[@]}" --output-dir part --best-by accuracy --allow-change max_steps --quiet
expect_code 0
expect "a run that went on has the same best" cmp -s part/best_checkpoint.json by/best_checkpoint.json
rejects 2 "${train[@]}" --output-dir by --quiet
# Another figure from here on: that validation's own value of it is what later ones must beat.
run "${train[@]}" --data-path named --output-dir other --max-steps 12 --quiet
cp other/best_checkpoint.json marked
run "${train[@]}" --data-path named --output-dir other --max-steps 18 --best-by accuracy --quiet \
    --allow-change best_by,max_steps
expect_code 0
expect "an equal accuracy is not better" cmp -s other/best_checkpoint.json marked
# An area without rows of the class is not defined, and never the best.
mkdir -p lacking && cp named/train.csv lacking
grep -v ',fraud$' named/valid.csv >lacking/valid.csv
run "${train[@]}" --data-path lacking --output-dir lacking-run --best-by pr_auc --early-stopping 2
expect_code 0
expect_text "$err" "--best-by pr_auc is not defined on the validation table" "(none was defined): the run ends early"
expect "there is no best" test ! -e lacking-run/best_checkpoint.json

# ---- Class weights: 96 / (2 x 12) and 96 / (2 x 84), as recorded numbers; the run is the one that is given them ----
run "${train[@]}" --output-dir balanced --data-path named --class-weights balanced --epochs 2
expect_code 0
expect_text "$err" "class weights, balanced: fraud 4 (12 rows), ok 0.5714 (84 rows)"
tr -d '\n ' <balanced/checkpoint-12/config.json >recorded
expect_text recorded '"class_weights":[4.0,0.5714285714285714]'
run "${train[@]}" --output-dir numbers --data-path named --class-weights 4,0.57142857142857140 --epochs 2 --quiet
expect "numbers give the same weights" test "$(digest numbers)" = "$(digest balanced)"
make_config balanced.json '"class_weights": "balanced"'
run "${train[@]}" --config balanced.json --output-dir numbers --data-path named --epochs 3 --quiet
expect_code 0 # the numbers of the checkpoint are those that the rows give
run train --config balanced/checkpoint-12/config.json --data-path named --output-dir again --epochs 1 --quiet
expect_code 0
rejects 65 "${train[@]}" --output-dir none --data-path named --quiet --class-weights balanced --label-list \
    fraud,ok,rare --num-classes 3 --is-binary=false
rejects 2 "${train[@]}" --output-dir none --class-weights even

# ---- Losses: on every mesh the same, not the same as plain cross-entropy, which validation keeps ----
last_loss() { grep '"event":"train"' "$1/metrics.jsonl" | tail -n 1 >line && json_number loss line; }
near() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a != "" && a < b + 1e-5 && a > b - 1e-5) }'; }
for form in "--label-smoothing 0.2" "--loss focal"; do
    losses=("${train[@]}" --data-path named --class-weights balanced $form --epochs 2 --log-every 1 --quiet)
    run "${losses[@]}" --output-dir "one$form"
    expect_code 0
    one=$(last_loss "one$form")
    expect "$form is not plain" is "$one" '!=' "$(last_loss balanced)"
    for mesh in "--pp-size 2" "--tp-size 2" "--shard zero2"; do
        run "${losses[@]}" --output-dir "two$form$mesh" --nproc-per-node 2 $mesh
        expect_code 0
        expect "$form $mesh: $(last_loss "two$form$mesh") is $one" near "$(last_loss "two$form$mesh")" "$one"
    done
done
run eval --checkpoint "one--loss focal" --data-path named --json
focal=$(grep '"event":"epoch"' "one--loss focal/metrics.jsonl" | tail -n 1 >line && json_number train_loss line)
expect "evaluation is plain, and so above the focal loss of training" is "$(json_number loss "$out")" '>' "$focal"
run "${losses[@]}" --output-dir zero --focal-gamma 0
expect "gamma 0 is cross-entropy" test "$(digest zero)" = "$(digest balanced)"
run plan --config config.json --models-dir . --label-smoothing 0.2 --print-program 0
expect "the training program has the form" grep -q 'cross_entropy .*smoothing=0.2' "$out"
expect "and its gradient" grep -q 'cross_entropy_din .*smoothing=0.2' "$out"
run plan --config config.json --models-dir . --label-smoothing 0.2 --print-program 0 --print-kind infer
expect "prediction does not" test "$(grep -c 'cross_entropy' "$out") $(grep -c smoothing "$out")" = "1 0"
rejects 2 "${train[@]}" --output-dir none --loss focal --label-smoothing 0.1
rejects 2 "${train[@]}" --output-dir none --focal-gamma 3
finish
