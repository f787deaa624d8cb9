# cli_layout.sh - `train --layout auto`: the first choice of `trident choose`, the same on all ranks, recorded, and kept
# by a resumed run.
. "$(dirname "$0")/../lib/cli_lib.sh"
make_all
auto=(train --config config.json --data-path data --layout auto --global-batch-size 16)

run choose --config config.json --data-path data --nproc-per-node 2 --global-batch-size 16 --max-steps 2 --json --top 1
expect_code 0
chosen=$(grep -o '"options":{[^}]*}' "$out")
run "${auto[@]}" --output-dir two --nproc-per-node 2 --max-steps 2
expect_code 0
expect_text "$err" "layout     " "the first choice of" "(--layout auto)"
expect "said once" test "$(grep -c '(--layout auto)' "$err")" = 1
recorded=two/checkpoint-2/config.json
for key in pp_size tp_size dp_size num_microbatches shard_size virtual_stages; do
    value=$(echo "$chosen" | grep -o "\"$key\":[0-9]*" | cut -d: -f2)
    expect "$key is $value, as choose says" grep -Eq "\"$key\": *$value\b" "$recorded"
done
expect "the choice is recorded" grep -q '"layout": *"auto"' "$recorded"

# Continued: the recorded layout, also where another would be chosen now.
run "${auto[@]}" --output-dir two --nproc-per-node 2 --max-steps 3 --memory-limit 64G
expect_code 0
expect_text "$err" "layout     as the checkpoint's: pp_size="
pp=$(grep -Eo '"pp_size": *[0-9]+' "$recorded" | grep -Eo '[0-9]+$')
run "${auto[@]}" --output-dir two --nproc-per-node 2 --max-steps 4 --pp-size $((3 - pp))
expect_code 0
expect_text "$err" "the first choice of" "mesh       pp=$((3 - pp)) "
# With another number of ranks: another layout, the same samples (others would be refused).
each=(train --config config.json --data-path data --layout auto --batch-size 8 --output-dir each)
run "${each[@]}" --nproc-per-node 2 --max-steps 1
expect_code 0
run "${each[@]}" --max-steps 2
expect_code 0
expect_text "$err" "layout     1 rank" "continuing from each/checkpoint-1"

# What is given beside it stays; one rank has a layout too.
run "${auto[@]}" --output-dir fixed --nproc-per-node 2 --max-steps 1 --pp-size 2 --schedule gpipe --resume never
expect_code 0
expect_text "$err" "mesh       pp=2 tp=1 dp=1"
run "${auto[@]}" --output-dir one --max-steps 1
expect_code 0
expect_text "$err" "layout     1 rank"
refuses 71 "no layout of 1 rank fits" -- "${auto[@]}" --output-dir none --max-steps 1 --memory-limit 1K
finish
