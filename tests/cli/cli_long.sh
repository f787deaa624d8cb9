# Texts longer than the encoder's positions: a position table that is extended by repeating it, and overlapping windows.
. "$(dirname "$0")/../lib/cli_lib.sh"
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
rejects 2 train "${long[@]}" --output-dir never
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
# Windows. Texts that fit in one are the run without, bit by bit.
steps=(--config config.json --batch-size 8 --max-steps 4 --threads 1 --save-steps 2 --keep 9)
run train "${steps[@]}" --data-path data --output-dir plain
expect_code 0
run train "${steps[@]}" --data-path data --output-dir fits --windows 3 --stride 5
expect_code 0
expect "one window each: the same weights" test "$("$trident" digest plain)" = "$("$trident" digest fits)"

# Longer ones: what is kept and what is cut is said. Every layout has the losses of one rank.
long_table() { # FILE ROWS FIRST
    awk -v rows="$2" -v first="$3" 'BEGIN {
        print "text,track,size,weight,label"
        for (i = first; i < first + rows; i++) {
            y = (i * 7 + int(i / 3)) % 2
            for (k = 0; k < (i * 5) % 11; k++) printf "the box was late . "
            printf "it is %s,%s,%d,%.2f,%d\n", y ? "bad" : "good",
                i % 5 ? "a box" : "a box was lost and found . early and late . not a fine box", i % 11, i % 17, y
        }
    }' >"$1"
}
mkdir long-data
long_table long-data/train.csv 32 0
long_table long-data/valid.csv 16 32
long_table long-data/test.csv 24 48
windowed=("${steps[@]}" --data-path long-data --max-sen-len 16 --windows 4 --stride 9)
losses() { sed -n 's/.*"event": *"train".*"loss": *\([0-9.e-]*\).*/\1/p' "$1/metrics.jsonl"; }
run train "${windowed[@]}" --output-dir one
expect_code 0
expect_text "$err" " windows, tokenised in" \
    "of 32 primary texts are longer than 4 windows: cut at 43 tokens (max_sen_len 16, stride 9)"
losses one >one.txt
layout() { # NAME OPTIONS...: as one rank, to the bound of tensor parallelism
    run train "${windowed[@]}" --output-dir "$@"
    expect_code 0
    losses "$1" >other.txt
    expect "$1: the losses of one rank" awk 'NR == FNR { a[FNR] = $1; n++; next } { d = $1 - a[FNR]; m++
        if (d > 1e-5 || d < -1e-5) bad = 1 } END { exit bad || n != 4 || m != 4 }' one.txt other.txt
}
layout dp2 --nproc-per-node 2 --batch-size 4 --shard zero3
layout tp2 --nproc-per-node 2 --tp-size 2
layout pp2tp2 --nproc-per-node 4 --pp-size 2 --tp-size 2 --num-microbatches 3
run eval --checkpoint one --data-path long-data/test.csv --json
expect_code 0
expect_text "$err" "of 24 primary texts are longer than 4 windows"

# A run that continues is the uninterrupted one; a prediction does not depend on the batch it is in.
cp -r one again
rm -r again/checkpoint-4 again/best_checkpoint.json
run train "${windowed[@]}" --output-dir again
expect_code 0
expect "continued with windows" test "$("$trident" digest one)" = "$("$trident" digest again)"
for batch in 3 24; do
    run predict --checkpoint one --data-path long-data/test.csv -o $batch.csv --batch-size $batch
    expect_code 0
done
expect "predictions do not depend on the batch" cmp -s 3.csv 24.csv

# Printed programs say how many windows there are, and prove as they are.
run plan "${windowed[@]:0:4}" --data-path long-data --max-sen-len 16 --windows 4 --stride 9 --print-program 0
expect_code 0
expect_text "$out" " W0=" "primary.pooling.windows#0[N,32] <- primary.pooling.tanh#0[W0,32] win0#0[N+1,1]"
sed '/^program/,$!d' "$out" >program.txt
run check program.txt
expect_code 0

run plan "${windowed[@]:0:4}" --windows 4 --stride 9 # without data: the most that there can be
expect_code 0
expect_text "$out" "8 samples, 1,024 + 1,024 tokens in 32 + 32 windows"

rejects 2 train "${steps[@]}" --data-path data --output-dir never --windows 0
rejects 2 train "${steps[@]}" --data-path data --output-dir never --windows 2 --stride 0
rejects 2 train "${steps[@]}" --data-path data --output-dir never --windows 2 --stride 31
rejects 2 train "${steps[@]}" --data-path data --output-dir never --stride 4
rejects 2 train "${steps[@]}" --data-path data --output-dir never --max-sen-len 65
finish
