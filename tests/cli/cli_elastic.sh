# --elastic: ranks die, one or two at once, the first one too, and the others go on at the step that was interrupted;
# ranks that are started again join. Each step is in metrics.jsonl once, with the loss of the run that was not hurt.
# timeout: 240
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib/cli_lib.sh"
make_all
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT
common=(train --config config.json --data-path data --global-batch-size 8 --epochs 6 --threads 1 --no-report)
kept=(--elastic --replicate-state)

# whole FOLDER OTHER: every step once, with the losses of the other run, and every epoch once
whole() {
    once "$1" 72 6
    losses_near "$1" "$2" "${3:-2e-6}" "$1"
}

# ---- Replicas, ZeRO shards, stages: the ranks that are left take over ----
i=0
for mesh in "3" "3 --shard zero3" "4 --shard zero1 --async-save --save-steps 5" \
    "4 --pp-size 2 --num-microbatches 2" "2 --pp-size 2 --num-microbatches 2"; do
    i=$((i + 1))
    run "${common[@]}" --output-dir "calm$i" --nproc-per-node $mesh
    expect_code 0
    hurt "hurt$i" $((4 * i)) 2 "${kept[@]}" --nproc-per-node $mesh
    expect_code 0
    whole "hurt$i" "calm$i"
    expect "went on once" test "$(regroups "hurt$i")" = 1
    expect_text "$err" "rank 1 died (killed by SIGKILL)" "from the state that ranks kept"
done

# ---- The first rank, which writes the files; two at once ----
hurt first 9 1 "${kept[@]}" --nproc-per-node 3
expect_code 0
whole first calm1
expect_text "$err" "rank 0 died"
hurt two 9 "1 3" "${kept[@]}" --nproc-per-node 3 --shard zero3
expect_code 0
whole two calm2
expect_text "$err" "going on with 1 rank "

# ---- A death inside a tensor group takes its replica along ----
run "${common[@]}" --output-dir tensor --nproc-per-node 4 --tp-size 2
hurt group 9 4 "${kept[@]}" --nproc-per-node 4 --tp-size 2
expect_code 0
whole group tensor 1e-5

# ---- Started again, a rank joins those that went on ----
hurt again 6 2 "${kept[@]}" --nproc-per-node 3 --max-restarts 5
expect_code 0
whole again calm1
expect_text "$err" "was started again and joins: 3 ranks"
expect "without it, and with it" test "$(grep -c 'going on with . rank' "$err")" = 2

# ---- Without replicated state: from the last checkpoint ----
hurt plain 9 2 --elastic --save-steps 4 --nproc-per-node 3
expect_code 0
whole plain calm1
expect_text "$err" "continuing from plain/checkpoint-"

# ---- Local steps: the last copy goes on from the mean of the copies, and meets others that join ----
hurt alone 9 2 "${kept[@]}" --nproc-per-node 2 --sync-every 4
expect_code 0
once alone 72 6
expect_text "$err" "one copy of the model is left" "goes on from the mean of 'local.*'"
hurt joined 9 2 --elastic --save-steps 3 --nproc-per-node 2 --sync-every 4 --max-restarts 2
expect_code 0
once joined 72 6
expect_text "$err" "one copy of the model is left" "was started again and joins: 2 ranks"
rejects 2 "${common[@]}" --output-dir none --elastic --sync-every 4 --nproc-per-node 2 --pp-size 2

# ---- A rank that dies while it gets its next world has died like any other ----
if [ -z "${TRI_SANITIZED:-}" ]; then
    ${CC:-cc} -O1 -shared -fPIC -o "$work/dies.so" "$here/../hangs/dies.c" -ldl || exit 1
    LD_PRELOAD="$work/dies.so" DIES_RANK=2 hurt third 9 2 "${kept[@]}" --nproc-per-node 3
    expect_code 0
    once third 72 6
    expect_text "$err" "going on with 1 rank "
    LD_PRELOAD="$work/dies.so" DIES_RANK=0 hurt last 9 2 "${kept[@]}" --nproc-per-node 2
    expect_code 137
    expect "not a bug" test "$(grep -c 'a bug' "$err")" = 0
fi

# ---- Too few: the run ends, as it does without ----
hurt few 9 2 "${kept[@]}" --min-ranks 3 --save-steps 4 --nproc-per-node 3
expect_code 137
expect_text few/error.json '"rank": 1'
run "${common[@]}" --output-dir few --nproc-per-node 3
expect_code 0
losses_near few calm1 2e-6 "run again"

finish
