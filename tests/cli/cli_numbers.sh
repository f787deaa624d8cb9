# Numbers as what is learned (docs/guide/numbers.md): inspect recognises them; losses, figures, intervals; the same
# losses on meshes, after a resume, with fewer bits; eval, predict, export and the server; what is refused.
. "$(dirname "$0")/../lib/cli_lib.sh"
make_model model
# make_prices FILE ROWS FIRST: a price that a word, the weight and some noise make.
make_prices() {
    awk -v rows="$2" -v first="$3" 'BEGIN {
        print "text,weight,price"
        for (i = first; i < first + rows; i++) {
            good = (i * 7 + int(i / 3)) % 2; weight = i * 13 % 50
            noise = (i * 7919 % 1000) / 500 - 1
            printf "the box was %s,%d,%.2f\n", good ? "good" : "bad", weight, 100 + 40 * good + 2 * weight + 3 * noise
        }
    }' >"$1"
}
mkdir -p prices
make_prices prices/train.csv 256 0
make_prices prices/valid.csv 64 256
make_prices prices/test.csv 200 320

run inspect prices --tokenizer model --write-config prices.json --label-name price
expect_code 0
expect_text prices.json '"task": "regression"' 'different numbers'
run inspect prices --label-name price
expect_text "$out" "label, numbers:" "train   256  161.88     34.663"
expect "no row a class" bash -c "! grep -q 'classes in all\|which train does not have' '$out'"
expect "classes are not counted" bash -c "! grep -q num_classes prices.json"
sed -i "/\"batch_size\"/d" prices.json
common=(--config prices.json --data-path prices --global-batch-size 16 --epochs 6 --lr 3e-3 --threads 1 --pooling mean
    --tiny)

run train "${common[@]}" --output-dir one
expect_code 0
expect_text one/metrics.jsonl '"r2":' '"rmse":' '"mae":' '"median_error":'
expect "no figures of classes" bash -c "! grep -q '\"accuracy\"' one/metrics.jsonl"
run eval --checkpoint one --data-path prices/test.csv --json
expect_code 0
expect "it learned: R2 $(json_number r2 "$out")" is "$(json_number r2 "$out")" '>' 0.7
expect "intervals hold: $(json_number inside "$out")" is "$(json_number inside "$out")" '>' 0.8
expect "and are not all there is" is "$(json_number inside "$out")" '<' 1
run eval --checkpoint one --data-path prices/test.csv
expect_code 0
expect_text "$out" "r2" "rmse" "mae" "median_error" "promise 90 %"

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
for loss in absolute huber poisson; do
    transform=standard
    [ $loss = poisson ] && transform=log # targets above 0
    run train "${few[@]}" $loss --loss $loss --target-transform $transform --precision bf16
    expect_code 0
    run train "${few[@]}" $loss-2 --loss $loss --target-transform $transform --nproc-per-node 2
    expect_code 0
done
run train "${common[@]}" --output-dir half --quiet --until-epoch 3
run train "${common[@]}" --output-dir half --quiet
expect_code 0
losses_near one half 0 "a run that was resumed has the same losses"
run train "${few[@]}" best --best-by rmse --seeds 2
expect_code 0

# Quantiles.
run train "${common[@]}" --output-dir levels --quiet --task quantiles --quantiles 0.1,0.5,0.9
expect_code 0
expect_text levels/metrics.jsonl '"pinball":' '"coverage":'
run predict --checkpoint levels --data-path prices/test.csv -o levels.csv --quiet
expect_code 0
expect "columns" test "$(head -n 1 levels.csv)" = "prediction,q0.1,q0.5,q0.9,low,high"
expect "quantiles are in order" awk -F, 'NR > 1 && ($2 > $3 || $3 > $4 || $1 != $3) { exit 1 }' levels.csv

# predict, its forms, an export, other transforms.
run predict --checkpoint one --data-path prices/test.csv -o out.csv --quiet --keep price
expect_code 0
expect "columns" test "$(head -n 1 out.csv)" = "price,prediction,low,high"
expect "the interval is around it" awk -F, 'NR > 1 && ($3 >= $2 || $4 <= $2) { exit 1 }' out.csv
run predict --checkpoint one --data-path prices/test.csv --interval 0 --quiet
expect "no interval" test "$(head -n 1 "$out")" = prediction
run predict --checkpoint one --data-path prices/test.csv --json --quiet
expect_text "$out" '{"prediction":' '"low":' '"high":'
run export --checkpoint one --output-dir exported --quiet
run predict --checkpoint exported --data-path prices/test.csv -o exported.csv --quiet --keep price
expect "an export predicts the same" cmp out.csv exported.csv
run predict --checkpoint best --data-path prices/test.csv -o both.csv --quiet
expect_code 0
for transform in log quantile_normal none; do
    run train "${few[@]}" "by-$transform" --target-transform $transform
    expect_code 0
    run predict --checkpoint "by-$transform" --data-path prices/test.csv -o "by-$transform.csv" --quiet
    expect_code 0
done

# What moves a number: the prediction less that without an input; figures that get worse; a training without each input.
run explain --checkpoint one --data-path prices/test.csv --rows 1 --json
expect_code 0
whole=$(json_number number "$out") effect=$(sed 's/.*"value":"[0-9]*","effect":\([-0-9.e]*\).*/\1/' "$out")
{ head -n 1 prices/test.csv; sed -n 2p prices/test.csv | sed 's/,[0-9]*,/,,/'; } >without.csv
run predict --checkpoint one --data-path without.csv --output without.out.csv
expect_code 0
without=$(awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == "prediction") at = i } NR == 2 { print $at }' \
    without.out.csv)
expect "$whole - $without is the effect, $effect" is \
    "$(awk -v a="$whole" -v b="$without" -v c="$effect" 'BEGIN { d = a - b - c; print d < 0 ? -d : d }')" '<' 1e-3
run explain --checkpoint one --data-path prices/test.csv --rows 1 --label high
expect_code 0
expect_text "$out" "row 1: high "
run eval --checkpoint one --data-path prices/test.csv --json
rmse=$(json_number rmse "$out")
run explain --checkpoint one --data-path prices/test.csv --importance --rows 200 --repeats 1 --json
expect_code 0
expect "its RMSE, $(json_number rmse "$out"), is that of eval, $rmse" is \
    "$(awk -v a="$rmse" -v b="$(json_number rmse "$out")" 'BEGIN { d = (a - b) / a; print d < 0 ? -d : d }')" '<' 1e-5
run explain --checkpoint one --data-path prices/test.csv --importance --retrain --max-steps 4 --quiet
expect_code 0
expect_text "$out" "input permuted" "trained without" "RMSE" "R2" "MAE" "text was not left out of training"
run explain --checkpoint one --data-path prices/test.csv --rows 2 -o why.html
expect_code 0

# By group; an ensemble: figures of the mean of its members' answers; rows whose quantiles are furthest apart.
run eval --checkpoint levels --data-path prices/test.csv --by text --json --bootstrap 50
expect_code 0
expect_text "$out" '"by":[{"column":"text"' '"coverage":' '"worst":{"r2"'
cp "$out" by.json
{ head -n 1 prices/test.csv; grep bad prices/test.csv; } >bad.csv
run eval --checkpoint levels --data-path bad.csv --json --bootstrap 50
expect "a group has the figures of its rows alone" bash -c "grep -o '\"group\":\"the box was bad\".*' by.json |
    grep -q '\"rmse\":$(json_number rmse "$out"),\"mae\":$(json_number mae "$out"),\"coverage\":$(json_number \
    inside "$out"),'"
run eval --checkpoint one --data-path prices/test.csv --by weight --bootstrap 50
expect_text "$out" "rmse" "coverage" "worst weight" "above "
run eval --checkpoint best --data-path prices/test.csv --json --by text --bootstrap 0
expect_code 0
expect_text "$out" '"members":[' '"by":[' '"interval":{"promised":0.9'
run eval --checkpoint best --data-path prices/test.csv
expect_text "$out" "mean of all" "promise 90 %"
run eval --checkpoint best --data-path prices/test.csv --json
mean=$(json_number rmse "$out")
run predict --checkpoint best --data-path prices/test.csv -o kept.csv --quiet --keep price
mine=$(awk -F, 'NR > 1 { s += ($1 - $2) ^ 2 } END { print sqrt(s / (NR - 1)) }' kept.csv)
expect "RMSE of the mean, $mean, is that of predict's answers, $mine" is \
    "$(awk -v a="$mean" -v b="$mine" 'BEGIN { d = (a - b) / a; print d < 0 ? -d : d }')" '<' 1e-4
run predict --checkpoint levels --data-path prices/test.csv --uncertain 20 --quiet -o least.csv
expect_code 0
awk -F, 'FNR == NR { if (FNR > 1) { w = $4 - $2; all[FNR] = w; n++ } next }
    FNR > 1 { w = $5 - $3; if (FNR > 2 && w > was + 1e-6) bad = 1; was = w; some++ }
    END { for (i in all) more += all[i] > was + 1e-6; exit bad || some != 20 || more > 19 }' levels.csv least.csv
expect "the widest come first" test $? = 0

# In int8 the drop of R2 is kept: what the command says of its folder is what eval says.
run quantize one --data-path prices/test.csv -o small --max-drop 0.01 --json
expect_code 0
after=$(sed 's/.*"after":{"r2":\([0-9.]*\).*/\1/' "$out")
expect "a small drop: $(json_number drop "$out")" is "$(json_number drop "$out")" '<=' 0.01
run eval --checkpoint small --data-path prices/test.csv --json
expect "R2 of the folder, $(json_number r2 "$out"), is $after" is "$(json_number r2 "$out")" == "$after"
run quantize one --data-path prices/test.csv -o small-too --max-drop 0.01
expect_text "$out" "model       R2    RMSE      loss    weights" "layers in int8"

# Refused.
rejects 2 train "${common[@]}" --output-dir no --loss cross_entropy
rejects 2 train "${common[@]}" --output-dir no --loss pinball
rejects 2 train "${common[@]}" --output-dir no --best-by accuracy
rejects 2 train "${common[@]}" --output-dir no --threshold f1
rejects 2 train "${common[@]}" --output-dir no --label-smoothing 0.1
rejects 2 train "${common[@]}" --output-dir no --split 0.8,0.2 --stratify
rejects 2 train "${common[@]}" --output-dir no --class-weights balanced
rejects 2 train "${common[@]}" --output-dir no --quantiles 0.5
rejects 2 train "${common[@]}" --output-dir no --task quantiles --quantiles 0.5,0.2
rejects 2 predict --checkpoint one --data-path prices/test.csv --top-k 2
rejects 2 predict --checkpoint one --data-path prices/test.csv --uncertain 5
rejects 2 predict --checkpoint one --data-path prices/test.csv --threshold 0.5
rejects 2 explain --checkpoint one --data-path prices/test.csv --label cheap
mkdir bad && sed '5s/,[^,]*$/,much/' prices/train.csv >bad/train.csv && cp prices/valid.csv bad
rejects 65 train "${common[@]}" --output-dir no --data-path bad
sed '5s/,[^,]*$/,/' prices/train.csv >bad/train.csv
rejects 65 train "${common[@]}" --output-dir no --data-path bad
run train "${common[@]}" --output-dir skipped --data-path bad --bad-rows skip --epochs 1 --quiet
expect_code 0
sed '5s/,[^,]*$/,-2/' prices/train.csv >bad/train.csv
rejects 65 train "${common[@]}" --output-dir no --data-path bad --target-transform log
sed 's/,[^,]*$/,cheap/; 1s/cheap/price/' prices/train.csv >bad/train.csv
rejects 65 train "${common[@]}" --output-dir no --data-path bad

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
ask /invocations "$(cut -d, -f1,2 prices/test.csv)" text/csv
cut -d, -f2- out.csv >want.csv
expect "text/csv equals predict" cmp -s "$out" want.csv
ask /predict '{"inputs": [{"text": "the box was good", "weight": 3}]}'
expect_text "$out" '"prediction":' '"low":' '"high":'
ask /v2/models/one/infer '{"inputs": [{"name": "text", "datatype": "BYTES", "shape": [1], "data": ["the box was good"]},
    {"name": "weight", "datatype": "FP64", "shape": [1], "data": [3]}]}'
expect_text "$out" '"name":"numbers"' '"shape":[1,3]'
kill "$server" && wait "$server"
finish
