# inspect: text tables, JSON, and a starter configuration that trains unchanged.
root=$(cd "$(dirname "$0")/../.." && pwd)
. "$root/tests/lib/cli_lib.sh"

# make_posts FILE ROWS FIRST: a title and a story that decide the label, numbers, a city; a grade that gives it away.
make_posts() {
    awk -v rows="$2" -v first="$3" 'BEGIN {
        split("Bonn Lima Oslo Rome", city, " "); split("box lamp chair table clock", thing, " ")
        print "row_id,Headline,Story,Days,City,Grade,is_late"
        for (i = first; i < first + rows; i++) {
            y = (i * 7 + int(i / 3)) % 2
            printf "%d,%s the %s %d,\"the %s was %s, and it is %s in %s after %d days\",%s,%s,%d,%d\n",
                i, y ? "late" : "early", thing[i % 5 + 1], i, thing[i % 5 + 1],
                y ? "bad" : "good", y ? "lost" : "found", city[i % 4 + 1], i, i % 9 ? i % 11 : "", city[i % 4 + 1],
                1 + 2 * y + (i % 2), y
        }
    }' >"$1"
}
mkdir -p posts
make_model model
make_posts posts/train.csv 240 0
make_posts posts/valid.csv 80 240
make_posts posts/test.csv 80 320

run inspect posts --tokenizer model
expect_code 0
expect_text "$out" "240 rows, 7 columns" "missing in" "padding would waste" "in batches of 32" "label (a guess" \
    "those around it included" \
    'warning: "Grade" alone gives the label of 100.0 % of the rows of valid'
expect "Story is the primary text" grep -Eq '^Story +text +primary +100.0 %' "$out"
expect "Headline is the secondary text" grep -Eq '^Headline +text +secondary ' "$out"
expect "row_id is an id" grep -Eq '^row_id +id ' "$out"
expect "City is a category" grep -Eq '^City +categorical +tabular' "$out"
expect "is_late is the label" grep -Eq '^is_late +numeric +label' "$out"
expect "missing days of each split" grep -Eq '^Days +27 +9 +9$' "$out"
expect "no row is shared" bash -c "! grep -q 'equal a row' '$out'"
expect_text "$err" "tokenizer: WordPiece"

# Results come before what is written after them, also where both go to one file.
"$trident" inspect posts --tokenizer model --write-config order.json >both 2>&1
expect "the last line is the last word" bash -c 'tail -n 1 both | grep -qx "wrote order.json"'
expect "the tokenizer is named first" bash -c 'head -n 1 both | grep -q "^tokenizer: "'
expect_text order.json '"best_by": "roc_auc"'

# What is advised is written: with few rows of a class, the best checkpoint by PR AUC. A text that could be the label
# stays a text.
awk 'BEGIN { print "motto,sum,fraud"; for (i = 0; i < 400; i++)
    printf "%s,%d,%d\n", i % 3 ? "good and fine" : "late or lost", i % 7, i % 40 == 0 }' >fraud.csv
run inspect fraud.csv --tokenizer model --write-config fraud.json
expect_code 0
expect_text "$out" "--best-by pr_auc" 'the label is a guess: "fraud"; "motto", "sum" could be it as well'
expect_text fraud.json '"best_by": "pr_auc"'
expect "a primary text is one" grep -Eq '^motto +categorical +primary, or label ' "$out"

# Without a tokenizer, lengths are estimated, and that is said.
run inspect posts/train.csv
expect_code 0
expect_text "$out" "~median" "estimated by its words"
run inspect posts/test.csv --json
expect_code 0
expect_text "$out" '"splits":{"test":{"path":"posts/test.csv"' '"described":"test"'
run inspect posts --config /dev/null/none
expect_code 66

# One JSON object.
run inspect posts --models-dir . --json --quiet
expect_code 0
expect "one line of JSON" test "$(wc -l <"$out")" = 1
expect "quiet" test ! -s "$err"
expect_text "$out" '"label":"is_late"' '"primary_text":"Story"' '"estimated":false' \
    '"what":"decides_label","column":"Grade"' '"test":{"path":"posts/test.csv","rows":80,"more_rows":false,'

# The starter configuration trains as it is; columns that are given stand.
run inspect posts --models-dir . --write-config start.json --quiet
expect_code 0
expect_text start.json '"label_name": "is_late"' '"primary_text_name": "Story"' '"secondary_text_name": "Headline"' \
    '"Days"' '"City"' '"primary_tokenizer": "model"' \
    '"num_classes": 2' "a guess" '\"Grade\" alone gives the label'
run train --config start.json --data-path posts --models-dir . --output-dir start --max-steps 3 --quiet
expect_code 0
run inspect posts/train.csv --tokenizer model --label-name City --primary-text-name Headline --tab-field-list Days \
    --write-config given.json
expect_code 0
expect_text given.json '"label_name": "City"' '"num_classes": 4' '"is_binary": false' \
    '"primary_text_name": "Headline"' "as given"
expect "no second text is guessed beside a given one" bash -c "! grep -q secondary_text_name given.json"
run train --config given.json --data-path posts/train.csv --output-dir given --max-steps 2 --quiet
expect_code 0
run inspect posts --config given.json --json --quiet
expect_code 0
expect_text "$out" '"label":"City"' '"label_guessed":false' '"texts_guessed":false'

# Rows that two tables share, whatever their ids.
{ cat posts/test.csv; sed -n 5,7p posts/train.csv | sed 's/^/9/'; } >shared.csv && mv shared.csv posts/test.csv
run inspect posts
expect_code 0
expect_text "$out" "3 of 83 rows of test equal a row of train in every column but row_id" \
    'rows of test have a "Story" that also appears in train'

# Memory is bounded: of a table with very many rows the first ones are described, and that is said.
awk 'BEGIN { print "text,size,label"; for (i = 0; i < 200000; i++) print "a b,1,0\nc d,2,1" }' | gzip -9 >many.csv.gz
run doctor
if grep -q 'gzip' "$out"; then
    run inspect many.csv.gz --memory-limit 32M
    expect_code 0
    expect_text "$out" "many.csv.gz: the first 97,543 rows, 3 columns" \
        "warning: only the first 97,543 rows of many.csv.gz are described"
    run inspect many.csv.gz --memory-limit 32M --json --quiet
    expect_text "$out" '"rows":97543,"more_rows":true' '"what":"first_rows"'
    run inspect many.csv.gz --quiet
    expect_text "$out" "many.csv.gz: 400,000 rows, 3 columns"
fi

# JSON lines and TSV are tables too.
awk 'BEGIN { for (i = 0; i < 60; i++) printf "{\"text\": \"some words, %d of them\", \"label\": \"%s\"}\n",
    i, i % 2 ? "yes" : "no" }' >table.jsonl
run inspect table.jsonl
expect_code 0
expect_text "$out" "60 rows, 2 columns" "yes"

# What inspect says and what train does agree: a table as spreadsheets write it, with blank labels.
awk 'BEGIN {
    print "order_id;day;price;paid;note;sold"
    for (i = 0; i < 60; i++)
        printf "%d;%d.%d.2024;%d,%d0;$1,%03d;the box was %s; and it is %d;%s\n",
            100 + 7 * i, i % 28 + 1, i % 12 + 1, i % 9, i % 4, i,
            i % 2 ? "bad" : "good", i, i == 5 ? "" : i == 9 ? "NA" : i % 2 ? "no" : "yes"
}' | sed 's/;\(the box[^;]*; and[^;]*\);/;"\1";/' >export.csv
run inspect export.csv --tokenizer model --write-config export.json
expect_code 0
expect_text "$err" "export.csv: fields are separated by semicolons" "export.csv: numbers have decimal commas" \
    'warning: export.json does not train as it is: export.csv:7:' "--bad-rows skip"
expect_text "$out" 'warning: 2 rows of train have no "sold"'
expect "a label with blanks is the label" grep -Eq '^sold +boolean +label ' "$out"
expect "dates are read" grep -Eq '^day +dates day.month.year: days, ' "$out"
expect "left out: amounts that are ambiguous" grep -Eq '^paid +it has numbers such as "\$1,000"' "$out"
expect "left out: ids" grep -Eq '^order_id +identifies rows' "$out"
words=$(sed -n 's/.*does not train as it is: //p' "$err")
rejects 65 train --config export.json --data-path export.csv --output-dir export --quiet
run inspect export.csv --tokenizer model --bad-rows skip --write-config export.json --force
expect_code 0
expect "nothing is in the way" bash -c "! grep -q 'does not train' '$err'"
run train --config export.json --data-path export.csv --output-dir export --max-steps 2 --quiet
expect_code 0
proposed=$(sed -n 's/.*"run": "trident \(.*\) --output-dir run".*/\1/p' export.json)
run $proposed --output-dir proposed --max-steps 2 --quiet
expect_code 0
expect "rows of one table are kept for validation" test -s proposed/validation-last.csv
run inspect export.csv --tokenizer model --bad-rows skip --json --quiet
expect_text "$out" '"separator":";"' '"decimal_mark":","' '"kind":"date"' '"form":"dates day.month.year"' \
    '"left_out":"it has numbers such as'

# No tokenizer, an encoder that is not known, weights as a pickle: what train will say is said.
run inspect posts --write-config none.json --force --quiet
expect_code 0
expect_text "$err" "none.json does not train as it is" "--models-dir"
mkdir -p kinds
cp -r model kinds/other && echo '{"model_type": "t5"}' >kinds/other/config.json
run inspect posts --models-dir kinds --write-config none.json --force --quiet
expect_code 0
expect_text "$err" "none.json does not train as it is" "t5"
rm kinds/other/config.json && echo x >kinds/other/pytorch_model.bin
run inspect posts --models-dir kinds --write-config none.json --force --quiet
expect_code 0
expect_text "$err" "none.json does not train as it is" "pickle"
rm none.json

# Errors.
rejects 2 inspect
rejects 66 inspect nowhere
rejects 66 inspect posts --models-dir . --tokenizer none
rejects 65 inspect posts --primary-text-name Stori
rejects 2 inspect posts other
printf 'a,b\n1,2\n3\n' >bad.csv
rejects 65 inspect bad.csv
run inspect bad.csv --bad-rows skip
expect_code 0
expect_text "$out" "warning: 1 rows of bad.csv cannot be read"
run inspect bad.csv --bad-rows skip --write-config none.json --force
expect_code 65
expect "no configuration is left behind" test ! -e none.json

# The real reviews, where they are.
reviews="$root/../shared/data/reviews"
if [ -d "$reviews" ]; then
    run inspect "$reviews"
    expect_code 0
    expect_text "$out" "18,788 rows, 11 columns" 'warning: "Rating" alone gives the label of' \
        "5 of 2,349 rows of valid equal a row of train in every column but row_id" \
        "3 of 2,349 rows of test equal a row of train in every column but row_id" \
        '2 of 2,349 rows of test have a "Review Text" that also appears in train'
fi
finish
