#!/bin/bash
# cli_int8.sh - products of 8-bit factors through the commands: training for them, inference with them on every mesh,
# and the folder that quantize makes: all see the same integers, so all print the same numbers.
. "$(dirname "$0")/../lib/cli_lib.sh"
make_all
common=(--config config.json --data-path data --batch-size 4 --max-steps 6 --threads 1 --quiet)

# same A B: predict's outputs of two calls are the same bytes.
same() { expect "$1 and $2 are the same bytes" cmp -s "$1" "$2"; }
predict() { # predict FILE ARGS...
    local to=$1
    shift
    run predict --data-path data/valid.csv --quiet --threads 1 "$@"
    expect_code 0
    cp "$out" "$to"
}
valid_loss() { grep -o '"valid_loss":[0-9.e-]*' "$1/metrics.jsonl" | tail -n 1 | cut -d: -f2; }

# Validation during training, eval of the run, and its quantised folder.
for type in fp32 bf16 fp16; do
    run train "${common[@]}" --output-dir "$type" --precision "$type" --quantize int8
    expect_code 0
    run eval --checkpoint "$type" --data-path data/valid.csv --precision int8 --json --quiet --calibration none
    expect_code 0
    expect_text "$out" "\"loss\":$(valid_loss "$type"),"
    predict "$type.csv" --checkpoint "$type" --precision int8
    run quantize "$type" -o "$type-int8" --data-path data/valid.csv --max-drop 1 --quiet
    expect_code 0
    predict folder.csv --checkpoint "$type-int8"
    same "$type.csv" folder.csv
    predict float.csv --checkpoint "$type" --precision "$type"
    expect "the integers count" test "$(cmp -s "$type.csv" float.csv; echo $?)" = 1
done

# On other meshes: rows have the same bits, sharded weights too; of a folder, a run, and a 16-bit computing type.
for mesh in "--nproc-per-node 2 --pp-size 2" "--nproc-per-node 2 --shard zero3" "--nproc-per-node 2 --shard zero1"; do
    # shellcheck disable=SC2086
    predict mesh.csv --checkpoint bf16-int8 $mesh
    same bf16.csv mesh.csv
    # shellcheck disable=SC2086
    predict mesh.csv --checkpoint bf16 --precision int8 $mesh
    same bf16.csv mesh.csv
done

# Trained on other meshes: the same bits, where float training has them.
for mesh in "--nproc-per-node 2 --pp-size 2 --schedule zb-h1" "--recompute full"; do
    # shellcheck disable=SC2086
    run train "${common[@]}" --output-dir mesh --precision bf16 --quantize int8 --num-microbatches 2 $mesh
    expect_code 0
    "$trident" digest mesh >>digests
    rm -r mesh
done
expect "a pipeline trains the same weights as one rank" test "$(sort -u digests | wc -l)" = 1

# Resumed after a checkpoint: the uninterrupted run.
resumed=("${common[@]}" --output-dir again --precision bf16 --quantize int8 --save-steps 3 --keep 9)
run train "${resumed[@]}"
expect_code 0
whole=$("$trident" digest again)
rm -rf again/checkpoint-6 again/best_checkpoint.json
run train "${resumed[@]}"
expect_code 0
expect "a resumed run has the same weights" test "$("$trident" digest again)" = "$whole"

# Another type of products is another run; --quantize fp8 is not trained for.
rejects 2 train "${common[@]}" --output-dir fp32 --precision fp32
rejects 2 train "${common[@]}" --output-dir new --quantize fp8
rejects 2 train "${common[@]}" --output-dir new --quantize int8 --float-layers \
    primary.encoder.layer.0.outputs.dense.weight
rejects 2 train "${common[@]}" --output-dir new --float-layers primary.pooler.dense.weight
rejects 2 train "${common[@]}" --output-dir new --quantize int8 --float-layers primary.pooler.dense.bias
expect "nothing was made" test ! -e new

# The program can be looked at.
run plan --config config.json --quantize int8 --print-kind infer --print-after quantize --quiet
expect_code 0
expect_text "$out" "# after pass quantize" "quantize_int8 " "linear_int8 " "embed_int8 " "layer.0.qkv.w gather i8"
run plan --config config.json --precision int8 --print-kind infer --print-after quantize --quiet
expect_code 0
expect_text "$out" "# after pass quantize" "quantize_int8 " "linear_int8 " "layer.0.qkv.w param i8"
run plan --config config.json --precision fp8 --print-kind start --print-program all --world-size 2 --tp-size 2 --quiet
expect_code 0
expect_text "$out" "quantize_fp8 " "all_max_post "
cp "$out" start.txt
run check start.txt
expect_code 0
run plan --config config.json --precision int8 --json --quiet
expect_code 0
run plan --config config.json --precision int8 --quiet
expect_code 0
expect "no step of training is shown" test "$(grep -c training "$out")" = 0
rejects 2 plan --config config.json --precision int8 --print-after quantize
# Sums of 32 bits: rows of 133,146 products might overflow them, and do not when two ranks share them.
inner='s/^ *\("primary_encoder".*"intermediate_size": \)[0-9]*\(.*}\),*$/\1133146\2/p'
make_config wide.json "$(sed -n "$inner" config.json)"
rejects 2 plan --config wide.json --precision int8
run plan --config wide.json --precision int8 --world-size 2 --tp-size 2 --quiet
expect_code 0
run plan --config wide.json --quiet
expect_code 0
rejects 2 plan --config config.json --precision int8 --quantize fp8
rejects 2 plan --config config.json --precision int8 --timeline

finish
