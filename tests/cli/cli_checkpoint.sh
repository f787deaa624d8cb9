# Checkpoints through the command: list, verify, compare, prune; damaged ones are named and skipped by all ranks;
# another mesh; a full disk.
# timeout: 240
. "$(dirname "$0")/../lib/cli_lib.sh"
make_all
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE
common=(train --config config.json --data-path data --batch-size 4 --epochs 2 --threads 1)
digest() { "$trident" digest "$1" 2>/dev/null; }

# ---- Saved while training goes on, or not: the same run, the same checkpoints ----
run "${common[@]}" --output-dir run --nproc-per-node 2 --save-steps 5 --keep 9
expect_code 0
checked run "${common[@]}" --output-dir async --nproc-per-node 2 --save-steps 5 --keep 9 --async-save
expect_code 0
for step in 5 10 12 15 20 24; do
    expect "checkpoint-$step is the same" test -n "$(digest run/checkpoint-$step)" -a "$(digest run/checkpoint-$step)" \
        = "$(digest async/checkpoint-$step)"
done
run "${common[@]}" --output-dir alone --async-save --save-steps 3 --batch-size 8
expect_code 0
expect "the manifest says where the run stands" grep -q '"mesh"' run/checkpoint-24/manifest.json
for key in samples global_batch data seed best_step learning_rate loss_sum build; do
    expect "$key in the manifest's state" grep -q "\"$key\":" run/checkpoint-24/manifest.json
done
expect "a slice has a hash of its own" test "$(grep -c '"xxh3"' run/checkpoint-24/manifest.json)" -gt 20

# ---- ls, verify, diff, prune ----
run checkpoint ls run
expect_code 0
expect_text "$out" "step" "dp=2" "best" " 24 " " 5 "
run checkpoint ls run --json
expect "an object a checkpoint" test "$(grep -c '^{"path":"run/checkpoint-.*"valid":true' "$out")" = 6
checked run checkpoint verify run
expect_code 0
checked run checkpoint diff run/checkpoint-24 async/checkpoint-24
expect_code 0
expect_text "$out" "all tensors are the same" "async_save"
checked run checkpoint diff run/checkpoint-20 run/checkpoint-24 --json
expect_text "$out" '"tensor":"fusion.output.weight","what":"other values"' '"key":"samples"'
cp -r run pruned
run checkpoint prune pruned --keep 1
expect_code 0
expect "the newest and the best stay" test "$(ls -d pruned/checkpoint-* | wc -l)" -le 2 -a -d pruned/checkpoint-24
rejects 66 checkpoint ls nowhere
rejects 66 checkpoint verify data
rejects 2 checkpoint
rejects 2 checkpoint list run
rejects 2 checkpoint diff run

# ---- Damage: named with file and tensor, and passed over by all ranks ----
damage() { # FILE: its last byte changes
    local size
    size=$(stat -c %s "$1")
    printf '\125' | dd of="$1" bs=1 seek=$((size - 1)) conv=notrunc 2>/dev/null
}
cp -r run torn
rm -r torn/checkpoint-24 torn/best_checkpoint.json
damage torn/checkpoint-20/optimizer-00001.safetensors
truncate -s 1000 torn/checkpoint-15/weights-00000.safetensors
run checkpoint verify torn
expect_code 65
expect_text "$err" "2 of 5 damaged" "torn/checkpoint-20/optimizer-00001.safetensors is damaged in tensor 'exp_avg"
expect_text "$out" "torn/checkpoint-15/weights-00000.safetensors has 1000 bytes"
run checkpoint ls torn --json
expect "ls looks at sizes" grep -q '"step":15,"valid":false' "$out"
run "${common[@]}" --output-dir torn --nproc-per-node 2 --save-steps 5 --keep 9
expect_code 0
expect_text "$err" "torn/checkpoint-20 is passed over" "torn/checkpoint-15 is passed over" \
    "continuing from torn/checkpoint-12 at step 12"
expect "it ends as the others did" test "$(digest torn)" = "$(digest run)"
run checkpoint verify torn
expect_code 0
# A run that ended between a commit and the mark of the best: the next one makes up for it.
cp -r run unmarked && rm unmarked/best_checkpoint.json
best=$(json_number step run/best_checkpoint.json)
for folder in unmarked/checkpoint-*; do [ "${folder##*-}" -le "$best" ] || rm -r "$folder"; done
run "${common[@]}" --output-dir unmarked --save-steps 5 --keep 9
expect_code 0
expect "the best checkpoint is marked again" cmp -s run/best_checkpoint.json unmarked/best_checkpoint.json
cp -r run gone
for folder in gone/checkpoint-*; do damage "$folder/weights-00001.safetensors"; done
rejects 65 "${common[@]}" --output-dir gone --quiet
damage gone/checkpoint-24/manifest.json
rejects 65 "${common[@]}" --output-dir other --quiet --resume gone/checkpoint-24
rejects 66 "${common[@]}" --output-dir other --quiet --resume nowhere

# One rank alone sees damage, in a view of its own: all pass that checkpoint over.
if [ "$(id -u)" = 0 ] && unshare -m true 2>/dev/null; then
    cp -r run mine && rm -r mine/checkpoint-24 && cp -r mine theirs
    for file in theirs/checkpoint-20/*.safetensors; do damage "$file"; done
    together=("${common[@]}" --output-dir mine --save-every 0 --save-steps 0)
    export WORLD_SIZE=2 MASTER_PORT=$((20000 + $$ % 20000))
    RANK=1 unshare -m sh -c 'mount --bind theirs mine && exec "$@"' sh "$trident" "${together[@]}" >/dev/null 2>err1 &
    pid=$!
    RANK=0 run "${together[@]}"
    expect_code 0
    wait $pid
    expect "the other rank ends well, too" test $? = 0
    unset WORLD_SIZE MASTER_PORT
    expect_text "$err" "mine/checkpoint-20 is passed over: mine/checkpoint-20/" "is damaged in tensor" \
        "continuing from mine/checkpoint-15 at step 15"
else
    echo "left out: a rank with a view of its own (needs root and unshare -m)"
fi

# ---- Another mesh: the same state, and the run goes on ----
cp -r run moved
rm -r moved/checkpoint-24 moved/checkpoint-20
run "${common[@]}" --output-dir moved --nproc-per-node 3 --shard zero3
expect_code 0
expect_text "$err" "batch      3 on each replica, 8 in all" "world_size was 2, is 3" \
    "shard was \"none\", is \"zero3\"" "at step 15"
run checkpoint ls moved
expect_text "$out" "dp=3"
rejects 2 "${common[@]}" --output-dir moved --lr 0.1 --quiet
run "${common[@]}" --output-dir moved --epochs 3 --lr 0.002 --allow-change lr,epochs
expect_code 0
expect_text "$err" "lr was 0.001, is 0.002 (allowed)" "epochs was 2, is 3"
# A run that has ended gets more steps without being asked twice, and says what becomes of its learning rate.
run "${common[@]}" --output-dir moved --epochs 4 --lr 0.002 --nproc-per-node 3
expect_code 0
expect_text "$err" "batch      3 on each replica, 8 in all" "epochs was 3, is 4" \
    "had ended at step 36 and continues to step 48" "step 48/48"
run "${common[@]}" --output-dir moved --epochs 9 --max-steps 50 --lr 0.002 --nproc-per-node 3
expect_code 0
expect_text "$err" "step 50/50" \
    "continues to step 50. Its learning rate is now that of a run of 50 steps: it had fallen to 0, is 8"
rejects 2 "${common[@]}" --output-dir moved --epochs 9 --max-steps 40 --lr 0.002 --quiet
rejects 2 "${common[@]}" --output-dir unended --resume run/checkpoint-20 --epochs 9 --max-steps 50

# ---- --resume never in the folder of a longer run: its checkpoints do not come back ----
cp -r run anew
run "${common[@]}" --output-dir anew --resume never --max-steps 4 --quiet
expect_code 0
expect "only its own are left" test "$(ls -d anew/checkpoint-*)" = anew/checkpoint-4
cp -r run/checkpoint-24 anew # as if it had been killed before they were removed
run "${common[@]}" --output-dir anew --max-steps 4
expect_code 0
expect_text "$err" "continuing from anew/checkpoint-4 at step 4"

# ---- Nothing can be written: said at the start ----
touch file
rejects 74 "${common[@]}" --output-dir file --quiet
[ "$(id -u)" = 0 ] || {
    mkdir locked && chmod 0500 locked
    refuses 74 "locked" -- "${common[@]}" --output-dir locked --quiet
}

# ---- Files may not grow: one failure is said, the second ends the run, what was saved stays ----
run "${common[@]}" --output-dir solo --batch-size 8 --save-steps 5 --keep 9 --quiet
expect_code 0
cp -r solo full
rm -r full/checkpoint-24 full/checkpoint-20
before=$(digest full)
last_command="trident train under ulimit -f"
(ulimit -f 64 && exec "$trident" "${common[@]}" --output-dir full --batch-size 8 --save-steps 4) >"$out" 2>"$err"
code=$?
expect_code 74
expect_text "$err" "checkpoint of step 16 not saved" "The run goes on" "checkpoint of step 20 not saved" "failed too"
expect "the last checkpoint is as it was" test "$(digest full)" = "$before"
expect "nothing half-made is left" test -z "$(ls -d full/*.tmp* 2>/dev/null)"
run "${common[@]}" --output-dir full --batch-size 8 --save-steps 4 --quiet
expect "and the run goes on when there is room" test "$(digest full)" = "$(digest solo)"
finish
