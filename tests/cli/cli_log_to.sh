# train --log-to: MLflow's and W&B's files beside a run; a run that goes on keeps their names; a refused target leaves
# nothing. tests/unit/test_log_to.c reads the formats.
. "$(dirname "$0")/../lib/cli_lib.sh"
make_all
common=(train --config config.json --data-path data --output-dir run --threads 1 --batch-size 16 --epochs 9 --quiet)

refuses 2 '--log-to mlfow:x: mlflow:FOLDER or wandb:FOLDER is expected, as in mlflow:runs' -- "${common[@]}" \
    --log-to mlfow:x
expect "no folder" test ! -e run
run "${common[@]}" --max-steps 6
expect_code 0
expect "nothing without --log-to" test ! -e run/log-to.json

# Begun later: the steps before it are there too.
run "${common[@]}" --max-steps 12 --log-to mlflow:mlruns,wandb:wandb
expect_code 0
first=$(echo mlruns/*/*/metrics/train/loss)
expect "one run" test -f "$first"
expect "a line a step" test "$(wc -l <"$first")" = 12
expect "the loss of metrics.jsonl" test "$(awk '$3 == 11 { print $2 }' "$first")" = \
    "$(grep '"event":"train","step":11,' run/metrics.jsonl | sed 's/.*"loss":\([^,]*\),.*/\1/')"
expect "it has ended" grep -qx 'status: 3' mlruns/*/*/meta.yaml
expect "W&B's file" test -s "$(echo wandb/offline-run-*/run-*.wandb)"

run "${common[@]}" --max-steps 18 --log-to mlflow:mlruns --log-to wandb:wandb
expect_code 0
expect "the same run goes on" test "$(echo mlruns/*/*/metrics/train/loss)" = "$first"
expect "every step once" test "$(awk '{ print $3 }' "$first" | tr '\n' ' ')" = "$(seq -s ' ' 1 18) "
expect "W&B's file is the same" test "$(ls wandb | wc -l)" = 1

# On ranks, one of which writes; a new run has another name.
rm -rf run
run "${common[@]}" --max-steps 4 --nproc-per-node 2 --batch-size 8 --log-to mlflow:mlruns
expect_code 0
expect "two runs now" test "$(ls -d mlruns/*/*/metrics | wc -l)" = 2

# A folder that cannot be written is said, by its name.
mkdir -p locked && : >locked/file
run "${common[@]}" --resume never --max-steps 2 --log-to mlflow:locked/file
expect_code 74
expect_text "$err" locked/file
finish
