# Averaged weights (--average-weights): what is validated is what eval, predict and export take; stopped by a signal and
# resumed to the bit, on another mesh; plans of them; what is refused.
. "$(dirname "$0")/../lib/cli_lib.sh"
make_all
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE SLURM_JOB_END_TIME
common=(train --config config.json --data-path data --global-batch-size 8 --epochs 3 --threads 1 --save-steps 5
    --keep 100)
digest() { "$trident" digest "$1" 2>/dev/null; }

for form in ema:0.8 last:2; do
    run "${common[@]}" --output-dir "whole-$form" --nproc-per-node 2 --shard zero1 --average-weights $form --quiet
    expect_code 0
    # A signal at any step.
    "$trident" "${common[@]}" --output-dir "asked-$form" --nproc-per-node 2 --shard zero1 --average-weights $form \
        --async-save >"$out" 2>"$err" &
    pid=$!
    until [ -d "asked-$form/checkpoint-10" ] || [ ! -d "/proc/$pid" ]; do sleep 0.01; done
    kill -TERM "$pid" 2>/dev/null
    wait "$pid"
    code=$?
    last_command="trident ${common[*]} --output-dir asked-$form"
    expect_code 75
    run "${common[@]}" --output-dir "asked-$form" --nproc-per-node 2 --shard zero1 --average-weights $form --quiet
    expect_code 0
    expect "the state of the undisturbed run" test "$(digest "asked-$form")" = "$(digest "whole-$form")"

    # What is evaluated within the run is what eval takes from its checkpoint.
    run eval --checkpoint "whole-$form/checkpoint-36" --data-path data/valid.csv --json --threads 1 --calibration none
    expect_code 0
    grep '"event":"epoch"' "whole-$form/metrics.jsonl" | tail -n 1 >last
    valid=$(json_number valid_loss last)
    loss=$(json_number loss "$out")
    expect "its loss is the validation's ($loss, $valid)" is "$loss" '<' "$(awk "BEGIN { print $valid + 1e-6 }")"
    expect "its loss is the validation's ($loss, $valid)" is "$loss" '>' "$(awk "BEGIN { print $valid - 1e-6 }")"
done
expect "averages differ" test "$(digest whole-ema:0.8)" != "$(digest whole-last:2)"
expect_text whole-ema:0.8/checkpoint-36/manifest.json '"live.fusion.output.weight"'
expect_text whole-last:2/checkpoint-36/manifest.json '"averaged_epochs": 2'

# Exported weights are the averages: a step at a learning rate of 0 from them leaves them.
run export --checkpoint whole-ema:0.8 --output-dir exported
expect_code 0
run eval --checkpoint whole-ema:0.8 --data-path data/valid.csv --json --threads 1
cp "$out" averages
run eval --checkpoint exported --data-path data/valid.csv --json --threads 1
expect "the scores of the averages" test "$(json_number loss "$out")" = "$(json_number loss averages)"
run train --config config.json --data-path data --batch-size 4 --threads 1 --max-steps 1 --lr 0 --warmup-steps 0 \
    --quiet --resume exported --average-weights ema --nproc-per-node 2 --shard zero2 --output-dir begun
expect_code 0
run eval --checkpoint begun --data-path data/valid.csv --json --threads 1
expect "the scores of the exported weights" test "$(json_number loss "$out")" = "$(json_number loss averages)"

# On another mesh, and without averages: from the weights that were trained.
again() { rm -rf asked-ema:0.8/checkpoint-3? asked-ema:0.8/best_checkpoint.json asked-ema:0.8/summary.json; }
again
run "${common[@]}" --output-dir asked-ema:0.8 --nproc-per-node 2 --pp-size 2 --average-weights ema:0.8
expect_code 0
expect_text "$err" "continuing from asked-ema:0.8/checkpoint-2"
again
rejects 2 "${common[@]}" --output-dir asked-ema:0.8
run "${common[@]}" --output-dir asked-ema:0.8 --allow-change average_weights
expect_code 0
expect_text "$err" "this run goes on from 'live.*'"

# Plans: 4 bytes a parameter more, sharded; printed, proved, timed.
state() { sed 's/.*"ranks":\[{[^}]*"state":\([0-9]*\).*/\1/' "$out"; }
for ranks in 1 2; do
    run plan --config config.json --world-size $ranks --shard zero1 --json --quiet
    none=$(state)
    run plan --config config.json --world-size $ranks --shard zero1 --average-weights ema --json --quiet
    expect "half as much as the moments" is "$(state)" == "$(awk "BEGIN { print $none * 1.5 }")"
done
run plan --config config.json --world-size 2 --shard zero1 --precision bf16 --average-weights ema --quiet \
    --print-kind exchange --print-program all
expect_code 0
cp "$out" exchange.txt
expect_text exchange.txt "program trimodal exchange" "swap                 master.fusion average.fusion"
run check exchange.txt
expect_code 0
run simulate --program exchange.txt --hardware h200x8
expect_code 0
rejects 2 plan --config config.json --print-kind exchange --print-after prune

rejects 2 "${common[@]}" --average-weights swa
rejects 2 "${common[@]}" --average-weights last:2 --early-stopping 3
rejects 2 "${common[@]}" --average-weights ema --sync-every 7 --nproc-per-node 2 --output-dir no
expect "nothing was made" test ! -e no

# A run that had ended and goes on averages the ends of its new last epochs alone.
run "${common[@]}" --output-dir whole-last:2 --nproc-per-node 2 --shard zero1 --average-weights last:2 --epochs 6 \
    --quiet
expect_code 0
expect_text whole-last:2/checkpoint-72/manifest.json '"averaged_epochs": 2'
finish
