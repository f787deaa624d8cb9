# cli_simulate.sh - a step without hardware: its timeline, compute order and parameters by `trident plan`, its time by
# `trident simulate`.
project=$(cd "$(dirname "$0")/../.." && pwd)
. "$(dirname "$0")/../lib/cli_lib.sh"
config=$project/configs/hybrid_3d_16gpu.json
layout=(--config "$config" --tiny --quiet --world-size 16 --pp-size 4 --tp-size 2 --max_sen_len 64)

# The drawing: a row a rank, 120 columns where nobody looks, every microbatch forward and backward, and the sums below.
run plan --config "$config" --quiet --world-size 16 --pp-size 4 --tp-size 2 --timeline --hardware h200x8 \
    --precision bf16
expect_code 0
expect "16 rows" test "$(grep -c '^rank  *[0-9]* [FBWU0-9.]*$' "$out")" = 16
expect "rows fit 120 columns" test "$(grep '^rank' "$out" | awk 'length > 120' | wc -l)" = 0
expect "waiting is dots" grep -q '^rank  4 \.\.*F0' "$out"
expect_text "$out" "on h200x8 a step takes" "predicted bubble" "most activations: rank 0" \
    "those of 3 microbatches at once"
for columns in 80 200; do
    export COLUMNS=$columns
    run plan "${layout[@]}" --timeline --hardware cpu
    expect "as wide as asked for, $columns" test "$(grep -c "^rank.\{$((columns - 4))\}\$" "$out")" = 16
    unset COLUMNS
done

# Of thousands of ranks the few that differ are planned, checked and timed; what is said of the others is what planning
# them says.
many=(--config "$config" --tiny --quiet --world-size 4096 --pp-size 4 --tp-size 2 --shard zero1 --max_sen_len 64)
run simulate "${many[@]}" --hardware h200x8 --json
expect_code 0
expect "a row for each of 4096 ranks" test "$(grep -o '"rank": *[0-9]*' "$out" | sort -u | wc -l)" = 4096
run plan "${many[@]}" --print-program 3333 --check
expect_code 0
expect_text "$out" "mesh pp=4 tp=2 dp=512 rank=3333"

run plan "${layout[@]}" --timeline --schedule zb-h1
expect_code 0
expect "gradients of weights are apart with zb-h1" grep -q '^rank .*W' "$out"
expect_text "$out" "on cpu a step takes"
run plan "${layout[@]}" --timeline --recompute full
expect_code 0
expect "what is computed again is no forward" test "$(grep -o 'F0F*' "$out" | wc -l)" -le 32

# The compute order, as it is written down in the tests.
for schedule in gpipe 1f1b zb-h1 interleaved zbv; do
    run plan "${layout[@]}" --csv --schedule "$schedule" --pipeline-shape chain
    expect_code 0
    expect "$schedule is in the order of tests/golden/schedules" \
        cmp -s "$out" "$project/tests/golden/schedules/${schedule}_4_8.csv"
done

# Parameters: all of them, each in one stage.
run plan "${layout[@]}" --params --pipeline-shape branch
expect_code 0
expect_text "$out" "rows/2" "columns/2" "fusion.output.bias"
expect "the head is in the last stage, on its ranks" grep -Eq \
    '^fusion.dense.weight +512 x 3072 +3 +whole +replicate +12-15 ' "$out"
expect "four stages" test "$(sed -n '/^stage/,$p' "$out" | wc -l)" = 5
run plan "${layout[@]}" --params --json
expect_code 0
expect_text "$out" '"params":{' '"bytes_per_rank":'

# Simulating.
run simulate "${layout[@]}" --hardware h200x8
expect_code 0
expect "every rank once, those that are alike in one line" test 16 = \
    "$(awk '$2 ~ /^[0-3]$/ { split($1, r, "-"); n += (2 in r ? r[2] : r[1]) - r[1] + 1 } END { print n }' "$out")"
run simulate "${layout[@]}" --hardware h200x8 --json
expect_code 0
fast=$(json_number step_seconds "$out")
run simulate "${layout[@]/--quiet/--json}" --hardware h200x8
expect "what is announced is the simulated bubble: $(json_number predicted_bubble "$out")" grep -qF \
    "8 microbatches; predicted bubble $(awk -v b="$(json_number predicted_bubble "$out")" \
    'BEGIN { printf "%.0f", 100 * b }') %" "$err"
expect "it is what ranks do not compute" is "$(json_number computing "$out")" '>' \
    "$(awk -v b="$(json_number predicted_bubble "$out")" 'BEGIN { print 1 - b - 1e-6 }')"
expect "no legs unless asked for" sh -c "! grep -q legs '$out'"
cat >slow.json <<'EOF'
{"f32_flops": 1e9, "half_flops": 1e9, "attention_share": 1, "memory_bytes_per_s": 1e9, "copy_bytes_per_s": 1e9,
 "launch_seconds": 1e-6, "near_latency": 1e-6, "near_bytes_per_s": 1e9, "far_latency": 1e-5, "far_bytes_per_s": 1e8,
 "ranks_per_node": 8, "overlap": true}
EOF
run simulate "${layout[@]}" --hardware slow.json --json --timeline
expect_code 0
expect_text "$out" '"hardware":"slow.json"' '"legs":[["F",0,'
expect "slower hardware takes longer" is "$(json_number step_seconds "$out")" '>' "$fast"
sed 's/"half_flops"/"half_flop"/' slow.json >typo.json
rejects 65 simulate "${layout[@]}" --hardware typo.json
run simulate "${layout[@]/--quiet/--json}" --pp-size 1 --tp-size 4 --hardware h200x8 --nproc-per-node 8
expect_code 0
expect_text "$err" \
    "4 of 4 tensor groups cross machines of 8 ranks (order pp,tp,dp); --mesh-order pp,dp,tp keeps them inside"

# Two lanes may wait and compute at once: no share is below 0, and those of a step are all of it.
for mesh in "1 1 none" "1 4 none" "1 8 zero1" "2 1 zero3" "2 4 zero2" "4 2 hybrid"; do
    read -r pp tp shard <<<"$mesh"
    run simulate --config "$config" --quiet --world-size 16 --pp-size "$pp" --tp-size "$tp" --shard "$shard" \
        --hardware h200x8 --precision bf16 --json
    expect_code 0
    expect "shares of pp $pp, tp $tp, $shard are from 0 on and add up: $(head -c 400 "$out")" is "$(awk \
        -v c="$(json_number computing "$out")" -v e="$(json_number exposed "$out")" \
        -v w="$(json_number waiting "$out")" \
        'BEGIN { print (c > 0 && e >= 0 && w >= -1e-9 && (c + e + w - 1) ^ 2 < 1e-12) }')" == 1
    expect "no rank waits less than not at all" test -z "$(grep -oE '"(exposed|waiting)_seconds": *-[^,]*' "$out" |
        awk -F: '$2 < -1e-12')"
done

# Without --hardware: the device's. The device follows from the hardware; the two cannot contradict each other.
run simulate "${layout[@]}"
expect_code 0
expect_text "$out" "on cpu a step takes"
run simulate "${layout[@]}" --device cuda
expect_code 0
expect_text "$out" "on h200x8 a step takes"
cp "$out" cuda.txt
run simulate "${layout[@]}" --hardware h200x8
expect "programs of the hardware's device" cmp -s "$out" cuda.txt
run simulate "${layout[@]}" --device null --hardware h200x8
expect_code 0
for device in null timed; do
    run plan "${layout[@]}" --device $device --timeline
    expect_code 0
    expect_text "$out" "on cpu a step takes"
done
rejects 2 simulate "${layout[@]}" --device cpu --hardware h200x8
rejects 2 plan "${layout[@]}" --device cuda --hardware cpu --timeline
rejects 2 simulate "${layout[@]}" --hardware h900
rejects 2 simulate "${layout[@]}" --hardware cpu --schedule zbv --pipeline-shape branch
checked run simulate "${layout[@]}" --hardware cpu --timeline
expect_code 0

# Steps of several kinds: each kind's time and bytes, and the mean; printed programs give the same. What travels in
# fewer bits is counted in them.
kinds=(--config "$config" --tiny --quiet --world-size 4 --pp-size 1 --tp-size 1 --max_sen_len 64 --warmup-steps 0)
run plan "${kinds[@]}" --optimizer onebit-adam --max-steps 5000
expect_code 0
expect "bytes of each kind" grep -Eq 'sent in a step +if full +if turn +if signs' "$out"
run simulate "${kinds[@]}" --optimizer onebit-adam --max-steps 5000 --hardware cpu --json
expect_code 0
planned=$(json_number mean_step_seconds "$out")
expect "a fifth of the steps is full" grep -q '"kind": *"full", *"share": *0.2' "$out"
run plan "${kinds[@]}" --optimizer onebit-adam --max-steps 5000 --print-program all
cp "$out" kinds.txt
run check kinds.txt
expect_code 0
run simulate --program kinds.txt --hardware cpu --json
expect "printed kinds take as long" test "$(json_number mean_step_seconds "$out")" = "$planned"
run simulate --program kinds.txt --hardware cpu
expect_text "$out" "a step of kind signs takes" "kind of step" "of all steps" "mean"
sent() { grep -o '"all_[a-z_]*": *[0-9.e+]*' | awk -F: '{ sum += $2 } END { printf "%.0f\n", sum }'; }
run plan "${kinds[@]}" --json
full=$(sent <"$out")
run plan "${kinds[@]}" --compress-gradients int8 --json
coded=$(sent <"$out")
expect "8 bits send a quarter ($coded of $full)" test $((100 * coded / full)) -le 27 -a $((100 * coded / full)) -ge 25
finish
