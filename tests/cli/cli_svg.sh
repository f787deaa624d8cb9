# cli_svg.sh - the timeline as a picture: `plan --svg FILE` and `simulate --svg FILE` write well-formed XML, the same
# bytes each time, with the boxes of a small plan; for many ranks one row per stage; a write failure is an error.
project=$(cd "$(dirname "$0")/../.." && pwd)
. "$(dirname "$0")/../lib/cli_lib.sh"
config=$project/configs/hybrid_3d_16gpu.json

# Every tag that is opened is closed, in order; no text or attribute holds a bare < or &.
well_formed() {
    if command -v xmllint >/dev/null; then xmllint --noout "$1" 2>/dev/null || return 1; fi
    awk 'BEGIN { RS = "<"; n = 0 }
        NR == 1 { if ($0 != "") exit bad = 1; next }
        { tag = $0; rest = $0; sub(/>.*/, "", tag); sub(/^[^>]*>/, "", rest)
          if (index($0, ">") == 0) exit bad = 1
          gsub(/&(amp|lt|gt|quot|#39);/, "", rest); if (rest ~ /&/) exit bad = 1
          quotes = gsub(/"/, "\"", tag); if (quotes % 2) exit bad = 1
          if (tag ~ /\/$/) next
          name = tag; sub(/[ \/\n].*/, "", name)
          if (tag ~ /^\//) { name = substr(tag, 2); if (n == 0 || open[n] != name) exit bad = 1; n-- }
          else open[++n] = name }
        END { exit bad || n != 0 }' "$1"
}
parts() { grep -o -- "$2" "$1" | wc -l; } # FILE TEXT: how often

# Only products take time: boxes without gaps, as many as actions.
cat >even.json <<'JSON'
{"f32_flops": 1e9, "half_flops": 1e9, "attention_share": 1, "memory_bytes_per_s": 1e17, "copy_bytes_per_s": 1e17,
 "launch_seconds": 0, "near_latency": 1e-7, "near_bytes_per_s": 1e17, "far_latency": 1e-7, "far_bytes_per_s": 1e17,
 "ranks_per_node": 8, "overlap": true}
JSON
small=(--tiny --config "$config" --quiet --world-size 4 --pp-size 2 --num-microbatches 3 --batch-size 6
    --max_sen_len 32 --hardware even.json)
run plan "${small[@]}" --pipeline-shape chain --svg small.svg
expect_code 0
expect "the sums are printed, and no text drawing without --timeline" sh \
    -c "grep -q 'a step takes' '$out' && ! grep -q '^rank  *0 F' '$out'"
expect "well-formed" well_formed small.svg
sed '0,/<\/g>/s/<\/g>//' small.svg >broken.svg
expect "a tag that is not closed would be seen" eval '! well_formed broken.svg'
expect "4 rows, and the legend's" test "$(parts small.svg 'class="lane"')" = 5
expect "2 stages" test "$(parts small.svg 'class="band"')" = 2
for kind in f b; do
    expect "3 boxes of $kind on each rank" test "$(grep "^<g class=\"$kind\">" small.svg | grep -o '<rect' | wc -l)" = \
        12
done
expect "no weights apart with 1f1b" test "$(parts small.svg '<g class="w">')" = 0
expect "every box but the update's has its number" test \
    "$(parts small.svg '<text x="[0-9.]*" y="[0-9]*">[0-2]</text>')" -ge 24
expect "transfers on every rank, and in the legend" test "$(parts small.svg 'class="c" d="M')" = 5
expect_text small.svg "Training step on 4 ranks: pp 2 × dp 2, 1f1b, 3 microbatches" \
    "hybrid_3d_16gpu.json, simulated on even.json:" "predicted bubble" \
    "prefers-color-scheme:dark" "stage 1" "rank 3" "communication"
run plan "${small[@]}" --pipeline-shape chain --timeline --svg again.svg
expect_code 0
expect "the same bytes" cmp -s small.svg again.svg
expect "with --timeline the text drawing as well" grep -q '^rank 0 F0' "$out"
run plan "${small[@]}" --schedule zb-h1 --json --svg again.svg --force
expect_code 0
expect "a file is replaced; weights are apart with zb-h1" test \
    "$(grep '^<g class="w">' again.svg | grep -o '<rect' | wc -l)" -ge 12
expect_text "$out" '"transfers":[[' '"predicted_bubble":' '"mesh":{"pp":2,"tp":1,"cp":1,"dp":2,"ep":1}'
expect "one predicted bubble, and none that is measured" test "$(grep -o '"[a-z_]*bubble"' "$out")" = \
    '"predicted_bubble"'

# 16 ranks and 16 microbatches of real encoders; names that XML would trip over.
cp "$config" 'a&b <c>"d".json'
run simulate --config 'a&b <c>"d".json' --quiet --world-size 16 --pp-size 4 --tp-size 2 --num-microbatches 16 \
    --batch-size 64 --precision bf16 \
    --hardware h200x8 --svg real.svg
expect_code 0
expect "well-formed" well_formed real.svg
expect_text real.svg "a&amp;b &lt;c&gt;&quot;d&quot;.json, simulated on h200x8" \
    "pp 4 × tp 2 × dp 2, 1f1b, 16 microbatches"
expect "16 rows" test "$(parts real.svg 'class="lane"')" = 17
expect "under 200 kB: $(wc -c <real.svg)" test "$(wc -c <real.svg)" -lt 200000

# More ranks than can be read: one row a stage, and the picture says so.
run plan --config "$config" --tiny --quiet --world-size 128 --pp-size 4 --tp-size 2 --max_sen_len 32 --hardware h200x8 \
    --svg many.svg
expect_code 0
expect "well-formed" well_formed many.svg
expect "4 rows" test "$(parts many.svg 'class="lane"')" = 5
expect_text many.svg "Training step on 128 ranks: pp 4 × tp 2 × dp 16" "drawn: the first rank of each stage, of 128" \
    ">stage 3<"
run plan --config "$config" --tiny --quiet --max_sen_len 32 --svg one.svg
expect_code 0
expect "one rank, no stages" sh -c "grep -q 'Training step on 1 rank' one.svg && ! grep -q 'stage' one.svg"

rejects 74 plan "${small[@]}" --svg no/such/folder/step.svg
mkdir folder
rejects 74 plan "${small[@]}" --svg folder
rejects 2 train --svg step.svg
checked run plan "${small[@]}" --svg step.svg
expect_code 0
finish
