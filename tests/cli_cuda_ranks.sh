# cli_cuda_ranks.sh - training on a GPU through the command: evaluation, prediction and profile; then 2 and 4 ranks that share one GPU over
# NCCL, in every way of sharing out, end where one rank ends. Skipped with a reason where there is no GPU.
# timeout: 300
. "$(dirname "$0")/cli_lib.sh"
"$trident" doctor | grep -q '^cuda *yes' || { "$trident" doctor | grep '^cuda'; exit 77; }
make_all
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE
common=(--config config.json --data-path data --global-batch-size 8 --epochs 2 --threads 1 --quiet --device cuda)

trains() { # FOLDER OPTIONS...
    local folder=$1
    shift
    run train "${common[@]}" --output-dir "$folder" "$@"
    expect_code 0
}
losses() { sed -n 's/.*"event":"train".*"loss":\([^,]*\),.*/\1/p' "$1/metrics.jsonl"; }
# The largest difference of the losses of two runs; a large one when they have other numbers of steps.
apart() { paste <(losses "$1") <(losses "$2") | awk 'BEGIN { m = 0 } NF != 2 { m = 9 } { d = $1 - $2; d = d < 0 ? -d : d; if (d > m) m = d } END { print NR ? m : 9 }'; }
near() { # FOLDER OTHER LIMIT WHAT
    expect "$4: losses differ by $(apart "$1" "$2")" is "$(apart "$1" "$2")" '<=' "$3"
}

# ---- One rank ----
trains one
run train "${common[@]}" --device cpu --output-dir cpu
expect_code 0
near one cpu 1e-4 "GPU and CPU"
run eval --checkpoint one --data-path data --device cuda --json
expect_code 0
cp "$out" scores
run eval --checkpoint one --data-path data --device cpu --json
expect_code 0
expect "the CPU finds the same loss" is "$(awk -v a="$(json_number loss scores)" -v b="$(json_number loss "$out")" 'BEGIN { print a - b < 1e-5 && b - a < 1e-5 }')" == 1
run predict --checkpoint one --data-path data/test.csv --device cuda -o predicted.csv
expect_code 0
expect "a line a row" test "$(wc -l <predicted.csv)" = 41
trains traced --profile wait=1,active=2
expect "the trace has kernels" grep -q '"attention_first_din"' traced/trace-rank0.json
expect_text one/metrics.jsonl 'NVIDIA'

# ---- Several ranks on one GPU ----
if "$trident" doctor | grep -q 'no NCCL'; then
    echo "NCCL does not load: ranks are not tried"
    finish
fi
for n in 2 4; do
    for shard in none zero1 zero2 zero3; do
        trains "$shard-$n" --nproc-per-node "$n" --shard "$shard"
        near one "$shard-$n" 2e-6 "--shard $shard on $n ranks"
    done
done
trains half-1 --precision bf16
trains half-2 --nproc-per-node 2 --shard zero3 --precision bf16
near half-1 half-2 3e-2 "bf16, zero3 on 2 ranks"
trains micro --nproc-per-node 2 --shard zero2 --num-microbatches 2
near one micro 2e-6 "zero2, 2 microbatches on 2 ranks"

# A rank that dies takes the others with it: nobody waits for ever.
run train "${common[@]}" --output-dir killed --nproc-per-node 2 --epochs 100000 --max-steps 20000 --save-every 0 &
sleep 8
victim=$(pgrep -P $! 2>/dev/null | head -n 1)
for p in $(pgrep -P "${victim:-0}" 2>/dev/null); do [ "$(rank_of "$p")" = 1 ] && kill -KILL "$p"; done
begin=$(date +%s)
wait $!
expect "the run ends soon after a rank was killed" test $(($(date +%s) - begin)) -lt 20
finish
