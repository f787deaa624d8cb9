# Stacked heads (docs/guide/stacking.md): train --stack for classes and a number, with and without libxgboost; eval,
# predict, serve, explain, export and quantised folders answer alike; a second call; one table; what is refused.
. "$(dirname "$0")/../lib/cli_lib.sh"
make_all
train=(train --config config.json --data-path data --batch-size 16 --epochs 2 --seed 1 --threads 1 --quiet
    --save-steps 3)
answers() { cut -d, -f 1-"$1" "$2"; }

# A folder before the system's, whose libxgboost does not load.
mkdir none && echo no library >none/libxgboost.so && cp none/libxgboost.so none/libxgboost.so.0
without() { LD_LIBRARY_PATH=$work/none run "$@"; }

run doctor
grep -q '^http *yes' "$out" && serves=1 || serves=
grep -q '^xgboost *yes' "$out" && boosts=1 || boosts=
# served MODEL WANT TABLE: a server's answers to the rows are those of predict.
served() {
    [ -n "$serves" ] || return
    "$trident" serve "$1" --port 0 --max-rows 300 >serve.out 2>serve.err &
    local server=$! left port body
    for ((left = 400; left > 0; left--)); do grep -q try: serve.out && break || sleep 0.05; done
    port=$(sed -n '1s/.* at https\{0,1\}:\/\/127.0.0.1:\([0-9]*\); try: .*/\1/p' serve.out)
    body=$(cat "$3")
    exec 5<>"/dev/tcp/127.0.0.1/$port" || return
    printf 'POST /invocations HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: text/csv\r\n' >&5
    printf 'Content-Length: %d\r\n\r\n%s' "${#body}" "$body" >&5
    sed '1,/^\r*$/d' <&5 >served.csv
    exec 5<&- 5>&-
    expect "the server of $1 answers alike" cmp served.csv "$2"
    kill "$server" && wait "$server"
}

# ---- Linear heads need no library ----
without "${train[@]}" --output-dir linear --stack auto --folds 3
expect_code 0
expect_text "$err" "--stack auto compares linear heads only: boosted trees need libxgboost.so"
expect_text "$out" "validation loss" "linear" "(taken)" "what eval, predict, serve and export take"
expect "trees were not compared" bash -c "! grep -q trees '$out'"
stacked=linear/$(basename "$(dirname linear/checkpoint-*/stack.json)")
expect "the head is listed" grep -q '"name": "stack.json"' "$stacked/manifest.json"
expect_text linear/stack/summary.json '"chosen": "linear"' '"trees": null' '"folds": 3' '"training": 96' \
    '"validation": 32'
run checkpoint verify linear
expect_code 0
run eval --checkpoint linear --data-path data/valid.csv --json --quiet
expect_code 0
expect "eval has the loss that it was taken for" \
    test "$(json_number loss "$out")" = "$(json_number linear linear/stack/summary.json)"
expect "the words decide: $(json_number accuracy "$out")" is "$(json_number accuracy "$out")" '>=' 0.95

# The encoder alone, of the same run: its folder without the head.
cp -r linear plain
run "${train[@]}" --output-dir alone
expect_code 0
expect "the run beside the folds is a run without --stack" \
    test "$("$trident" digest linear)" = "$("$trident" digest alone)"

# ---- All that opens a model answers with the head ----
run predict --checkpoint linear --data-path data/test.csv --quiet -o head.csv
expect_code 0
run predict --checkpoint alone --data-path data/test.csv --quiet -o alone.csv
expect "the head changes answers" bash -c '! cmp -s head.csv alone.csv'
run predict --checkpoint linear --data-path data/test.csv --quiet --nproc-per-node 2 -o ranks.csv
expect_code 0
expect "two ranks answer alike" cmp head.csv ranks.csv
run export --checkpoint linear --output-dir exported
expect_code 0
run predict --checkpoint exported --data-path data/test.csv --quiet -o exported.csv
expect "an export answers alike" cmp head.csv exported.csv
run quantize --checkpoint linear -o int8 --data-path data/valid.csv --max-drop 1 --quiet
expect_code 0
expect "a quantised folder has the head" cmp -s int8/stack.json "$stacked/stack.json"
run predict --checkpoint int8 --data-path data/test.csv --quiet
expect_code 0
expect "and labels alike" cmp <(answers 1 head.csv) <(answers 1 "$out")
run explain --checkpoint linear --data-path data/test.csv --json --quiet
expect_code 0
expect "explain's labels are predict's" test \
    "$(sed 's/.*"label":"\([^"]*\)".*/\1/' "$out" | tr '\n' ' ')" = "$(tail -n +2 head.csv | answers 1 - | tr '\n' ' ')"
served linear head.csv data/test.csv
cp -r "$stacked" damaged && sed -i 's/"terms"/"tErms"/' damaged/stack.json
refuses 65 "stack.json is damaged" -- predict --checkpoint damaged --data-path data/test.csv

# ---- A second call: finished runs stay, the head is made again with the same bits; also of an interrupted one ----
cp "$stacked/stack.json" first.json
rm -r linear/stack/fold-2 linear/stack/fold-3/summary.json linear/stack/fold-3/checkpoint-*
without "${train[@]}" --output-dir linear --stack linear --folds 3
expect_code 0
expect "the same head" cmp first.json "$stacked/stack.json"

# ---- A number; trees, where they can be trained ----
mkdir prices
for part in train valid test; do
    awk -F, -v OFS=, 'NR == 1 { print "text,track,size,weight,price" }
        NR > 1 { $NF = 10 + 3 * $(NF - 2) * $NF + $(NF - 1); print }' data/$part.csv >prices/$part.csv
done
make_config prices.json '"task": "regression"' '"label_name": "price"'
sed -i '/is_binary\|num_classes/d' prices.json
number=(train --config prices.json --data-path prices --batch-size 16 --epochs 2 --seed 1 --threads 1 --quiet)
kinds=linear
[ -z "$boosts" ] || kinds="linear trees"
for kind in $kinds; do
    run "${number[@]}" --output-dir "$kind-number" --stack $kind --folds 2
    expect_code 0
    expect "$kind: a head was taken" grep -q "\"chosen\": \"$kind\"" "$kind-number/stack/summary.json"
    run predict --checkpoint "$kind-number" --data-path prices/test.csv --quiet -o "$kind.csv"
    expect_text "$kind.csv" "prediction,low,high"
    served "$kind-number" "$kind.csv" prices/test.csv
    run eval --checkpoint "$kind-number" --data-path prices/test.csv --json --quiet
    expect "$kind: it learned: R2 $(json_number r2 "$out")" is "$(json_number r2 "$out")" '>' 0.7
done
if [ -n "$boosts" ]; then
    run "${train[@]}" --output-dir linear --stack trees --folds 3 --json
    expect_code 0
    expect_text "$out" '"chosen":"trees"' '"linear":null'
    expect_text "$stacked/stack.json" '"xgboost": "' '"gbtree"'
    without predict --checkpoint linear --data-path data/test.csv --quiet -o boosted.csv
    expect_code 0
    served linear boosted.csv data/test.csv
    cp "$stacked/stack.json" first.json
    run "${train[@]}" --output-dir linear --stack trees --folds 3 --threads 2
    expect "the same trees with other threads" cmp first.json "$stacked/stack.json"
fi

# ---- One table: folds of the split's training rows ----
{ cat data/train.csv && tail -n +2 data/valid.csv && tail -n +2 data/test.csv; } >all.csv
split=("${train[@]}" --data-path all.csv --split 0.6,0.2,0.2 --stratify)
without "${split[@]}" --output-dir one --stack linear --folds 2
expect_code 0
expect_text one/stack/summary.json '"training": 101' '"validation": 34'
run eval --checkpoint one --data-path all.csv --part test --json --quiet
expect_code 0
expect "and it is good on rows kept for a test" is "$(json_number accuracy "$out")" '>=' 0.9
for fold in 1 2; do
    cut -d, -f 1 one/stack/fold-$fold/validation-last.csv | tail -n +2
done | sort >rows
expect "each training row is in one fold" test "$(uniq rows | wc -l)/$(wc -l <rows)" = 101/101
expect "and no validation row is in any" \
    test -z "$(cut -d, -f 1 one/validation-last.csv | tail -n +2 | sort | comm -12 - rows)"

# ---- Where no head is better, the model stays as it is ----
run "${train[@]}" --output-dir good --stack linear --folds 2 --stratify --best-by accuracy --epochs 12 --lr 5e-3
expect_code 0
expect_text good/stack/summary.json '"chosen": "encoder"' '"encoder": 1.0'
expect "there is no head" bash -c "! ls good/checkpoint-*/stack.json 2>/dev/null"

# ---- What cannot be done is said ----
without "${train[@]}" --output-dir x --stack trees --folds 2 --epochs 1
expect_code 2
expect_text "$err" "apt-get install libxgboost-dev"
rejects 2 "${train[@]}" --output-dir y --stack auto --fold 1 --folds 2
rejects 2 "${train[@]}" --output-dir y --stack auto --seeds 2
rejects 2 "${train[@]}" --output-dir y --stack auto --save-every 0 --save-steps 0
rejects 2 "${train[@]}" --output-dir y --stack auto --resume linear
rejects 2 "${train[@]}" --output-dir y --stack auto --data-path all.csv
rejects 2 "${number[@]}" --output-dir y --stack auto --task quantiles
rejects 2 "${number[@]}" --output-dir y --stack auto --task multilabel
rejects 2 "${number[@]}" --output-dir y --stack auto --loss poisson
echo '{"lr": [1e-3]}' >space.json
rejects 2 sweep "${train[@]:1}" --output-dir y --space space.json --stack auto
finish
