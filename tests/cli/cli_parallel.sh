# cli_parallel.sh - data parallelism through the command: every sharding strategy gives the same checkpoint, which works
# for evaluation, resuming and serving; plans of all ranks; messages for unsupported combinations; the same under
# mpirun.
# timeout: 240
. "$(dirname "$0")/../lib/cli_lib.sh"
make_all
common=(--config config.json --data-path data --batch-size 4 --epochs 2 --threads 1 --quiet)
full=(--shard zero3 --precision bf16 --recompute full)
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE

# trains FOLDER OPTIONS...: a run that ends well.
trains() {
    local folder=$1
    shift
    run train "${common[@]}" --output-dir "$folder" "$@"
    expect_code 0
}
digest() { "$trident" digest "$1" 2>/dev/null; }
expect_digest() { # FOLDER OTHER WHAT
    expect "$3: digest $(digest "$1") and $(digest "$2")" test -n "$(digest "$1")" -a "$(digest "$1")" = \
        "$(digest "$2")"
}

# ---- One checkpoint, however it was made ----
trains whole --nproc-per-node 4 "${full[@]}"
expect_text whole/summary.json '"gather"' '"steps": 12'
for shard in none zero1 SHARD_GRAD_OP; do
    trains "as-$shard" --nproc-per-node 4 --shard "$shard" --precision bf16
    expect_digest whole "as-$shard" "--shard $shard is zero3 with recomputation to the bit"
done
trains other --nproc-per-node 4 --shard zero3
expect "fp32 ends elsewhere" test "$(digest whole)" != "$(digest other)"
trains offloaded --nproc-per-node 4 "${full[@]}" --offload optimizer,gradients,activations
expect_digest whole offloaded "offload changes no bit"

run eval --checkpoint whole --data-path data --json
expect_code 0
cp "$out" scores
expect "40 rows" test "$(json_number rows scores)" = 40
run eval --checkpoint as-none --data-path data --json
expect "the same scores" cmp -s "$out" scores
run predict --checkpoint whole --data-path data/test.csv -o predicted.csv
expect_code 0
expect "a line a row" test "$(wc -l <predicted.csv)" = 41

# ---- What is left of a run that was stopped at step 5, run again ----
stopped=(--nproc-per-node 4 "${full[@]}" --save-steps 5 --keep 9)
trains again "${stopped[@]}"
rm -rf again/checkpoint-6 again/checkpoint-10 again/checkpoint-12 again/best_checkpoint.json
trains again "${stopped[@]}"
expect_digest whole again "a run that goes on from step 5"
expect "it went on from step 5" test "$(grep -c '"event":"start".*"start_step":5,' again/metrics.jsonl)" = 1
rejects 2 train "${common[@]}" --output-dir again --nproc-per-node 4 --shard zero3

# ---- fp16: steps that overflow are skipped by all, said and counted ----
mkdir big
awk -F, 'NR == 1 { print; next }
    { $(NF - 2) *= 300; line = $1; for (i = 2; i <= NF; i++) line = line "," $i; print line }' \
    data/train.csv >big/train.csv
make_config big.json '"tab_field_list": ["size"]' '"numeric_transform": "none"'
run train --config big.json --data-path big --output-dir skipped --nproc-per-node 2 --shard zero2 --precision fp16 \
    --reduce-dtype fp16 \
    --batch-size 4 --max-steps 12 --threads 1
expect_code 0
expect_text "$err" \
    "step 2: gradients overflow at a loss scale of 32768: weights stay as they are, the next scale is 16384"
said=$(grep -c 'gradients overflow at a loss scale' "$err")
expect "$said steps are skipped" test "$said" -gt 3
expect "as many are counted in summary.json" grep -q "\"skipped_steps\": *$said\b" skipped/summary.json
expect "and in metrics.jsonl" test "$(grep '"event":"train"' skipped/metrics.jsonl |
    grep -c "\"skipped_steps\":$said[,}]")" -ge 1
expect "one warning each there" test "$(grep -c '"event":"warn".*gradients overflow' skipped/metrics.jsonl)" = "$said"

# ---- Plans of ranks ----
plan=(plan --config config.json --data-path data --quiet)
run "${plan[@]}" --world-size 2 --shard zero3 --print-program 1 --check
expect_code 0
expect_text "$out" "mesh pp=1 tp=1 dp=2 rank=1" all_gather reduce_scatter
run "${plan[@]}" --world-size 2 --shard zero3 --check --json
expect_code 0
run "${plan[@]}" --world-size 2 --shard zero2 --precision bf16 --print-program 1 --print-kind start
expect_code 0
expect_text "$out" "program trimodal start" "mesh pp=1 tp=1 dp=2 rank=1" cast all_gather_post wait
run "${plan[@]}" --world-size 2 --shard zero2 --print-program 1 --print-kind start
expect_code 0
expect "fp32 weights need no start" test "$(grep -c '^[0-9]' "$out")" = 0
run "${plan[@]}" --print-program 0 --print-kind infer
expect_text "$out" "program trimodal infer"
run "${plan[@]}" --print-program 0 --print-kind eval
expect_code 2
run "${plan[@]}" --world-size 2 --shard none --print-program 0
expect "plain replicas gather nothing" test "$(grep -c 'all_gather' "$out")" = 0
# bytes of parameters, gradients and optimizer state that rank 0 plans, with bf16 reduction
state_bytes() {
    "$trident" "${plan[@]}" --precision bf16 --reduce-dtype bf16 --print-program 0 "$@" 2>/dev/null |
        sed -n 's/^bytes param=\([0-9]*\) grad=\([0-9]*\) state=\([0-9]*\) .*/\1 \2 \3/p' | awk '{ print $1 + $2 + $3 }'
}
parameters=$("$trident" "${plan[@]}" 2>/dev/null | sed -n 's/^\([0-9,]*\) parameters.*/\1/p' | tr -d ,)
# 16, 4 + 12/N, 2 + 14/N, 16/N bytes a parameter of 2 ranks; 3 % for shards cut at 16 elements
for row in "none 16" "zero1 10" "zero2 9" "zero3 8"; do
    bytes=$(state_bytes --world-size 2 --shard "${row% *}")
    expect "${row% *}: $bytes bytes for $parameters parameters" is "$bytes" ">=" "$((parameters * ${row#* }))"
    expect "${row% *}: $bytes bytes for $parameters parameters" is "$bytes" "<" \
        "$((parameters * ${row#* } * 103 / 100))"
done

# ---- Ranks that share layers as the configuration says ----
plan='"*.feed_forward.inner": "ColwiseParallel", "*.feed_forward.outer": "RowwiseParallel"'
plan="\"tp_plan\": {\"primary.layer.*.attention\": \"replicate\", $plan, \"primary.embeddings.words\": \"sequence\"}"
make_config by_hand.json '"tab_field_list": ["size"]' "$plan"
by_hand=(train --config by_hand.json --data-path data --global-batch-size 16 --epochs 2 --threads 1 --save-steps 5
    --keep 9)
run "${by_hand[@]}" --output-dir by-hand --nproc-per-node 4 --tp-size 2 --shard zero3 --quiet
expect_code 0
expect "it is recorded" grep -q '"primary.layer.\*.attention=replicate"' by-hand/checkpoint-12/config.json
run "${by_hand[@]}" --output-dir one-rank --tp-plan auto --quiet
expect_code 0
losses_near by-hand one-rank 1e-5 "layers split by hand"
run plan --config by_hand.json --world-size 2 --tp-size 2 --params --check
expect_code 0
expect "how layers are split" grep -Eq '^primary\.encoder.*attention\.self\.query\.weight .* whole +replicate ' "$out"
expect "and others" grep -Eq '^primary\.encoder\.layer\.0\.output\.dense\.weight .* columns/2 +rowwise ' "$out"
rm -rf by-hand/checkpoint-12 by-hand/checkpoint-10 by-hand/checkpoint-6 by-hand/best_checkpoint.json
run "${by_hand[@]}" --output-dir by-hand --nproc-per-node 4 --tp-size 2 --shard zero3 \
    --tp-plan '*.feed_forward=sequence'
expect_code 0
expect_text "$err" 'tp_plan was ["primary.layer.*.attention=replicate"' "(the same numbers, rounded differently)"
losses_near by-hand one-rank 1e-5 "another split from step 5 on"
split=("${by_hand[@]}" --output-dir bad --nproc-per-node 2 --tp-size 2 --quiet)
rejects 2 "${split[@]}" --tp-plan 'primary.layer.*.atention.qkv=colwise'
rejects 2 "${split[@]}" --tp-plan '*.LayerNorm=colwise'
rejects 2 "${split[@]}" --tp-plan '*.attention.self.key=replicate'
rejects 2 "${split[@]}" --tp-plan '*.attention.output=replicate'
rejects 2 "${split[@]}" --tp-plan '*.attention.qkv=replicate'
rejects 2 "${split[@]}" --tp-plan '*.feed_forward.outer=colwise_rep'
rejects 2 "${split[@]}" --tp-plan '*.projection=sequence'
rejects 2 "${split[@]}" --tp-plan '*.feed_forward=sequence' --sequence-parallel no
rejects 2 "${split[@]}" --tp-plan '*.feed_forward=columns'

# ---- What does not go, in words ----
bad=(train --config config.json --data-path data --output-dir bad --quiet)
rejects 2 "${bad[@]}" --nproc-per-node 4 --shard hybrid --shard-size 3
rejects 2 "${bad[@]}" --shard zero4
rejects 2 "${bad[@]}" --offload weights
rejects 2 "${bad[@]}" --nproc-per-node 2 --reduce-dtype int8
rejects 2 "${bad[@]}" --nproc-per-node 2 --batch-size 4 --num-microbatches 8
run "${bad[@]}" --shard zero3 --max-steps 1
expect_code 0

# ---- The same under mpirun ----
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
if [ -e "$TRI_BUILD/libtrident_mpi.so" ] && mpirun --version 2>/dev/null | grep -q 'Open MPI' &&
    [ -z "${TRI_SANITIZED:-}" ]; then
    for shard in none zero2 zero3; do
        last_command="mpirun -np 4 trident train --shard $shard"
        timeout -k 2 90 mpirun --oversubscribe --bind-to none -np 4 "$trident" train "${common[@]}" \
            --output-dir "mpi-$shard" --shard "$shard" \
            --precision bf16 --recompute full >"$out" 2>"$err"
        code=$?
        expect_code 0
        expect_digest whole "mpi-$shard" "four ranks of mpirun, $shard"
    done
else
    echo "left out: mpirun (no Open MPI here, no plug-in, or a sanitizer)"
fi
finish
