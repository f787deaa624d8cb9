# A table in every format is the same table: trained on one, evaluated, predicted and served as the others, with the
# same figures to the digit. Booleans, whole numbers, decimals and decimal commas are spelt as programs spell them.
# Values that training did not have are counted and said.
golden=$(cd "$(dirname "$0")/golden/values" && pwd)
. "$(dirname "$0")/cli_lib.sh"
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
finish
