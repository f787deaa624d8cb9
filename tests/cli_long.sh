# Texts longer than the encoder's positions: a position table that is extended by repeating it.
. "$(dirname "$0")/cli_lib.sh"
make_all
short=(--data-path data --batch-size 16 --seed 1 --threads 1)

# The folder of an encoder with 64 positions: all of its rows are at hand again in a table of 150. A rate of 0 leaves
# the weights as they are read; ZeRO-3 reads them in shards.
run train --config config.json "${short[@]}" --output-dir run --max-steps 2
expect_code 0
run export --checkpoint run --output-dir exported
expect_code 0
sed 's,"primary_tokenizer": *"[^"]*","primary_tokenizer": "'"$work"'/exported/primary",' config.json >reuse.json
long=(--config reuse.json "${short[@]}" --max-sen-len 150)
refuses 2 "max_sen_len 150" "64 positions" "--extend-positions copy" -- train "${long[@]}" --output-dir never
run train "${long[@]}" --extend-positions copy --output-dir long --lr 0 --max-steps 1 --nproc-per-node 2 --shard zero3
expect_code 0
expect_text "$err" "primary encoder: 150 positions instead of its 64 (--extend-positions copy)" \
    "primary: the folder's 64 positions are repeated to 150"
run export --checkpoint long --output-dir long-exported
expect_code 0
expect_text long-exported/primary/config.json '"max_position_embeddings": 150'

# rows FILE: the position table of a safetensors file of an encoder, a row of 32 numbers a line.
rows() {
    local header at
    header=$(od -An -tu8 -N8 "$1" | tr -d ' ')
    at=$(head -c $((header + 8)) "$1" | tail -c "$header" | tr '}' '\n' |
        sed -n 's/.*position_embeddings.weight".*"data_offsets": *\[\([0-9]*\).*/\1/p')
    tail -c +$((header + 9 + at)) "$1" | head -c $(($2 * 128)) | od -An -v -tx4 -w128
}
rows exported/primary/model.safetensors 64 >once
rows long-exported/primary/model.safetensors 150 >table
cat once once once | head -n 150 >wanted
expect "the table is the folder's, repeated" cmp -s wanted table

# What was trained needs the option no more: it goes on, is evaluated and predicts. Its longer table may start others.
run train "${long[@]}" --output-dir long --lr 0 --max-steps 1 --epochs 20
expect_code 0
run eval --checkpoint long --data-path data --json
expect_code 0
run predict --checkpoint long-exported --data-path data/test.csv -o answers.csv
expect_code 0
run train --config config.json "${short[@]}" --max-sen-len 70 --extend-positions copy --resume exported --max-steps 1 \
    --output-dir other
expect_code 0
expect_text "$err" "the 64 positions of primary.embeddings.position_embeddings.weight are repeated to 70"
run train --config config.json "${short[@]}" --max-sen-len 70 --extend-positions copy --max-steps 1 --output-dir drawn
expect_code 0
expect_text "$err" "primary encoder: random initial weights, all positions drawn, none copied"
finish
