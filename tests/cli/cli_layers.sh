# Layers that steps leave out (--layer-drop): meshes against one rank, resumed to the bit; what is refused; plans.
. "$(dirname "$0")/../lib/cli_lib.sh"
make_all
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE SLURM_JOB_END_TIME
common=(train --config config.json --data-path data --global-batch-size 8 --threads 1 --lr 1e-3 --warmup-steps 2 --quiet
    --layer-drop theta=0.3,gamma=0.4 --num-microbatches 4)
losses() { sed -n 's/.*"event": *"train".*"loss": *\([^,]*\),.*/\1/p' "$1/metrics.jsonl"; }

run "${common[@]}" --max-steps 12 --output-dir one
expect_code 0
losses one >one.txt
expect "12 losses" test "$(wc -l <one.txt)" = 12

# like WORDS...: the losses of one rank, by the bounds of other meshes.
like() {
    rm -rf many
    run "${common[@]}" --max-steps 12 --output-dir many "$@"
    expect_code 0
    losses many >many.txt
    expect "the losses of one rank with $*" awk '
        NR == FNR { want[FNR] = $1; next }
        { d = $1 - want[FNR]; d = d < 0 ? -d : d; if (d > 1e-5 * (want[FNR] > 0.1 ? want[FNR] : 0.1)) bad = 1; n++ }
        END { exit bad || n != 12 }' one.txt many.txt
}
like --nproc-per-node 2 --shard zero3 --recompute full
like --nproc-per-node 2 --tp-size 2
like --nproc-per-node 2 --pp-size 2 --schedule zb-h1
if [ "${SOAK_STEPS:-0}" -ge 100 ]; then
    for shard in none zero1 zero2; do like --nproc-per-node 2 --shard $shard; done
    for schedule in gpipe 1f1b interleaved zbv; do like --nproc-per-node 2 --pp-size 2 --schedule $schedule; done
    like --nproc-per-node 8 --tp-size 2 --pp-size 2 --shard zero1
    like --nproc-per-node 2 --cp-size 2
    like --offload optimizer,gradients,activations
fi

# Gates are a function of the step: a run that was stopped goes on to the bit, on another mesh too.
run "${common[@]}" --max-steps 12 --save-steps 5 --keep 9 --output-dir again --nproc-per-node 2 --pp-size 2
expect_code 0
whole=$("$trident" digest again)
rm -rf again/checkpoint-12 again/checkpoint-10 again/best_checkpoint.json again/summary.json
run "${common[@]}" --max-steps 12 --save-steps 5 --keep 9 --output-dir again --nproc-per-node 2 --pp-size 2
expect_code 0
expect "the weights of the whole run" test "$("$trident" digest again)" = "$whole"

for bad in theta=0 theta=1.5 theta=0.5,gamma=-1 theta=0.5,beta=1 gamma=0.1; do
    rejects 2 "${common[@]}" --output-dir no --layer-drop $bad
done
sed 's/^{/{"progressive_layer_drop": {"enabled": true, "theta": 0.5, "gamma": 0.25},/' config.json >deepspeed.json
run plan --config deepspeed.json --print-program 0
expect_code 0
expect_text "$out" " when=primary.layer.0" " unless=primary.layer.0"
expect_text "$err" "progressive_layer_drop"
sed 's/^{/{"progressive_layer_drop": {"enabled": true, "thetas": 0.5},/' config.json >bad.json
rejects 2 plan --config bad.json
# Only training divides layers by their probability: ranks that serve are not fed the factors.
for kind in train infer; do
    run plan --config config.json --layer-drop theta=0.5,gamma=0.1 --print-program all --print-kind $kind
    expect_code 0
    grep -c '\.scaled' "$out" >"scaled.$kind"
done
expect "factors of layers in training alone" test "$(cat scaled.train)" -gt 0 -a "$(cat scaled.infer)" = 0
run simulate --config config.json --world-size 2 --layer-drop theta=0.5 --max-steps 100 --hardware cpu
expect_code 0
expect_text "$out" "steps leave layers out"
finish
