# A table in every format is the same table: trained on one, evaluated, predicted and served as the others, with the
# same figures to the digit. Booleans, whole numbers, decimals and decimal commas are spelt as programs spell them.
# Values that training did not have are counted and said.
golden=$(cd "$(dirname "$0")/../golden/values" && pwd)
. "$(dirname "$0")/../lib/cli_lib.sh"
make_model model
make_config config.json '"tab_field_list": ["flag", "shop", "grade", "weight"]' '"cat_field_list": ["shop", "grade"]' \
    '"secondary_text_name": ""'
sed -i '/secondary/d' config.json
cp "$golden"/* .
forms="table.parquet table.csv table.jsonl commas.csv"

# Texts have a decimal mark, which is the model's unless it is said; numbers of Parquet and JSON have none to be said.
mark() { case $1 in commas.csv) echo --decimal-mark comma ;; table.csv) echo --decimal-mark point ;; esac; }
figures() { sed 's/"seconds":[^,}]*//; s/"rows_trained_on":[^,}]*//' "$out"; }
for from in $forms; do
    run train --config config.json --data-path "$from" --output-dir "run-$from" --epochs 3 --batch-size 16 --quiet
    expect_code 0
    run digest "run-$from" --quiet
    cp "$out" "digest-$from"
    expect "$from trains as table.parquet does" cmp -s digest-table.parquet "digest-$from"
    for to in $forms; do
        run eval --checkpoint "run-$from" --data-path "$to" $(mark "$to") --json --quiet --bootstrap 0
        expect_code 0
        figures >"figures-$to"
        expect "$to by a model of $from" cmp -s figures-table.parquet "figures-$to"
        run predict --checkpoint "run-$from" --data-path "$to" $(mark "$to") --quiet
        expect_code 0
        cp "$out" "answers-$to"
        expect "$to predicted by a model of $from" cmp -s answers-table.parquet "answers-$to"
    done
done
expect_text run-table.csv/checkpoint-12/preprocessing.json '"version": 4' '"true"' '"100"'

# A table is divided into the same parts in every format, also by a column of numbers.
for from in $forms; do
    run train --config config.json --data-path "$from" --split 0.6,0.4 --group-by weight --stratify \
        --output-dir "parts-$from" --epochs 1 --batch-size 16 --quiet
    expect_code 0
    run digest "parts-$from" --quiet
    cp "$out" "parts-$from/digest"
    expect "$from is divided as table.parquet is" cmp -s parts-table.parquet/digest "parts-$from/digest"
done

# Values that training did not have: said and counted; a column of nothing else stops, unless it is allowed.
model=run-table.parquet
sed '2,9s/,100.0,/,7.0,/; 2s/True/maybe/; 3s/False/no idea/' table.csv >some.csv
sed 's/True/yes/; s/False/no/' table.csv >other.csv
for command in eval predict; do
    run $command --checkpoint $model --data-path some.csv
    expect_code 0
    warning='warning: some.csv: column'
    expect_text "$err" "$warning "'"flag": training did not have 2 of its 64 values, for example "maybe", "no idea"' \
        "$warning "'"shop": training did not have 2 of its 59 values, for example "7.0"'
    expect "$command: nothing about grades" test "$(grep -c 'column "grade"' "$err")" = 0
    rejects 65 $command --checkpoint $model --data-path other.csv --quiet
    run $command --checkpoint $model --data-path other.csv --allow-unknown
    expect_code 0
    expect_text "$err" 'column "flag": training did not have 64 of its 64 values'
    sed '2,$s/,True,\|,False,/,,/' table.csv >missing.csv # missing is not unknown
    run $command --checkpoint $model --data-path missing.csv
    expect_code 0
    expect "$command: missing values are not unknown" test "$(grep -c training.did "$err")" = 0
    for again in 1 2; do # a token store keeps the count
        run $command --checkpoint $model --data-path some.csv --cache-dir cache
        expect_code 0
        expect_text "$err" 'column "shop": training did not have 2 of its 59 values'
    done
    expect_text "$err" "from the token store"
    run $command --checkpoint $model --data-path some.csv --nproc-per-node 2
    expect_code 0
    expect "$command: said once by two ranks" test "$(grep -c 'column "shop"' "$err")" = 1
    rejects 65 $command --checkpoint $model --data-path other.csv --nproc-per-node 2 --quiet
done
run eval --checkpoint $model --data-path some.csv --json --quiet --bootstrap 0
expect_text "$out" '"unseen":[{"column":"flag","values":64,"unseen":2,"examples":["maybe","no idea"]},{"column":"shop",'
run eval --checkpoint $model --data-path table.csv --json --quiet --bootstrap 0
expect_text "$out" '"unseen":[],'
mkdir both && cp table.parquet both/train.parquet && cp some.csv both/valid.csv
run train --config config.json --data-path both --output-dir run-both --epochs 1 --max-steps 1 --batch-size 16
expect_code 0
expect_text "$err" 'warning: both/valid.csv: column "shop": training did not have 2 of its 59 values'

# Of a divided table each part counts its own rows.
awk -F, -v OFS=, 'NR > 1 { $3 = NR % 6 ? 5 : 1000 + NR } { print }' table.csv >rare.csv
run train --config config.json --data-path rare.csv --split 0.5,0.25,0.25 --stratify --output-dir run-split \
    --epochs 1 --batch-size 16
expect_code 0
expect_text "$err" 'warning: the rows for validation: column "shop": training did not have'
total=0
for part in train valid test; do
    run predict --checkpoint run-split --data-path rare.csv --part $part --keep shop --quiet
    rows=$(grep -c '^1[0-9][0-9][0-9],' "$out")
    [ $part = train ] && rows=0 # it had them
    run eval --checkpoint run-split --data-path rare.csv --part $part --json --quiet --bootstrap 0
    expect_code 0
    found=$(grep -o '"unseen":[0-9]*' "$out" | grep -o '[0-9]*')
    expect "$part: $rows rows with a shop of their own, ${found:-0} found" test "${found:-0}" = "$rows"
    total=$((total + rows))
done
expect "some rows have such a shop" test $total -gt 2

# A server answers rows in every protocol and spelling as predict answers the table, with points or commas in training.
run doctor
grep -q '^http *yes' "$out" || finish
ask() { # PATH [TYPE BODY]
    local method=GET
    [ $# = 1 ] || method=POST
    last_command="$method $*"
    exec 5<>"/dev/tcp/127.0.0.1/$port" || return 1
    {
        printf '%s %s HTTP/1.1\r\nHost: 127.0.0.1:%s\r\nConnection: close\r\n' $method "$1" "$port"
        [ $# = 1 ] || printf 'Content-Type: %s\r\nContent-Length: %d\r\n' "$2" "${#3}"
        printf '\r\n%s' "${3-}"
    } >&5
    sed '1,/^\r*$/d' <&5 >"$out"
    exec 5<&- 5>&-
}
# The label and probabilities of the second row, as /invocations writes them.
want=$(sed -n '3s/\(.*\),\(.*\),\(.*\)/{"label":"\1","probabilities":{"1":\2,"2":\3}}/p' answers-table.csv)
row='"text": "the box was good"'
for model in run-table.parquet run-commas.csv; do
    : >serve.out
    "$trident" serve m=$model --port 0 >serve.out 2>serve.err &
    server=$!
    for ((left = 400; left > 0; left--)); do grep -q try: serve.out && break || sleep 0.05; done
    port=$(sed -n '1s/.* at http:\/\/127.0.0.1:\([0-9]*\); try: .*/\1/p' serve.out)
    for values in '"flag": false, "shop": 101, "grade": 1, "weight": 0.25' \
        '"flag": "False", "shop": 101.0, "grade": 1.00, "weight": 25e-2' \
        '"flag": "FALSE", "shop": "101", "grade": "1", "weight": 0.25'; do
        ask /invocations application/jsonlines "{$row, $values}"
        expect "$model: $values: $(cat "$out")" test "$(cat "$out")" = "$want"
    done
    tensors='{"name": "text", "shape": [1], "datatype": "BYTES", "data": ["the box was good"]}'
    for one in flag:BOOL:false shop:INT64:101 grade:FP32:1.0 weight:FP64:0.25; do
        IFS=: read -r name type value <<<"$one"
        tensors+=", {\"name\": \"$name\", \"shape\": [1], \"datatype\": \"$type\", \"data\": [$value]}"
    done
    ask /v2/models/m/infer application/json "{\"inputs\": [$tensors]}"
    expect_text "$out" "\"shape\":[1,2],\"data\":[$(sed -n '3s/[^,]*,//p' answers-table.parquet)]"
    mark=$([ $model = run-commas.csv ] && echo , || echo .)
    ask /invocations text/csv "text,flag,shop,grade,weight
the box was good,False,\"101${mark}0\",\"1${mark}00\",\"0${mark}25\""
    expect "$model: CSV" test "$(cat "$out")" = "$(sed -n '1p;3p' answers-table.parquet)"
    ask /predict application/json "{\"inputs\": {$row, \"weight\": \"0$([ $mark = , ] && echo . || echo ,)25\"}}"
    expect_text "$out" 'column \"weight\"' 'is not a decimal number'
    ask /metrics
    expect_text "$out" 'trident_unseen_values_total{model="m",column="flag"} 0' \
        'trident_unseen_values_total{model="m",column="shop"} 0'
    for i in 1 2 3; do ask /predict application/json "{\"inputs\": {$row, \"flag\": \"zzz$i\", \"shop\": null}}"; done
    ask /tokenize application/json "{\"inputs\": {$row, \"flag\": \"zzz\"}}" # is not answered by the model
    ask /metrics
    expect_text "$out" 'trident_unseen_values_total{model="m",column="flag"} 3' \
        'trident_unseen_values_total{model="m",column="shop"} 0'
    ask /info
    expect_text "$out" '"unseen":{"values":3,"examples":["zzz1","zzz2","zzz3"]}'
    kill $server && wait $server
    expect "$model: a warning once" test "$(grep -c 'column "flag" that training did not have' serve.err)" = 1
done
finish
