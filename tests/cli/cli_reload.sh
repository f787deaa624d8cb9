# Checkpoints of a mesh with pipeline, tensor parallelism and shards, through the command: listed, evaluated, exported,
# damaged, resumed on another mesh; and ranks of such a mesh that are killed while they train.
# timeout: 240
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib/cli_lib.sh"
make_all
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE
common=(train --config config.json --data-path data --global-batch-size 8 --epochs 1 --threads 1 --save-steps 6
    --keep 9 --num-microbatches 2)
axes=(--nproc-per-node 8 --pp-size 2 --tp-size 2 --shard zero3)
digest() { "$trident" digest "$1" 2>/dev/null; }
near() { is "$(awk -v a="$1" -v b="$2" 'BEGIN { d = a - b; print d < 0 ? -d : d }')" '<' "$3"; } # A B LIMIT
loss_of() { # CHECKPOINT: its loss on the validation file
    run eval --checkpoint "$1" --data-path data/valid.csv --json --calibration none
    expect_code 0
    loss=$(json_number loss "$out")
}

run "${common[@]}" "${axes[@]}" --output-dir mesh
expect_code 0
newest=mesh/checkpoint-12
expect "eight ranks wrote" test "$(ls $newest/optimizer-*.safetensors | wc -l)" = 8

# ---- Gone on from elsewhere: the same state, then the same losses to rounding; on the same mesh the same bits ----
go_on() { # FOLDER OPTIONS...: from step 6 on
    local folder=$1
    shift
    mkdir "$folder" && cp -r mesh/checkpoint-6 "$folder"
    run "${common[@]}" "$@" --output-dir "$folder"
    expect_code 0
    expect_text "$err" "continuing from $folder/checkpoint-6 at step 6"
}
go_on same "${axes[@]}"
expect "the same mesh ends with the same bits" test -n "$(digest mesh)" -a "$(digest same)" = "$(digest mesh)"
go_on alone
go_on pipe --nproc-per-node 2 --pp-size 2 --schedule zb-h1
loss_of mesh
want=$loss
valid=$(sed -n 's/.*"valid_loss":\([^,]*\),.*/\1/p' mesh/metrics.jsonl | tail -n 1)
expect "the run's own validation is what eval says: $valid, $want" near "$valid" "$want" 1e-5
for folder in alone pipe; do
    loss_of $folder
    expect "$folder ends where the mesh does: $loss, $want" near "$loss" "$want" 1e-5
done

# ---- ls, verify, diff ----
run checkpoint ls mesh
expect_text "$out" "pp=2 tp=2 dp=2" " 12 " " 6 "
checked run checkpoint verify mesh
expect_code 0
checked run checkpoint diff mesh/checkpoint-6 alone/checkpoint-6
expect_code 0
expect_text "$out" "all tensors are the same"
run checkpoint diff $newest alone/checkpoint-12 --json
expect_text "$out" '"key":"mesh"' '"what":"other values"'

# ---- predict, export, and a new run from the export ----
checked run predict --checkpoint mesh --data-path data/test.csv -o before.csv
expect_code 0
checked run export --checkpoint mesh --output-dir exported
expect_code 0
run predict --checkpoint exported --data-path data/test.csv -o after.csv
expect "an export predicts what its checkpoint does" cmp -s before.csv after.csv
run checkpoint verify exported
expect_code 0
# Of six ranks, one has nothing to hold: its stage is the table, which two replicas share out.
few=(--nproc-per-node 6 --pp-size 2 --shard zero3 --stages 'tabular,primary secondary fusion')
run "${common[@]}" "${few[@]}" --output-dir few --resume exported
expect_code 0
expect_text "$err" "beginning a new run with the weights of exported"
expect "five ranks wrote" test "$(ls few/checkpoint-12/weights-*.safetensors | wc -l)" = 5
run "${common[@]}" --output-dir one --resume exported
loss_of one
want=$loss
loss_of few
expect "it learns what one rank would: $loss, $want" near "$loss" "$want" 1e-5

# ---- Damage in one rank's part: named, and passed over by all ----
torn=mesh/checkpoint-12/weights-00005.safetensors
printf '\125' | dd of=$torn bs=1 seek=$(($(stat -c %s $torn) - 1)) conv=notrunc 2>/dev/null
refuses 65 "$torn is damaged in tensor '" -- digest mesh/checkpoint-12
run checkpoint verify mesh
expect_code 65
run "${common[@]}" "${axes[@]}" --output-dir mesh
expect_code 0
expect_text "$err" "mesh/checkpoint-12 is passed over" "continuing from mesh/checkpoint-6 at step 6"
expect "and the run ends as it did" test "$(digest mesh)" = "$(digest same)"

# ---- Ranks killed, and started again ----
bash "$here/../soak/restarts.sh" 21 >"$out" 2>"$err" # the seed of a run with --pp-size 2 --tp-size 2 --async-save
code=$?
expect_code 0
expect_text "$out" "1 runs ended with the undisturbed losses and digest"
finish
