# Several labels of a row (docs/guide/multilabel.md): inspect recognises cells of them; figures, thresholds; the same
# losses on meshes, after a resume, with fewer bits; columns of 0 and 1; eval, predict, export and the server; what is
# refused.
. "$(dirname "$0")/../lib/cli_lib.sh"
make_model model
# make_tags FILE ROWS FIRST: each word of three says whether a label is there; a row may have none.
make_tags() {
    awk -v rows="$2" -v first="$3" 'BEGIN {
        print "text,weight,tags,box,good,late"
        for (i = first; i < first + rows; i++) {
            a = i % 2; b = int(i / 2) % 3 == 0; c = (i * 7 + int(i / 5)) % 5 < 2
            tags = (a ? "box;" : "") (b ? "good;" : "") (c ? "late;" : "")
            sub(/;$/, "", tags)
            printf "the %s was %s and %s,%d,%s,%d,%d,%d\n", a ? "box" : "f", b ? "good" : "bad", c ? "late" : "early",
                i % 17, tags, a, b, c
        }
    }' >"$1"
}
mkdir -p tags
make_tags tags/train.csv 320 0
make_tags tags/valid.csv 64 320
make_tags tags/test.csv 200 384

run inspect tags --tokenizer model --write-config tags.json --label-name tags --primary-text-name text
expect_code 0
expect_text tags.json '"task": "multilabel"' '"num_classes": 3' '"label_separator": ";"' 'hold several'
run inspect tags --label-name tags --primary-text-name text
expect_text "$out" 'hold several of 3 labels, with ";" between them'
cat >config.json <<END
{"task": "multilabel", "label_name": "tags", "primary_text_name": "text", "tab_field_list": ["weight"],
 "primary_tokenizer": "$work/model", "num_classes": 3, "is_binary": false, "max_sen_len": 16, "hidden_common_dim": 32,
 "fusion_hidden_dim": 32, "primary_encoder": {"model_type": "bert", "hidden_size": 32, "num_hidden_layers": 2,
 "num_attention_heads": 2, "intermediate_size": 64, "max_position_embeddings": 32}}
END
common=(--config config.json --data-path tags --global-batch-size 16 --epochs 8 --lr 3e-3 --threads 1 --pooling mean)

run train "${common[@]}" --output-dir one
expect_code 0
expect_text one/metrics.jsonl '"f1_micro":' '"f1_macro":' '"f1_samples":' '"lrap":' '"accuracy":' '"roc_auc":'
run eval --checkpoint one --data-path tags/test.csv --json
expect_code 0
expect "it learned: micro F1 $(json_number f1_micro "$out")" is "$(json_number f1_micro "$out")" '>' 0.9
expect "LRAP $(json_number lrap "$out")" is "$(json_number lrap "$out")" '>' 0.9
expect_text "$out" '"chosen_for":"f1"' '"thresholds":'
run eval --checkpoint one --data-path tags/test.csv
expect_code 0
expect_text "$out" "f1_samples" "lrap" "precision" "late" "its own threshold"

# The same losses on every mesh, and resumed.
few=("${common[@]}" --max-steps 12 --lr 1e-4 --quiet --output-dir)
run train "${few[@]}" few
expect_code 0
for how in '--nproc-per-node 2' '--nproc-per-node 2 --shard zero3' '--nproc-per-node 2 --tp-size 2' \
    '--nproc-per-node 2 --pp-size 2 --num-microbatches 4' '--num-microbatches 4'; do
    # shellcheck disable=SC2086
    run train "${few[@]}" mesh $how
    expect_code 0
    losses_near few mesh 1e-5 "$how has the losses of one rank"
    rm -rf mesh
done
run train "${common[@]}" --output-dir half --quiet --until-epoch 4
run train "${common[@]}" --output-dir half --quiet
expect_code 0
losses_near one half 0 "a run that was resumed has the same losses"
run train "${few[@]}" bits --precision bf16
expect_code 0

# Columns of 0 and 1: the same targets, so the same losses; missing ones are left out.
run train "${few[@]}" columns --label-name late,good,box
expect_code 0
run train "${few[@]}" listed --label-list late,good,box
expect_code 0
losses_near columns listed 0 "columns and cells have the same losses"
run eval --checkpoint columns --data-path tags/test.csv --json
expect_code 0
expect_text "$out" '"thresholds":' '"labels":{"late":'
run predict --checkpoint columns --data-path tags/test.csv -o columns.csv --quiet
run predict --checkpoint listed --data-path tags/test.csv -o listed.csv --quiet
expect "and the same answers" cmp columns.csv listed.csv
run inspect tags --tokenizer model --write-config columns.json --task multilabel --label-name late,good,box
expect_code 0
expect_text columns.json '"label_name": "late,good,box"' '"num_classes": 3' 'a column of 0 and 1'
expect "labels are not numbers to learn from" bash -c "! grep -A3 tab_field_list columns.json | grep -q good"
mkdir holes && awk -F, -v OFS=, 'NR % 5 == 2 { $5 = "" } NR == 3 { $4 = "true" } 1' tags/train.csv >holes/train.csv
cp tags/valid.csv holes
run train "${few[@]}" partly --data-path holes --label-name late,good,box
expect_code 0
run train "${common[@]}" --output-dir loud --data-path holes --label-name late,good,box --max-steps 1
expect_text "$err" "64 missing values are left out of the loss"
run train "${common[@]}" --output-dir weighed --quiet --class-weights balanced --max-steps 12
expect_code 0
run train "${few[@]}" heavy --class-weights 2,1,0.5
run train "${few[@]}" heavy-2 --class-weights 2,1,0.5 --nproc-per-node 2
losses_near heavy heavy-2 1e-5 "weights of labels have the losses of one rank"
run train "${common[@]}" --output-dir best --quiet --best-by f1_samples --seeds 2 --epochs 2
expect_code 0
run train "${common[@]}" --output-dir folds --quiet --data-path tags/train.csv --folds 2 --epochs 1
expect_code 0

# predict, its forms, an export, an ensemble.
run predict --checkpoint one --data-path tags/test.csv -o out.csv --quiet --keep tags
expect_code 0
expect "columns" test "$(head -n 1 out.csv)" = "tags,labels,prob_box,prob_good,prob_late"
awk -F, 'NR > 1 { split("", has); n = split($1, a, ";"); for (i = 1; i <= n; i++) has[a[i]] = 1
    m = split($2, b, ";"); same = n == m; for (i = 1; i <= m; i++) same = same && has[b[i]]; good += same }
    END { exit !(good > 150) }' out.csv
expect "labels are found" test $? = 0
run predict --checkpoint one --data-path tags/test.csv --json --quiet
expect_text "$out" '"labels":' '"probabilities":{"box":'
run predict --checkpoint one --data-path tags/test.csv --threshold 0 -o all.csv --quiet
expect "from 0 on all labels are there" bash -c "! sed 1d all.csv | grep -qv '^box;good;late,'"
run predict --checkpoint one --data-path tags/test.csv --threshold 1 -o none.csv --quiet
expect "at 1 none is" bash -c "! sed 1d none.csv | grep -qv '^,'"
run export --checkpoint one --output-dir exported --quiet
run predict --checkpoint exported --data-path tags/test.csv -o exported.csv --quiet --keep tags
expect "an export predicts the same" cmp out.csv exported.csv
run predict --checkpoint best --data-path tags/test.csv -o both.csv --quiet
expect_code 0
run predict --checkpoint one --data-path tags/test.csv --nproc-per-node 2 -o two.csv --quiet --keep tags
expect_code 0

# By group; an ensemble: figures of the mean of its members; rows whose labels are close to their thresholds.
run eval --checkpoint one --data-path tags/test.csv --by box --json --bootstrap 50
expect_code 0
expect_text "$out" '"by":[{"column":"box"' '"worst":{"f1_micro"' '"accuracy":1.0,"intervals":{"resamples":50'
cp "$out" by.json
{ head -n 1 tags/test.csv; awk -F, '$4 == 1' tags/test.csv; } >boxes.csv
run eval --checkpoint one --data-path boxes.csv --json --bootstrap 50
expect "a group has the figures of its rows alone" bash -c "grep -o '\"group\":\"1\".*' by.json |
    grep -q 'f1_micro\":$(json_number f1_micro "$out"),\"f1_macro\":$(json_number f1_macro "$out"),'"
run eval --checkpoint one --data-path tags/test.csv --by box,late --bootstrap 50
expect_text "$out" "f1_micro" "worst late" "interval excludes (all)" "(all)"
run eval --checkpoint best --data-path tags/test.csv --json --by box --bootstrap 50
expect_code 0
expect_text "$out" '"members":[' '"by":[' '"lrap":[0.9'
both=$(json_number f1_samples "$out")
mine=$(awk -F, 'FNR == NR { truth[FNR] = $3; next } FNR > 1 { delete has; n = split(truth[FNR], a, ";"); hits = 0
    for (i = 1; i <= n; i++) has[a[i]] = 1
    m = split($1, b, ";"); for (i = 1; i <= m; i++) hits += has[b[i]]
    sum += n + m ? 2 * hits / (n + m) : 0; rows++ } END { printf "%.9f", sum / rows }' tags/test.csv both.csv)
expect "F1 of the mean, $both, is that of predict's labels, $mine" is \
    "$(awk -v a="$both" -v b="$mine" 'BEGIN { print (a > b ? a - b : b - a) }')" '<' 1e-6
run predict --checkpoint one --data-path tags/test.csv --uncertain 3 --quiet
expect_code 0
expect "three rows" test "$(wc -l <"$out")" = 4
run explain --checkpoint one --data-path tags/test.csv --rows 1 --json
expect_code 0
expect_text "$out" '"label":"' '"explained":"' '"probabilities":{"box"'
run explain --checkpoint one --data-path tags/test.csv --rows 2 --label late
expect_text "$out" "row 1: late, probability"
rejects 2 explain --checkpoint one --data-path tags/test.csv --label lat

# In int8 the drop of micro F1 and LRAP is kept, and the folder is a model like any other.
run quantize one --data-path tags/valid.csv -o small --max-drop 0.05
expect_code 0
expect_text "$out" "micro F1" "LRAP" "layers in int8"
run eval --checkpoint small --data-path tags/test.csv --json
expect_code 0
expect "it is as good: $(json_number f1_micro "$out")" is "$(json_number f1_micro "$out")" '>' 0.9

# Refused.
rejects 2 train "${common[@]}" --output-dir no --loss squared
rejects 2 train "${common[@]}" --output-dir no --best-by rmse
rejects 2 train "${common[@]}" --output-dir no --label-smoothing 0.1
rejects 2 train "${common[@]}" --output-dir no --split 0.8,0.2 --stratify
rejects 2 train "${common[@]}" --output-dir no --positive-label box
rejects 2 train "${common[@]}" --output-dir no --target-transform log
rejects 2 train "${common[@]}" --output-dir no --label-separator ''
rejects 2 train "${common[@]}" --output-dir no --threshold 0.5
rejects 2 train "${common[@]}" --output-dir no --label-name box,good --label-list box,good
rejects 2 train "${common[@]}" --output-dir no --label-name box,weight
rejects 2 train "${common[@]}" --output-dir no --label-name 'box, weight'
rejects 2 train "${common[@]}" --output-dir no --label-name box,good --label-separator '|'
rejects 2 train "${common[@]}" --output-dir no --task classification --label-separator '|'
rejects 2 train "${common[@]}" --output-dir no --label-name box,
rejects 2 train "${common[@]}" --output-dir no --label-name 'box,good, box'
rejects 2 predict --checkpoint one --data-path tags/test.csv --top-k 2
rejects 2 predict --checkpoint one --data-path tags/test.csv --threshold f1
rejects 2 explain --checkpoint one --data-path tags/test.csv --importance
rejects 65 train "${common[@]}" --output-dir no --num-classes 4
mkdir bad && cp tags/train.csv bad && sed '5s/,[^,]*\(,[01],[01],[01]\)$/,box;music\1/' tags/valid.csv >bad/valid.csv
rejects 65 train "${common[@]}" --output-dir no --data-path bad
run train "${common[@]}" --output-dir skipped --data-path bad --bad-rows skip --max-steps 1 --quiet
expect_code 0
sed '4s/[01]$/2/' tags/train.csv >bad/train.csv
rejects 65 train "${common[@]}" --output-dir no --data-path bad --label-name box,late
echo '{"text": "the box", "weight": 1, "tags": ["box", "good"]}' >list.jsonl
rejects 65 eval --checkpoint one --data-path list.jsonl

# The server.
run doctor
grep -q '^http *yes' "$out" || finish
"$trident" serve one --port 0 --max-rows 200 >serve.out 2>serve.err &
server=$!
for ((left = 400; left > 0; left--)); do grep -q try: serve.out && break || sleep 0.05; done
port=$(sed -n '1s/.* at https\{0,1\}:\/\/127.0.0.1:\([0-9]*\); try: .*/\1/p' serve.out)
ask() { # PATH BODY [TYPE]: the answer in $out
    last_command="POST $1 ${2:0:100}"
    exec 5<>"/dev/tcp/127.0.0.1/$port" || return 1
    printf 'POST %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: %s\r\n' "$1" \
        "${3-application/json}" >&5
    printf 'Content-Length: %d\r\n\r\n%s' "${#2}" "$2" >&5
    sed '1,/^\r*$/d' <&5 >"$out"
    exec 5<&- 5>&-
}
ask /invocations "$(cut -d, -f1,2 tags/test.csv)" text/csv
cut -d, -f2- out.csv >want.csv
expect "text/csv equals predict" cmp -s "$out" want.csv
ask /predict '{"inputs": [{"text": "the box was good and early", "weight": 3}]}'
expect_text "$out" '"label":"box"' '"label":"late"' '"score":'
ask /v2/models/one/infer '{"inputs": [{"name": "text", "datatype": "BYTES", "shape": [1], "data":
    ["the box was good and early"]}, {"name": "weight", "datatype": "FP64", "shape": [1], "data": [3]}]}'
expect_text "$out" '"data":["box;good"]' '"name":"probabilities"' '"shape":[1,3]'
kill "$server" && wait "$server"
finish
