# cli_calibrate.sh - a machine measured in a moment: the file has curves, and plans are timed by it; where it is found;
# what is refused. How close predictions come: bench/simulate.py.
. "$(dirname "$0")/../lib/cli_lib.sh"
project=$OLDPWD
layout=(--config "$project/configs/hybrid_3d_16gpu.json" --tiny --quiet --world-size 2 --pp-size 1 --tp-size 1
    --max_sen_len 32)

run calibrate --seconds 1.5 -o here.json --quiet
expect_code 0
expect_text "$out" "product" "attention" "GFLOP/s" "written to" "here.json"
for key in '"device": "cpu"' '"kernels": \[' '"target": {' '"measured": \[' '"date": "20' '"op": "linear_dw"' \
    '"op": "adamw"' '"adds": true' '"op": "pack"' '"code": "int8"'; do
    expect "the file has $key" grep -q "$key" here.json
done
run simulate "${layout[@]}" --hardware here.json --json
expect_code 0
expect_text "$out" '"hardware":"here.json"'
sed 's/"threads": 1/"threads": -1/' here.json >bad.json
refuses 65 "bad.json: kernels[" ".threads has to be a whole number" -- simulate "${layout[@]}" --hardware bad.json
sed 's/"code": "int8"/"code": "int9"/' here.json >bad.json
refuses 65 "bad.json: kernels[" ".code has to be a code: bf16, int8," -- simulate "${layout[@]}" --hardware bad.json
sed 's/"device": "cpu"/"device": "gpu"/' "$project/src/sim/cpu.json" >bad.json
rejects 65 simulate "${layout[@]}" --hardware bad.json
head -c 5000 here.json >cut.json
refuses 65 "cut.json:" -- simulate "${layout[@]}" --hardware cut.json

# The default place, and what finds it there.
run doctor
expect_text "$out" "not calibrated"
mkdir -p "$XDG_CONFIG_HOME/trident"
cp here.json "$XDG_CONFIG_HOME/trident/hardware-cpu.json"
run doctor
expect_text "$out" "calibrated 20"
run simulate "${layout[@]}"
expect_code 0
expect_text "$out" "hardware-cpu.json a step takes"
run simulate "${layout[@]}" --hardware cpu
expect_text "$out" "on cpu a step takes"
rejects 74 calibrate -o nowhere/file.json --seconds 600 --quiet # before it measures
rejects 2 calibrate --device null --seconds 1 --quiet
finish
