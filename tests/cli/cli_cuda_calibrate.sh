# cli_cuda_calibrate.sh - a GPU measured in a moment: the file has curves in graphs, lanes, queueing and copies, and a
# step is predicted by it. Skipped, with the reason, without a GPU.
# timeout: 120
. "$(dirname "$0")/../lib/cli_lib.sh"
"$trident" doctor | grep -q '^cuda *yes' || { "$trident" doctor | grep '^cuda'; exit 77; }

run calibrate --device cuda --seconds 5 -o gpu.json --quiet
expect_code 0
for key in '"device": "cuda"' '"dtype": "bf16"' '"dtype": "f32"' '"queue_seconds"' '"offload"' '"op": "linear_dw"'; do
    expect "the file has $key" grep -q "$key" gpu.json
done
run bench step --device cuda --precision bf16 --cases tiny --hardware gpu.json --json --quiet
expect_code 0
error=$(sed -n 's/.*"prediction_error":\([-0-9.e]*\).*/\1/p' "$out")
expect "a small step is predicted within a third: $error" awk "BEGIN { exit !($error < 0.33 && $error > -0.33) }"
