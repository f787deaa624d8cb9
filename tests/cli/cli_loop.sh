# A custom training loop with the library (examples/loop.c) gives exactly the losses of `trident train`; and a run's
# resident memory is that of its plan.
. "$(dirname "$0")/../lib/cli_lib.sh"
make_all
loop=$TRI_BUILD/examples/loop
options="--config config.json --data-path data --epochs 3 --batch-size 16 --num-microbatches 2 --lr 3e-3 --seed 5"

run train $options --output-dir run --quiet
expect_code 0
sed -n 's/.*"event": *"train".*"loss": *\([^,}]*\).*/\1/p' run/metrics.jsonl >want
expect "losses in metrics.jsonl" test -s want

last_command="loop $options --output-dir own"
"$loop" $options --output-dir own >"$out" 2>"$err"
code=$?
expect_code 0
expect "the same losses" cmp -s "$out" want
expect_text "$err" "validation loss" "saved own/checkpoint-"
run digest run
cp "$out" first
run digest own
expect "the same weights and optimizer state" cmp -s "$out" first

"$loop" --no-such-option 1 >"$out" 2>"$err"
code=$?
expect_code 2
expect_text "$err" "no-such-option"

# Resident memory: at most 1.1 x the plan + 64 MiB + the data. A sanitizer's own memory would count too.
if [ -z "${TRI_SANITIZED:-}" ]; then
    total=$(grep -o '"total": *[0-9]*' run/summary.json | head -n 1 | grep -o '[0-9]*') \
        rss=$(json_number max_rss_bytes run/summary.json)
    data=$(json_number data_bytes run/summary.json)
    echo "plan $total B, data $data B, resident $rss B"
    expect "resident memory is the plan's" test "$rss" -le $((total * 11 / 10 + 67108864 + data))
fi
finish
