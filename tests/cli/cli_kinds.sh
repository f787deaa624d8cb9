# Columns that are neither numbers nor texts, from the command line: names and codes as hashed n-grams, booleans, dates,
# ids with many values. trident inspect recognises each and says why; what it writes trains; a label that depends on a
# name's end is learned by hashing and not otherwise; answers of a server are those of predict; old models are read.
. "$(dirname "$0")/../lib/cli_lib.sh"
make_model model

# The label is the end of the brand, which hardly comes twice; all else is noise.
rows() { # SEED ROWS
    awk -v seed="$1" -v rows="$2" '
        function next_of(n) { seed = (seed * 1103 + 12345) % 1000003; return int(seed / 7) % n }
        BEGIN {
            OFS = ","
            split("ba ke li mo ru so ti va ze chi", part, " "); split("nova tani bers kick", end, " ")
            print "text", "brand", "sku", "shop", "paid", "day", "price", "colour", "id", "label"
            for (i = 0; i < rows; i++) {
                e = next_of(4)
                name = part[1 + next_of(10)] part[1 + next_of(10)] part[1 + next_of(10)] end[1 + e]
                sku = sprintf("%s-%02d/%d", substr("XLSMAB", 1 + next_of(5), 2), next_of(60), next_of(9))
                print "the box number " i " was " (next_of(2) ? "good" : "bad") " and came in " next_of(9) " days", \
                    toupper(substr(name, 1, 1)) substr(name, 2) (next_of(3) ? "" : " Co"), sku, \
                    1000 + next_of(12), next_of(2) ? "yes" : "No", \
                    "2024-0" 1 + next_of(9) "-1" next_of(10), next_of(900) / 10, next_of(2) ? "red" : "blue", i + 1, \
                    e < 2 ? "a" : "b"
            }
        }'
}
mkdir data
rows 1 800 >data/train.csv
rows 2 200 >data/valid.csv
rows 3 200 >data/test.csv
sed -i '1s/shop/shop id/' data/*.csv

run inspect data --write-config starter.json --tokenizer model
expect_code 0
expect_text "$out" 'brand    name         tabular' 'sku      code         tabular' 'shop id  id           tabular' \
    'paid     boolean      tabular' 'day      date         tabular' 'price    numeric      tabular' \
    'colour   categorical  tabular' 'id       id      ' 'label    categorical  label' \
    'brand    character n-grams in 64 buckets: names: 1.' 'sku      character n-grams in 64 buckets: codes: 1.0 words' \
    'paid     yes or no: each value means yes or no' \
    'shop id  categories: 12 different values with 67 rows each on average: rare ones are joined' \
    'day      dates year-month-day: days, month, day, weekday' 'id        identifies rows or things'
expect "what is written trains" test "$(grep -c 'does not train' "$err")" = 0
tr -d '\n' <starter.json | sed 's/  */ /g; s/\[ /[/g; s/ \]/]/g' >starter.txt
expect_text starter.txt '"hashed_field_list": ["brand", "sku"]' '"boolean_field_list": ["paid"]' \
    '"cat_field_list": ["shop id"]' '"min_category_rows": 5' '"brand: names: 1.'
run inspect data --json --tokenizer model
expect_text "$out" '"name":"brand","kind":"name","role":"tabular"' '"kind":"boolean"' \
    '"reason":"codes: 1.0 words a value, 100 % of the values'

# Trained by hashing, and as categories, with either form of columns.
fields='"tab_field_list": ["brand", "sku", "shop id", "paid", "price"]'
common=('"cat_field_list": ["shop id"]' '"boolean_field_list": ["paid"]' '"min_category_rows": 3' '"lr": 1e-2'
    '"pooling": "mean"')
train() { # train CONFIG OUTPUT MORE...
    echo train --config "$1.json" --data-path data --output-dir "$2" --epochs 4 --global-batch-size 32 \
        --threads 1 "${@:3}"
}
for form in plain embedded; do
    make_config $form.json "$fields" "${common[@]}" '"hashed_field_list": ["brand", "sku"]' "\"tabular\": \"$form\""
    sed -i '/secondary/d' $form.json
    run $(train $form $form)
    expect_code 0
    expect_text "$err" "columns: brand: character n-grams in 64 buckets; sku: character n-grams in 64 buckets;" \
        "shop id: 12 categories; paid: yes or no"
    expect_text $form/checkpoint-100/preprocessing.json '"version": 5' '"kind": "hashed"' '"buckets": 64' \
        '"kind": "boolean"'
    run eval --checkpoint $form --data-path data/test.csv --json --quiet --bootstrap 0
    expect_code 0
    accuracy=$(json_number accuracy "$out")
    expect "$form: the end of a name is learned: $accuracy" is "$accuracy" '>' 0.93
    expect_text "$out" '"unseen":[]'
    run predict --checkpoint $form --data-path data/test.csv --threads 1 --quiet -o $form.csv
    expect_code 0
    for mesh in '--nproc-per-node 2 --shard zero3' '--nproc-per-node 2 --pp-size 2'; do
        run predict --checkpoint $form --data-path data/test.csv --threads 1 --quiet $mesh --batch-size 7 -o many.csv \
            --force
        expect "$form, $mesh: predictions are those of one rank" cmp $form.csv many.csv
    done
    for mesh in '--nproc-per-node 2 --tp-size 2' '--nproc-per-node 2 --shard zero3'; do
        run $(train $form mesh --max-steps 6 --resume never --quiet) $mesh
        expect_code 0
        run $(train $form one --max-steps 6 --resume never --quiet)
        losses_near one mesh 1e-5 "$form, $mesh"
    done
    run export --checkpoint $form --output-dir $form-export
    expect_code 0
    run predict --checkpoint $form-export --data-path data/test.csv --threads 1 --quiet -o exported.csv --force
    expect "$form: the export predicts the same" cmp $form.csv exported.csv
done
make_config names.json "$fields" "${common[@]}" '"tabular": "embedded"'
sed -i '/secondary/d' names.json
run $(train names names)
expect_code 0
expect_text "$err" 'columns: brand: ' ' rare values joined'
run eval --checkpoint names --data-path data/test.csv --json --quiet --bootstrap 0 --allow-unknown
accuracy=$(json_number accuracy "$out")
expect "as categories names are not learned: $accuracy" is "$accuracy" '<' 0.75
run predict --checkpoint names --data-path data/test.csv --quiet
expect_code 0
expect_text "$err" 'column "brand": training did not have, or joined as rare,'

# A column of one value is one chunk of an explanation.
run explain --checkpoint embedded --data-path data/test.csv --rows 1 --json --quiet
expect_code 0
expect "brand is explained once" test "$(grep -o '"input":"brand"' "$out" | wc -l)" = 1

# A resumed run has the bits of the whole one; other keys are another run.
run $(train embedded again --save-steps 50 --keep 9)
whole=$("$trident" digest again)
rm -rf again/checkpoint-100 again/checkpoint-75 again/best_checkpoint.json again/summary.json
run $(train embedded again --save-steps 50 --keep 9)
expect_code 0
expect_text "$err" "checkpoint-50"
expect "resumed: the weights of the whole run" test "$("$trident" digest again)" = "$whole"
rejects 2 $(train embedded again) --hash-buckets 32 --epochs 5
rejects 2 $(train embedded again) --min-category-rows 2 --epochs 5

# Bad input.
rejects 2 $(train embedded bad) --hashed-field-list brand,size
rejects 2 $(train embedded bad) --hashed-field-list brand,paid
rejects 2 $(train embedded bad) --hash-buckets 1
rejects 65 $(train embedded bad) --boolean-field-list brand --hashed-field-list sku
sed '5s/,yes,\|,No,/,perhaps,/' data/test.csv >perhaps.csv
rejects 65 predict --checkpoint embedded --data-path perhaps.csv --quiet
make_config many.json '"tab_field_list": ["brand"]'
sed -i '/secondary/d' many.json
rejects 65 $(train many bad)
run $(train many many --min-category-rows 2 --max-steps 1 --quiet)
expect_code 0

# A server answers as predict does.
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
IFS=, read -r text brand sku shop paid day price rest < <(sed -n 2p data/test.csv)
for model in plain embedded; do
    want=$(sed -n '2s/\(.*\),\(.*\),\(.*\)/{"label":"\1","probabilities":{"a":\2,"b":\3}}/p' $model.csv)
    : >serve.out
    "$trident" serve m=$model --port 0 >serve.out 2>serve.err &
    server=$!
    for ((left = 400; left > 0; left--)); do grep -q try: serve.out && break || sleep 0.05; done
    port=$(sed -n '1s/.* at http:\/\/127.0.0.1:\([0-9]*\); try: .*/\1/p' serve.out)
    boolean=$([ "$paid" = yes ] && echo true || echo false)
    for values in "\"paid\": \"$paid\", \"shop id\": $shop" "\"paid\": $boolean, \"shop id\": \"$shop\""; do
        row="\"text\": \"$text\", \"brand\": \"$brand\", \"sku\": \"$sku\", \"price\": $price"
        ask /invocations application/jsonlines "{$row, $values}"
        expect "$model: $values: $(cat "$out")" test "$(cat "$out")" = "$want"
    done
    tensors= probability=$(sed -n '2s/[^,]*,//p' $model.csv)
    for one in "text:$text" "brand:$brand" "sku:$sku" "shop id:$shop" "paid:$paid" "price:$price"; do
        tensors+=${tensors:+, }"{\"name\": \"${one%%:*}\", \"shape\": [1], \"datatype\": \"BYTES\", "
        tensors+="\"data\": [\"${one#*:}\"]}"
    done
    ask /v2/models/m/infer application/json "{\"inputs\": [$tensors]}"
    expect_text "$out" "\"shape\":[1,2],\"data\":[$probability]"
    ask /info
    expect_text "$out" '{"name":"brand","kind":"hashed","form":"character n-grams in 64 buckets"}' '"kind":"boolean"'
    ask /metrics
    expect "hashed columns have no unseen values" test "$(grep -c 'unseen_values_total.*brand' "$out")" = 0
    kill $server
    wait $server
done
finish
