# Searches: draws, halving, resuming, trials side by side, failures, what is refused.
. "$(dirname "$0")/../lib/cli_lib.sh"
make_all
cat >space.json <<'EOF'
{
  "lr": {"from": 1e-4, "to": 1e-1, "scale": "log"},
  "batch_size": [8, 16],
  "optimizer": ["adamw", "sgd"],
  "warmup_steps": {"from": 0, "to": 4}
}
EOF
sweep() {
    echo sweep --config config.json --space space.json --trials 6 --data-path data --output-dir "$1" --epochs 3 \
        --no-color "${@:2}"
}
same() { expect "$3" test -n "$1" -a "$1" = "$2"; }
digest_of() { "$trident" digest "$1"; }
rank() { awk -v rank="$1" '$1 == rank { print $2 }' "$2"; } # the trial of a rank in a table

# Six trials of an epoch, the best two of three.
run $(sweep one)
expect_code 0
cp "$out" table && cp "$err" progress
expect_text "$err" "rung 1 of 2: 6 trials, to epoch 1 of 3" "rung 2 of 2: 2 trials, to epoch 3 of 3"
expect_text "$out" "valid_loss" "best        one/trial-00$(rank 1 table) (trial" "--config one/best.json"
best_two() { sort -s -k 4 -n "$1" | head -n 2 | cut -d ' ' -f 2 | sort; }
same "$(grep 'after 1 of 3' progress >first && best_two first)" \
    "$(sed -n 's/^\(trial [0-9]*\): .* after 3 of 3.*/\1:/p' progress | cut -d ' ' -f 2 | sort)" "the best two go on"
expect "the two are ranked first" test "$(awk '$1 ~ /^[12]$/ { print $4 }' table | uniq)" = 3
expect "the others trained an epoch" test "$(awk '$1 ~ /^[3-6]$/ { print $4 }' table | uniq)" = 1
expect "figures fall from rank 3 on" sort -c -k 3 -n <(awk '$1 ~ /^[3-6]$/' table)
expect "tokens are stored once" test "$(ls one/cache | wc -l)" = 2
expect "test tables are not read" test -z "$(grep -l 'test.csv' one/trial-*/metrics.jsonl)"

# A trial is what train does alone: rungs do not change its learning rates, nor its bits.
first=one/trial-00$(rank 1 table)
run train --config "$first/trial.json" --data-path data --output-dir alone --epochs 3 --quiet
expect_code 0
same "$(digest_of alone)" "$(digest_of "$first")" "a trial in two rungs is a training in one"
run train --config one/best.json --output-dir best --quiet
expect_code 0
same "$(digest_of best)" "$(digest_of "$first")" "best.json trains the same model"
run train --config "$first/trial.json" --data-path data --output-dir part --epochs 3 --until-epoch 1
run train --config "$first/trial.json" --data-path data --output-dir part --epochs 3 --until-epoch 1
expect_code 0
expect_text "$err" "steps were taken before, up to epoch 1"

# The folder of a sweep stands for its best trial; report and checkpoint take all of them.
run eval --checkpoint one --data-path data --json --quiet
expect_code 0
cp "$out" of-sweep
run eval --checkpoint "$first" --data-path data --json --quiet
expect "eval of the sweep is eval of its best trial" cmp -s of-sweep "$out"
run predict --checkpoint one --data-path data/test.csv -o of-sweep.csv
expect_code 0
expect_text "$err" "$first/checkpoint-" "which is the sweep's best trial"
same "$(digest_of one)" "$(digest_of "$first")" "digest takes the best trial"
run export --checkpoint one --output-dir exported
expect_code 0
run checkpoint ls one
expect_code 0
expect "all trials, the best first" test "$(awk 'NR == 2 { print $1 }' "$out")" = "$(basename "$first")"
expect "six of them" test "$(awk 'NR > 1 { print $1 }' "$out" | sort -u | wc -l)" = 6
expect_text "$out" "$(basename "$first") (best)"
run checkpoint verify one
expect_code 0
run report one
expect_code 0
expect "figures of all trials, the best first" test "$(awk 'NR == 2 { print $1 }' "$out")" = "$first"
expect "six of them, and no mean" test "$(grep -c '^one/trial-' "$out")" = 6 -a -z "$(grep '^mean' "$out")"
expect_text one/report.html '"set":"trials"'

# Again: nothing is trained. In twos, or stopped and begun again, the table is the same.
before=$(cat one/trial-*/metrics.jsonl | cksum)
run $(sweep one --json)
expect_code 0
expect_text "$err" "rung 1 of 2: 6 trials, to epoch 1 of 3; done before"
expect_text "$out" "\"best\":{\"trial\":$(rank 1 table),"
same "$before" "$(cat one/trial-*/metrics.jsonl | cksum)" "a finished sweep stays as it is"
run $(sweep two --parallel 2)
expect_code 0
same "$(head -n 7 table)" "$(head -n 7 "$out")" "two at a time, the same table"
: >said
"$trident" $(sweep killed --parallel 2) >"$out" 2>said &
pid=$!
for ((i = 0; i < 1500; i++)); do grep -q '^trial' said && break || sleep 0.01; done
kill -TERM $pid
wait $pid
code=$?
expect_code 75
expect "children are gone" test -z "$(pgrep -P $pid)"
expect "some trials were done" grep -q figure killed/sweep.json
rejects 66 eval --checkpoint killed --data-path data --quiet
run report killed
expect_code 0
run $(sweep killed)
expect_code 0
expect_text "$err" "were done before"
same "$(head -n 7 table)" "$(head -n 7 "$out")" "stopped and begun again, the same table"

# GPUs are shared out: as many to a trial as it has ranks. (Here the trials fail.)
CUDA_VISIBLE_DEVICES=3,5,7,9,11 run $(sweep gpus --parallel 3 --device cuda --nproc-per-node 2 --epochs 1)
expect_text "$err" "trial 1 begins on CUDA_VISIBLE_DEVICES=3,5" "trial 2 begins on CUDA_VISIBLE_DEVICES=7,9" \
    "trial 3 begins on CUDA_VISIBLE_DEVICES=3,5"
CUDA_VISIBLE_DEVICES=3,5,7,9,11 run $(sweep gpu --parallel 3 --device cuda --epochs 1)
expect_text "$err" "trial 1 begins on CUDA_VISIBLE_DEVICES=3" "trial 3 begins on CUDA_VISIBLE_DEVICES=7"

# Another space, seed, length or number of trials is another sweep.
sed 's/1e-1/2e-1/' space.json >other.json
rejects 2 $(sweep one) --space other.json
rejects 2 $(sweep one --seed 7)
rejects 2 $(sweep one) --trials 7
rejects 2 $(sweep one --halving 2)
rejects 2 $(sweep one --weight-decay 0.5)

# A trial that fails is named and the others go on; where all fail, so does the sweep.
echo "{\"primary_tokenizer\": [\"$work/model\", \"$work/none\"]}" >odd.json
run $(sweep odd --halving 1 --epochs 1) --space odd.json --trials 4
expect_code 0
expect_text "$out" "failed with exit code 66" "$work/none"
expect "some trials are ranked" test -n "$(rank 1 "$out")"
expect_text odd/sweep.json '"failed"' '"code": 66'
cp -r model none
run $(sweep odd --halving 1 --epochs 1) --space odd.json --trials 4
expect_code 0
expect "what was missing is there: tried again" test -n "$(rank 4 "$out")"
rm -r none
echo "{\"primary_tokenizer\": [\"$work/none\"]}" >none.json
rejects 66 $(sweep none --epochs 1 --quiet) --space none.json --trials 2

# A trial that is killed is tried again alone: the same table. One that is killed again is missing, which is
# said, and the exit code is its own; run again, the sweep is whole.
kills() { # FOLDER TRIAL TIMES: kills the trainings of a trial while the sweep of $pid runs
    local n=0 child
    while [ -d "/proc/$pid" ] && [ $n -lt "$3" ]; do
        for child in $(pgrep -P "$pid" -f "$1/$2"); do kill -KILL "$child" 2>/dev/null && n=$((n + 1)); done
        sleep 0.02
    done
}
for times in 1 2; do
    last_command="trident $(sweep hit$times --parallel 2), trial 2 killed $times times"
    "$trident" $(sweep hit$times --parallel 2) >"$out" 2>"$err" &
    pid=$!
    kills hit$times trial-002 $times
    wait $pid
    code=$?
    expect_code $((times == 1 ? 0 : 137))
    expect_text "$err" "trial 2 ended with exit code 137: it is tried again alone"
    [ $times = 1 ] || expect_text "$err" "1 trial ended twice" "run the same command again"
    [ $times = 1 ] || run $(sweep hit$times)
    expect_code 0
    [ $times = 2 ] || same "$(head -n 7 table)" "$(head -n 7 "$out")" "killed and tried again, the same table"
    same "$(rank 1 table)" "$(rank 1 "$out")" "killed $times times, in the end the same winner"
done

# What a space may not say is said with its line.
bad() { # bad TEXT JSON
    printf '{\n"weight_decay": [0],\n%s\n}\n' "$2" >bad.json
    rejects 2 $(sweep bad) --space bad.json
}
bad 'lrr: there is no such key of the configuration; did you mean "lr"?' '"lrr": [1]'
bad 'lr: -1 is out of range' '"lr": [1e-5, -1]'
bad 'batch_size: 0 is out of range' '"batch_size": {"from": 0, "to": 8}'
bad 'optimizer: expected adamw' '"optimizer": ["adamw", "adamx"]'
bad 'lr: a logarithmic scale begins above 0' '"lr": {"from": 0, "to": 1, "scale": "log"}'
bad 'lr: "from" 1 is above "to" 0.5' '"lr": {"from": 1, "to": 0.5}'
bad 'lr: a range has from, to, scale and integer, not "step"' '"lr": {"from": 0, "to": 0.5, "step": 1}'
bad 'lr: expected a list of values, or {"from"' '"lr": 0.1'
bad 'optimizer: a range is of numbers' '"optimizer": {"from": 0, "to": 1}'
bad 'epochs: cannot be searched' '"epochs": [1, 2]'
bad 'nnodes: belongs on the command line' '"nnodes": ["1"]'
expect "nothing was begun" test ! -e bad
rejects 2 $(sweep bad --learning-rate 0.1)
rejects 2 $(sweep bad) --data-path data/train.csv
rejects 2 sweep --config config.json --data-path data
rejects 2 $(sweep bad) --trials 0
finish
