# `trident mesh`: the grid of ranks as tables and as JSON, in any order, and what is refused.
project=$(cd "$(dirname "$0")/../.." && pwd)
. "$(dirname "$0")/../lib/cli_lib.sh"

run mesh --world-size 8 --pp-size 2
expect_code 0
expect_text "$out" "8 ranks: pp 2 x tp 1 x dp 4, order pp,tp,dp, 1 machine of 8" "pp=1/2 tp=0/1 dp=3/4" "{3, 7}" \
    "{4, 5, 6, 7}"
expect "rank 7: coordinates, first ranks of its groups, stages" grep \
    -Eq '^ *7 +0 +pp=1/2 tp=0/1 dp=3/4 +3 +7 +4 +3 +-$' "$out"
expect "nothing crosses a machine" test ! -s "$err"

# The default order is rank = pp * (TP * DP) + tp * DP + dp; another exchanges the axes.
run mesh --world-size 16 --pp-size 2 --tp_size=2 --json --nproc-per-node 8
expect_code 0
expect "one line of JSON" test "$(wc -l <"$out")" = 1
expect_text "$out" '"world_size":16,"pp":2,"tp":2,"dp":4,"order":"pp,tp,dp"' \
    '{"rank":14,"pp":1,"tp":1,"dp":2,"node":1,"local_rank":6,"groups":{"pp":[6,14],"tp":[10,14],"dp":[12,13,14,15]}'\
',"first":{"pp":6,"tp":10,"dp":12},"previous":6,"next":null}'
run mesh --world-size 16 --pp-size 2 --tp-size 2 --json --mesh-order dp,tp,pp
expect_text "$out" '"order":"dp,tp,pp"' \
    '{"rank":14,"pp":0,"tp":1,"dp":3,"node":0,"local_rank":14,"groups":{"pp":[14,15],"tp":[12,14],"dp":[2,6,10,14]}'\
',"first":{"pp":14,"tp":12,"dp":2},"previous":null,"next":15}'

# Ranks that share tokens are neighbours of the dp axis.
run mesh --world-size 8 --cp-size 2 --tp-size 2
expect_text "$out" "8 ranks: pp 1 x tp 2 x cp 2 x dp 2" "pp=0/1 tp=1/2 dp=1/2 cp=0/2" "{6, 7}"
run mesh --world-size 8 --cp-size 3
expect_code 2
expect_text "$err" "8 ranks = pp 1 x tp 1 x cp 3 x dp ?"

# Ranks that share experts are neighbours of the dp axis too, but take different samples.
run mesh --world-size 8 --ep-size 2 --tp-size 2
expect_text "$out" "8 ranks: pp 1 x tp 2 x dp 4 (ep 2)" "pp=0/1 tp=1/2 dp=3/4 ep=1/2" "{6, 7}"
run mesh --world-size 8 --ep-size 3
expect_code 2
expect_text "$err" "--ep-size 3 does not divide dp 8"
run mesh --world-size 8 --ep-size 2 --cp-size 2
expect_code 2
expect_text "$err" "--ep-size 2 with --cp-size 2: ranks that share tokens do not share experts"
run plan --config "$project/configs/reviews.json" --world-size 4 --ep-size 2 --batch-size 8
expect_code 2
expect_text "$err" "--ep-size 2: no layer of the model has experts to share"

# Tensor groups that cross machines are announced with the order that avoids it, and auto takes it.
run mesh --world-size 16 --tp-size 4 --nproc-per-node 8
expect_code 0
expect_text "$err" \
    "4 of 4 tensor groups cross machines of 8 ranks (order pp,tp,dp); --mesh-order pp,dp,tp keeps them inside"
run mesh --world-size 16 --tp-size 4 --nproc-per-node 8 --mesh-order auto --json
expect_text "$out" '"order":"pp,dp,tp"' '"tensor_groups_crossing":0' '"tp":[12,13,14,15]'
expect "auto leaves nothing to say" test ! -s "$err"
run mesh --world-size 16 --tp-size 4 --mesh-order auto --json
expect_text "$out" '"order":"pp,tp,dp"'
run mesh --world-size 16 --tp-size 8 --nproc-per-node 4 --mesh-order auto
expect_text "$err" "no order avoids it"

# Islands inside machines, of the hardware file.
cat >islands.json <<'EOF'
{"f32_flops": 1e9, "half_flops": 1e9, "attention_share": 1, "memory_bytes_per_s": 1e9, "copy_bytes_per_s": 1e9,
 "launch_seconds": 1e-6, "near_latency": 1e-6, "near_bytes_per_s": 1e9, "far_latency": 1e-5, "far_bytes_per_s": 1e8,
 "ranks_per_node": 8, "overlap": true, "islands": {"ranks": 4, "latency": 2e-6, "bytes_per_s": 2e8}}
EOF
run mesh --world-size 16 --hardware islands.json --tp-size 2 --mesh-order tp,pp,dp
expect_code 0
expect_text "$out" "rank  machine  island  coordinates" "   5        0       1  "
run mesh --world-size 16 --hardware islands.json --tp-size 4 --pp-size 2 --mesh-order pp,tp,dp --json
expect_text "$out" '"rank":12,"pp":1,"tp":2,"dp":0,"island":1,"node":1,"local_rank":4'
expect_text "$err" \
    "4 of 4 tensor groups cross islands of 4 ranks (order pp,tp,dp); --mesh-order pp,dp,tp keeps them inside"
rejects 2 mesh --world-size 12 --nproc-per-node 6 --hardware islands.json
sed 's/"ranks": 4/"ranks": 3/' islands.json >uneven.json
rejects 65 mesh --world-size 8 --hardware uneven.json

# Large ones: tables are short, JSON that nobody could read is refused.
run mesh --world-size 4096 --json
expect_code 0
rejects 2 mesh --world-size 1048576 --json

rejects 2 mesh --world-size 16 --pp-size 3 --tp-size 2
rejects 2 mesh --world-size 16 --pp-size 2 --tp-size 2 --dp-size 3
rejects 2 mesh --world-size 16 --mesh-order pp,dp
rejects 2 mesh --world-size 16 --mesh-order pp,dp,dp
rejects 2 mesh --world-size 16 --nproc-per-node 3
rejects 2 mesh --pp-size 2
rejects 2 mesh 16
rejects 2 mesh --world-size 0
checked run mesh --world-size 6 --tp-size 3
expect_code 0

# ---- The same to C programs, and which part of which parameter a plan gives to a rank ----
example() { # OPTIONS...
    last_command="mesh $*"
    "$TRI_BUILD/examples/mesh" "$@" >"$out" 2>"$err"
    code=$?
}
example --world-size 8 --pp-size 2 --tp-size 2
expect_code 0
expect_text "$out" "rank 5: pp=1 tp=0 dp=1, next stage -1, groups pp {1 5} tp {5 7} dp {4 5} dp,tp {4 5 6 7}"
example --world-size 8 --cp-size 2 --tp-size 2
expect_text "$out" "rank 6: pp=0 tp=1 dp=1, next stage -1, groups pp {6} tp {2 6} dp {4 6} dp,tp {0 2 4 6}"
example --world-size 7 --tp-size 2
expect_code 2
expect_text "$err" "mesh: 7 ranks = pp 1 x tp 2 x dp ?: no whole number fits"
made=(--config "$project/configs/hybrid_3d_16gpu.json" --tiny --world-size 4 --tp-size 2 --pp-size 1)
example "${made[@]}" --shard zero3
expect_code 0
expect_text "$out" "of primary.embeddings.word_embeddings.weight [50265,64], stage 0, rows 0 + 25133, columns 0 + 64" \
    "rows 25133 + 25132, columns 0 + 64"
example "${made[@]}" --tp-plan "*.embeddings.words=replicate"
expect_text "$out" "rows 0 + 50265, columns 0 + 64, elements 0 to 3216960"
finish
