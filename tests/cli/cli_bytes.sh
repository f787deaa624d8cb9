# File names that are not UTF-8: every command accepts them, and JSON has them as \uDCNN (docs/reference/formats.md),
# which is read back as the byte.
# timeout: 120
. "$(dirname "$0")/../lib/cli_lib.sh"
make_all
b=$(printf 'caf\351-\377')
if ! mkdir "probe$b" 2>/dev/null; then
    echo "this file system takes no such names"
    exit 77
fi
mv data "data$b" && mv model "model$b"

run inspect "data$b" --tokenizer "./model$b" --write-config "config$b.json"
expect_code 0
expect_text "config$b.json" 'modelcaf\uDCE9-\uDCFF"'
expect "JSON is UTF-8 whatever the names" iconv -f UTF-8 -t UTF-8 -o /dev/null "config$b.json"
common=(train --config "config$b.json" --data-path "data$b" --batch-size 8 --max-steps 3 --save-steps 2 --threads 1
    --output-dir "run$b")
checked run "${common[@]}"
expect_code 0
expect_text "run$b/checkpoint-3/config.json" 'modelcaf\uDCE9-\uDCFF"'
for file in summary.json metrics.jsonl checkpoint-3/manifest.json; do
    expect "$file is UTF-8" iconv -f UTF-8 -t UTF-8 -o /dev/null "run$b/$file"
done
rm -r "run$b/checkpoint-3"
run "${common[@]}" # the same configuration as was recorded, byte for byte
expect_code 0
expect_text "$err" "continuing from"
checked run eval --checkpoint "run$b" --data-path "data$b/test.csv" --json
expect_code 0
checked run predict --checkpoint "run$b" --data-path "data$b/test.csv" -o "out$b.csv"
expect_code 0
expect "predictions are there" test "$(wc -l <"out$b.csv")" = 41
run checkpoint ls "run$b" --json
expect_code 0
expect_text "$out" '"path":"runcaf\uDCE9-\uDCFF/checkpoint-3"'
for words in "digest run$b" "checkpoint verify run$b" "export --checkpoint run$b --output-dir exported$b --json" \
    "plan --config config$b.json --json" "tokenize --tokenizer ./model$b data$b/test.csv"; do
    run $words
    expect_code 0
done
run train --config "config$b.json" --data-path "data$b" --batch-size 8 --max-steps 3 --threads 1 \
    --output-dir "ranks$b" --nproc-per-node 2
expect_code 0
refuses 66 "none$b" -- digest "none$b"
finish
