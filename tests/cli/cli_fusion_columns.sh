# timeout: 300
# Fusion by attention over texts and columns (fusion columns): an interaction that concat does not learn in as many
# steps; the same losses on meshes, after a resume, with fewer bits; eval, predict, an export and the server agree; what
# explain says of attention; models of one token; what is refused.
. "$(dirname "$0")/../lib/cli_lib.sh"
make_model model
# make_table FILE ROWS FIRST: a word of the text names one of three columns, whose value is the label.
make_table() {
    awk -v rows="$2" -v first="$3" 'BEGIN {
        srand(first + 1); split("box good late", word, " "); print "text,note,box,good,late,size,label"
        for (i = first; i < first + rows; i++) {
            n = 1 + int(3 * rand())
            for (c = 1; c <= 3; c++) v[c] = rand() < 0.5
            printf "it was %s,%s,%s,%s,%s,%d,%d\n", word[n], rand() < 0.5 ? "fine" : "bad", v[1] ? "red" : "blue",
                v[2] ? "old" : "new", v[3] ? "far" : "near", 30 * rand(), v[n]
        }
    }' >"$1"
}
mkdir -p data
make_table data/train.csv 480 0
make_table data/valid.csv 96 1000
make_table data/test.csv 200 2000
keys=('"primary_text_name": "text"' '"secondary_text_name": "note"' '"tab_field_list": ["box", "good", "late", "size"]'
    '"hidden_common_dim": 32' '"numeric_bins": 8' '"pooling": "mean"' '"fusion_dropout": 0.1')
make_config config.json "${keys[@]}" '"fusion": "columns"' '"fusion_layers": 2' '"fusion_heads": 4'
make_config concat.json "${keys[@]}" '"tabular": "embedded"' '"column_dim": 32'
common=(--config config.json --data-path data --global-batch-size 32 --epochs 10 --lr 1e-3 --threads 1 --quiet)

# The interaction.
for form in config concat; do
    run train "${common[@]}" --config $form.json --output-dir "$form"
    expect_code 0
    run eval --checkpoint "$form" --data-path data/test.csv --json --quiet
    expect_code 0
    cp "$out" "$form.eval"
done
columns=$(json_number log_loss config.eval) concat=$(json_number log_loss concat.eval)
expect "it is learned: log loss $columns" is "$columns" '<' 0.1
expect "which concat has not in as many steps: $concat" is "$concat" '>' 0.4

# The same losses on every mesh, and resumed.
few=(train "${common[@]}" --max-steps 12 --output-dir)
run "${few[@]}" few
expect_code 0
for how in '--nproc-per-node 2' '--nproc-per-node 2 --shard zero3' '--nproc-per-node 2 --tp-size 2' \
    '--nproc-per-node 2 --tp-size 2 --sequence-parallel no' '--nproc-per-node 2 --pp-size 2 --num-microbatches 4' \
    '--nproc-per-node 2 --cp-size 2' '--nproc-per-node 2 --cp-size 2 --cp-mode ring' '--recompute full' \
    '--num-microbatches 4'; do
    # shellcheck disable=SC2086
    run "${few[@]}" mesh $how
    expect_code 0
    losses_near few mesh 1e-5 "$how has the losses of one rank"
    rm -rf mesh
done
plan='fusion.layer.*.attention.qkv=colwise,fusion.layer.*.attention.output=rowwise'
plan+=',fusion.layer.*.feed_forward.inner=colwise,fusion.layer.*.feed_forward.outer=rowwise'
run "${few[@]}" mesh --nproc-per-node 2 --tp-size 2 --tp-plan "$plan"
expect_code 0
losses_near few mesh 1e-5 "ranks that share heads have the losses of one rank"
run "${few[@]}" cut --nproc-per-node 2 --pp-size 2 \
    --stages 'primary secondary tabular fusion.layer.0,fusion.layer.1 fusion.head'
[ $code = 0 ] || fail "a cut between the fusion's layers"
losses_near few cut 1e-5 "stages cut between the fusion's layers"
run "${few[@]}" half --until-epoch 1 --max-steps 20
run "${few[@]}" half --max-steps 20
run "${few[@]}" whole --max-steps 20
losses_near whole half 0 "a run that was resumed has the same losses"
for bits in '--precision bf16' '--precision fp16' '--quantize int8'; do
    # shellcheck disable=SC2086
    run "${few[@]}" bits $bits
    expect_code 0
    losses_near few bits 0.02 "$bits"
    rm -rf bits
done

# One answer for a row, whatever it is batched with; an export; the server.
run predict --checkpoint config --data-path data/test.csv -o one.csv --quiet
expect_code 0
for how in '--batch-size 7' '--nproc-per-node 2' '--nproc-per-node 2 --pp-size 2'; do
    # shellcheck disable=SC2086
    run predict --checkpoint config --data-path data/test.csv -o other.csv --force --quiet $how
    expect "predict $how: the same bits" cmp one.csv other.csv
done
run export --checkpoint config --output-dir exported --quiet
expect_text exported/config.json '"fusion": "columns"' '"fusion_layers": 2' '"fusion_heads": 4'
run predict --checkpoint exported --data-path data/test.csv -o other.csv --force --quiet
expect "an export predicts the same" cmp one.csv other.csv
run quantize --checkpoint config --data-path data/valid.csv -o int8 --quiet
expect_code 0
run predict --checkpoint int8 --data-path data/test.csv --quiet
expect_code 0

# What is attended to: each of two texts and four columns has a share of each row; of columns the one that the text
# names has the most, where a single layer has to find it.
run train "${common[@]}" --fusion-layers 1 --output-dir single
run explain --checkpoint single --data-path data/test.csv --rows 20 -o why.jsonl --quiet
expect_code 0
shares=$(grep -o '"attention":[0-9.e-]*' why.jsonl | awk -F: '{ n++; sum += $2 } END { print n, sum }')
expect "six inputs of 20 rows share it: $shares" is "${shares#120 }" '>' 19.9999
expect "attention sums to 1: $shares" is "${shares#120 }" '<' 20.0001
named=$(awk '{ sub(/.*"input":"note"/, ""); n = split($0, part, "\"input\":\""); best = ""; most = 0
    for (i = 2; i <= n; i++) { share = part[i]; sub(/.*"attention":/, "", share); share += 0
        if (share > most) { most = share; best = part[i]; sub(/".*/, "", best) } }
    good += index($0, "\"word\":\"" best "\"") > 0 } END { print good }' why.jsonl)
expect "the column that the text names gets most in $named of 20 rows" is "$named" '>=' 15
run explain --checkpoint single --data-path data/test.csv --rows 2
expect_text "$out" "(attention 0."
run explain --checkpoint single --data-path data/test.csv --rows 2 -o why.html --quiet
expect_text why.html '"attention"'
run explain --checkpoint concat --data-path data/test.csv --rows 2 --json --quiet
expect "concat attends to nothing" bash -c "! grep -q attention '$out'"

# Plans; one token, two.
run plan --config config.json --params
expect_text "$out" fusion.layer.1.attention.query.weight fusion.layer.0.feed_forward.inner.weight fusion.norm.weight
expect "columns have no dense layer" bash -c "! grep -q tabular.linear '$out'"
for mesh in '--world-size 8 --pp-size 2 --tp-size 2' '--world-size 4 --cp-size 2 --shard zero2' \
    '--world-size 2 --precision bf16 --shard zero3 --offload optimizer'; do
    # shellcheck disable=SC2086
    run plan --config config.json --data-path data $mesh --check
    expect_code 0
done
run plan --config config.json --data-path data --print-program 0
expect_text "$out" "[N*6,32]"
cp "$out" program.txt
run check program.txt
expect_code 0
sed 's/\[N\*6,/[N*0,/' program.txt >broken.txt
refuses 65 "expected [rows,cols]" -- check broken.txt
run simulate --config config.json --hardware h200x8 --world-size 8 --precision bf16 --quiet
expect_code 0
run choose --config config.json --world-size 4 --hardware h200x8 --quiet
expect_code 0
make_config text.json "${keys[@]}" '"fusion": "columns"' '"tab_field_list": []'
sed -i '/secondary_/d' text.json
make_config column.json "${keys[@]}" '"fusion": "columns"' '"tab_field_list": ["size"]'
for form in text column; do
    run "${few[@]}" small --config $form.json --resume never
    expect_code 0
done

# Bad input.
rejects 2 "${few[@]}" bad --fusion-heads 5
rejects 2 "${few[@]}" bad --fusion-layers 0
rejects 2 "${few[@]}" bad --hidden-common-dim 2048
rejects 2 "${few[@]}" few --fusion-layers 3
rejects 2 "${few[@]}" bad --nproc-per-node 2 --tp-size 2 --tp-plan 'fusion.layer.0.attention.query=colwise'

# The server answers with what predict says.
run doctor
grep -q '^http *yes' "$out" || finish
"$trident" serve config --port 0 --max-rows 200 >serve.out 2>serve.err &
server=$!
for ((left = 400; left > 0; left--)); do grep -q try: serve.out && break || sleep 0.05; done
port=$(sed -n '1s/.* at https\{0,1\}:\/\/127.0.0.1:\([0-9]*\); try: .*/\1/p' serve.out)
body=$(cut -d, -f1-6 data/test.csv)
exec 5<>"/dev/tcp/127.0.0.1/$port"
printf 'POST /invocations HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: text/csv\r\n' >&5
printf 'Content-Length: %d\r\n\r\n%s' "${#body}" "$body" >&5
sed '1,/^\r*$/d' <&5 >answers.csv
exec 5<&- 5>&-
expect "text/csv equals predict" cmp -s answers.csv one.csv
kill "$server" && wait "$server"
finish
