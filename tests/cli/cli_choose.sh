# cli_choose.sh - `trident choose`: the same first choice as an enumeration of all layouts, exact memory, what was given
# stays, the reverse question, tables, exit codes.
# timeout: 240
project=$(cd "$(dirname "$0")/../.." && pwd)
. "$(dirname "$0")/../lib/cli_lib.sh"
config=$project/configs/hybrid_pp_dp_8gpu.json
small=(--config "$config" --tiny --quiet --max_sen_len 64 --global-batch-size 8)
tiny=("${small[@]}" --offload none)

number() { grep -o "\"$1\":[0-9.e+-]*" "$out" | head -n 1 | cut -d: -f2; }

# Bounds leave nothing out: the whole list is that of simulating every layout.
same() {
    run choose "${tiny[@]}" "$@" --json
    expect_code 0
    sed 's/,"searched".*//' "$out" >searched.json
    quick=$(number simulated)
    run choose "${tiny[@]}" "$@" --json --exhaustive
    expect_code 0
    sed 's/,"searched".*//' "$out" >all.json
    expect "the same layouts as all $(number simulated) of $*" cmp -s searched.json all.json
    expect "no layout is faster than its bound: $*" test "$(number bounds_broken)" = 0
}
same --world-size 2 --hardware cpu --num-microbatches 2
expect "bounds save work: $quick of $(number simulated)" test "$quick" -lt "$(number simulated)"
same --world-size 4 --hardware cpu --recompute none --schedule 1f1b
cat >islands.json <<'EOF'
{"f32_flops": 1e13, "half_flops": 1e13, "attention_share": 1, "memory_bytes_per_s": 1e12, "copy_bytes_per_s": 1e10,
 "launch_seconds": 1e-6, "near_latency": 1e-6, "near_bytes_per_s": 1e11, "far_latency": 1e-5, "far_bytes_per_s": 1e9,
 "ranks_per_node": 8, "overlap": true, "islands": {"ranks": 2, "latency": 1e-5, "bytes_per_s": 1e9}}
EOF
same --world-size 4 --hardware islands.json --recompute none --tp-size 2 --pp-size 1 --num-microbatches 1 \
    --memory-limit 1G
between=$(number step_seconds)
sed 's/, "islands".*}}/}/' islands.json >flat.json
run choose "${tiny[@]}" --world-size 4 --hardware flat.json --recompute none --tp-size 2 --pp-size 1 \
    --num-microbatches 1 --memory-limit 1G --json
expect "slow links between islands cost time: $between, $(number step_seconds)" \
    is "$between" '>' "$(number step_seconds)"
same --world-size 8 --hardware h200x8 --recompute none --schedule interleaved --tp-size 1 --virtual-stages 2
same --world-size 16 --hardware h200x8 --recompute none --pp-size 2 --tp-size 1 --schedule 1f1b --pipeline-shape branch
same --world-size 4 --hardware cpu --cp-size 2 --recompute none --num-microbatches 1
same --world-size 8 --hardware h200x8 --cp-size 2 --recompute none --tp-size 1 --num-microbatches 2 --schedule 1f1b
expect "ranks share tokens in every layout" test "$(grep -o '"cp_size":2,' "$out" | wc -l)" = \
    "$(grep -o '"pp_size"' "$out" | wc -l)"
rejects 2 choose "${tiny[@]}" --world-size 4 --hardware cpu --cp-size 3

# Memory is exact: what a layout needs is enough, one byte less is not.
one=(choose "${tiny[@]}" --world-size 1 --hardware cpu --num-microbatches 1 --recompute none --json)
run "${one[@]}"
expect_code 0
need=$(number need_bytes)
run "${one[@]}" --memory-limit "$need"
expect_code 0
refuses 71 "no layout of 1 rank fits: the nearest (1 rank) needs" "of --memory-limit" "try more ranks" \
    -- "${one[@]}" --memory-limit $((need - 1))
run choose "${small[@]}" --world-size 1 --hardware cpu --memory-limit $((need - 1)) --json
expect_code 0
expect "without them fixed, layouts that need less are found" is "$(number need_bytes)" '<' "$need"
run choose "${tiny[@]}" --world-size 2 --hardware cpu --memory-limit $((need * 3 / 2)) --json
expect_code 0
expect "ranks of a machine share its memory" is "$(number need_bytes)" '<=' $((need * 3 / 2))

# What was given stays.
run choose "${tiny[@]}" --world-size 8 --hardware cpu --pp-size 2 --schedule gpipe --shard zero1 --num-microbatches 2 \
    --recompute full --json
expect_code 0
layouts=$(grep -o '"pp_size"' "$out" | wc -l)
for text in '"pp_size":2,' '"schedule":"gpipe"' '"shard":"zero1"' '"num_microbatches":2' '"recompute":"full"'; do
    expect "$text in all $layouts" test "$(grep -oF "$text" "$out" | wc -l)" = "$layouts"
done

# In words: the best with its command, the others with reasons.
run choose "${tiny[@]}" --world-size 16 --hardware h200x8 --precision any --pp-size 1 --top 3
expect_code 0
expect_text "$out" "16 ranks of h200x8, 8 samples a step" "mpirun -np 16 --map-by ppr:8:node trident train" \
    "by the rank that needs most" "slower by"
expect "three layouts" test "$(grep -c '^[23] ' "$out")" = 2
run choose "${tiny[@]}" --world-size 2 --hardware cpu --top 1 --num-microbatches 1 --recompute none
expect_text "$out" "--nproc-per-node 2 --global-batch-size 8"
run choose "${tiny[@]}" --world-size 8 --hardware cpu --limit 2
expect_text "$out" "--limit ended the search"

# The line works as it stands: the device, and what was given and the run takes too. What the configuration says of a
# layout is what is searched.
run choose "${tiny[@]}" --world-size 2 --hardware h200x8 --top 1 --num-microbatches 1 --recompute none \
    --precision bf16 --memory-limit 9G
expect_code 0
expect_text "$out" "--device cuda" "--max-sen-len 64" "--memory-limit 9G" "--tiny true" "--precision bf16" \
    "against    one device with its share of the samples: "
sed 's/"lr"/"pp_size": 3, "lr"/' "$config" >laid.json
run choose --config laid.json "${tiny[@]:2}" --world-size 2 --hardware cpu --top 1 --num-microbatches 1 --json
expect_code 0
expect "the configuration's pp_size is not kept, and the line says so" \
    grep -Eq '"command":"[^"]* --pp-size [12] ' "$out"
run choose "${tiny[@]}" --world-size 2 --hardware h200x8 --precision fp8,bf16 --recompute none --top 20 --json
expect_code 0
expect_text "$out" '"precision":"bf16"' '"partial":false'
rejects 2 choose "${tiny[@]}" --world-size 2 --hardware h200x8 --precision int8

# Long texts: ranks may share their tokens. Experts: ranks may share them.
long=(--config "$config" --tiny --quiet --offload none --recompute none --hardware h200x8 --num-microbatches 1 --json)
far=(--max_sen_len 1024 --extend-positions copy)
run choose "${long[@]}" --world-size 2 "${far[@]}" --global-batch-size 1 --top 20
expect_code 0
expect_text "$out" '"layout":"cp 2'
same --world-size 2 --hardware h200x8 "${far[@]}" --recompute none --num-microbatches 1 --pp-size 1
experts='"primary_encoder": {"model_type": "bert", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2,
 "intermediate_size": 128, "num_experts": 4, "experts_per_token": 2}, "lr"'
awk -v with="${experts//$'\n'/}" '{ sub(/"lr"/, with) } 1' "$config" >experts.json
run choose --config experts.json "${long[@]:2}" --world-size 4 --max_sen_len 64 --global-batch-size 8 --top 30 \
    --pp-size 1
expect_code 0
expect_text "$out" '"ep_size":2' '"ep_size":4'

same --config experts.json --world-size 4 --hardware h200x8 --recompute none --num-microbatches 1 --pp-size 1

# Tables: a row for each model, hardware, number of ranks and layout; what does not fit or is impossible says why.
table=("${tiny[@]}" --num-microbatches 1 --precision bf16 --hardware h200x8)
run choose "${table[@]}" --world-size 1,2,4 --recompute none
expect_code 0
expect "a row for each number of ranks" test "$(grep -Ec '^ +[124] .*first choice$' "$out")" = 3
expect "one device is all of one device" grep -Eq '^ +1 +1 rank.* 1\.00 +100\.0 % ' "$out"
named="pp=2,ddp; dp=4,fsdp; pp=3; fsdp,prefetch=0; zero1,compress=int8; ranks=2,global_batch_size=4; model=x,pp=2"
run choose "${table[@]}" --world-size 4 --recompute none --layouts "$named" --json
expect_code 0
expect "the first choice and six layouts" test "$(grep -o '"layout":' "$out" | wc -l)" = 7
expect_text "$out" '"layout":"pp=3","fits":false' 'no whole number fits' '"ranks":2,"layout":"ranks=2,global_batch' \
    '"note":"first choice"' '"gather":0.' '"command":"trident train '
run choose "${table[@]}" --world-size 4 --recompute none --layouts "zero3; ddp" --memory-limit 2M
expect_code 0
expect "what does not fit is a row: $(cat "$out")" \
    grep -Eq 'ddp .*does not fit: needs .* of 2\.0 MiB of --memory' "$out"
run choose "${table[@]}" --world-size 2 --recompute none --models all-MiniLM-L6-v2,2x128 --hardware h200x8,h200x8:1
expect_code 0
expect "two models on two hardwares" test "$(grep -Ec '^(all-MiniLM-L6-v2|2x128) +h200x8(:1)? ' "$out")" = 4
for form in md html txt json; do
    run choose "${table[@]}" --world-size 2,4 --recompute none --layouts "zero3" -o "table.$form"
    expect_code 0
done
expect "Markdown: a head, a line and four rows" test "$(grep -c '^|.*|$' table.md)" = 6
expect_text table.html '<title>Trident layouts</title>' '"layout":"zero3"' "class: 'meter'"
expect "no mark is left" test -z "$(grep -o '@data@\|@layouts[a-z.]*@\|@report.css@' table.html)"
expect "the page's data are the table's" test "$(sed -n 's/.*id="data">\(.*\)<\/script>/\1/p' table.html)" = \
    "$(cat table.json)"
rejects 73 choose "${table[@]}" --world-size 2,4 -o table.md
rejects 2 choose "${table[@]}" --world-size 2,4 -o table.pdf
rejects 2 choose "${table[@]}" --world-size 2,four
rejects 2 choose "${table[@]}" --world-size 2 --layouts "pp=2,colour=red"
rejects 2 choose "${table[@]}" --layouts "pp=2"
rejects 2 choose "${table[@]}" --layouts "pp=2" --within 1h
rejects 2 choose --models bert-base-cased --world-size 2 --hardware h200x8

# Real models: two encoders of 24 layers, on 16 and on 1,024 GPUs. Simulations are counted, since machines are busy.
real=(choose --config "$project/configs/hybrid_3d_16gpu.json" --hardware h200x8 --quiet --json)
run "${real[@]}" --world-size 16
expect_code 0
expect "all layouts of 16 ranks by $(number simulated) simulations" is "$(number simulated)" '<=' 120
expect_text "$out" '"partial":false' '"end":"whole"' '"doubtful":0'
expect "the first choice takes $(number step_seconds) s" is "$(number step_seconds)" '<' 12.8738
run "${real[@]}" --world-size 8 --tp-size 8 --recompute none --offload none --num-microbatches 2 --exhaustive
expect_code 0
expect "two lanes that wait for transfers in turn are not faster than their bound" test "$(number bounds_broken)" = 0
run "${real[@]}" --world-size 1024 --global-batch-size 8192 --seconds 0.1 --top 2
expect_code 0
expect_text "$out" '"partial":true' '"end":"seconds"'

# A signal: the best so far, exit code 75.
"$trident" "${real[@]:0:5}" --world-size 1024 --global-batch-size 8192 --exhaustive >"$out" 2>"$err" &
searching=$!
for _ in $(seq 300); do
    grep -q "best so far" "$err" && break
    sleep 0.1
done
kill -TERM "$searching"
code=0
wait "$searching" || code=$?
expect_code 75
expect_text "$out" "a signal ended the search: "
expect_text "$err" "stopping: the best layouts found so far follow" "stopped (SIGTERM): what is shown is the best"

# The reverse: the fewest ranks that are fast enough.
alone=(--pp-size 1 --tp-size 1 --shard none --recompute none --num-microbatches 1 --max-steps 1000)
run choose "${tiny[@]}" "${alone[@]}" --hardware h200x8 --within 1h
expect_code 0
expect_text "$out" "1000 steps in 1h 00m need 1 rank"
refuses 71 "no number of ranks of h200x8 trains 1000 steps in" \
    -- choose "${tiny[@]}" "${alone[@]}" --hardware h200x8 --within 1e-3s
rejects 2 choose "${tiny[@]}" --hardware h200x8 --max-steps 9 --within 1h --pp-size 50 --tp-size 1
rejects 71 choose "${tiny[@]}" --hardware h200x8 --max-steps 9 --within 1h --tp-size 1 --memory-limit 1M

# Impossible requests.
rejects 2 choose "${tiny[@]}"
rejects 2 choose --world-size 2
rejects 2 choose "${tiny[@]}" --world-size 4 --pp-size 3
rejects 2 choose "${tiny[@]}" --within soon
rejects 2 choose "${tiny[@]}" --world-size 12 --nproc-per-node 8
rejects 2 choose "${tiny[@]}" --world-size 3 --nnodes 2
rejects 2 choose "${tiny[@]}" --within 1h --world-size 2
rejects 2 choose "${tiny[@]}" --hardware cpu --within 1h
checked run choose "${tiny[@]}" --world-size 2 --hardware cpu --num-microbatches 1
expect_code 0
finish
