# Copies of the model that take local steps (--sync-every): stopped in between and resumed to the bit, evaluated by what
# they share, on other numbers of copies; what is refused.
. "$(dirname "$0")/../lib/cli_lib.sh"
make_all
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE SLURM_JOB_END_TIME
common=(train --config config.json --data-path data --global-batch-size 8 --epochs 12 --threads 1 --save-every 1000
    --save-steps 25 --sync-every 7)
digest() { "$trident" digest "$1" 2>/dev/null; }

run "${common[@]}" --output-dir whole --nproc-per-node 2 --check-replicas 5 --profile wait=4,warmup=1,active=3
expect_code 0
expect_text "$out" "steps 6 to 8 (2 alone, 1 sync), "
expect_text "$err" "copies take local steps at 1.41 times the learning rate"
expect_text "$err" "clip at sqrt(copies) times --max-grad-norm"
expect_text "$err" "synchronise in a step of 0.7 times their mean change (--outer-lr) with a momentum of 0.5"

# A signal at any step: the copies' own weights and moments are in the checkpoint.
"$trident" "${common[@]}" --output-dir asked --nproc-per-node 2 >"$out" 2>"$err" &
pid=$!
until [ -d asked/checkpoint-25 ] || [ ! -d "/proc/$pid" ]; do sleep 0.01; done
kill -TERM "$pid" 2>/dev/null
wait "$pid"
code=$?
last_command="trident ${common[*]} --output-dir asked"
expect_code 75
run "${common[@]}" --output-dir asked --nproc-per-node 2 --quiet
expect_code 0
expect "the weights of the undisturbed run" test "$(digest asked)" = "$(digest whole)"

# What is evaluated within the run is what eval takes from its checkpoint.
run eval --checkpoint whole/checkpoint-144 --data-path data/valid.csv --json --calibration none
expect_code 0
grep '"event":"epoch"' whole/metrics.jsonl | tail -n 1 >last
valid=$(json_number valid_loss last)
loss=$(json_number loss "$out")
expect "its loss is the validation's ($loss, $valid)" is "$loss" '<' "$(awk "BEGIN { print $valid + 1e-5 }")"
expect "its loss is the validation's ($loss, $valid)" is "$loss" '>' "$(awk "BEGIN { print $valid - 1e-5 }")"

# Another number of copies, and none, from a checkpoint between synchronisations.
again() { rm -rf asked/checkpoint-144 asked/best_checkpoint.json asked/summary.json; }
again
run "${common[@]}" --output-dir asked --nproc-per-node 6 --shard hybrid --shard-size 2 \
    --compress-gradients int8 --allow-change compress_gradients
expect_code 0
expect_text "$err" "continuing from asked/checkpoint-1" "of 2 copies of the model, the run has 3"
again
run "${common[@]}" --output-dir asked --nproc-per-node 2 --sync-every 1
expect_code 2
expect_text "$err" "sync_every = 7 (now 1)" "--allow-change"
run "${common[@]}" --output-dir asked --nproc-per-node 2 --sync-every 1 --allow-change sync_every
expect_code 0
expect_text "$err" "continuing from asked/checkpoint-1" "of 2 copies of the model, the run has 1"

# Weights of a folder are where the copies begin: a step at a learning rate of 0 leaves them.
run export --checkpoint whole --output-dir exported
expect_code 0
for every in 1 7; do
    run train --config config.json --data-path data --batch-size 4 --threads 1 --max-steps 1 --nproc-per-node 2 \
        --quiet --resume exported --sync-every $every --output-dir begun$every
    expect_code 0
    run eval --checkpoint begun$every --data-path data/valid.csv --json
    cp "$out" scores$every
done
expect "the scores of the exported weights" test "$(json_number loss scores1)" = "$(json_number loss scores7)"

rejects 2 "${common[@]}" --output-dir no
rejects 2 "${common[@]}" --output-dir no --nproc-per-node 2 --shard zero3
expect "nothing was made" test ! -e no
run plan --config config.json --world-size 4 --sync-every 32 --shard none --check
expect_code 0
finish
