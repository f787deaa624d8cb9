# Data: tables of three formats, token stores, bad rows, categories, column_info.json.
. "$(dirname "$0")/../lib/cli_lib.sh"
make_all
train() {
    echo train --config "$1" --data-path "$2" --output-dir "$3" --max-steps 6 --epochs 2 --batch-size 16 \
        --resume never --no-color
}
digest_of() { "$trident" digest "$1"; }
same() { expect "$3" test -n "$1" -a "$1" = "$2"; }

# A second start tokenises nothing; what it computes is the same, as it is without a store and with other threads.
run $(train config.json data first)
expect_code 0
expect_text "$err" "train.csv: 96 rows" "tokenised" "columns: size: numeric; weight: numeric"
want=$(digest_of first)
run $(train config.json data second) --cache-dir first/cache
expect_code 0
expect_text "$err" "train.csv: 96 rows" "from the token store"
expect "nothing is tokenised again" sh -c "! grep -q tokenised '$err'"
same "$want" "$(digest_of second)" "a store changes nothing"
for options in "--cache-dir none" "--num-workers 1" "--num-workers 3 --threads 1" "--num-workers 0"; do
    run $(train config.json data other) $options
    expect_code 0
    same "$want" "$(digest_of other)" "$options changes nothing"
done
store=$(ls first/cache/*.tokens | head -n 1)
truncate -s -8 "$store"
checked run $(train config.json data second) --cache-dir first/cache
expect_code 0
expect_text "$err" "$store" "making it again"
same "$want" "$(digest_of second)" "a damaged store changes nothing"
rejects 74 $(train config.json data second) --cache-dir config.json

# The same rows as TSV and as JSON lines.
mkdir -p tabs lines
for part in train valid test; do
    sed 's/,/\t/g; s/"//g; s/good\t/good,/; s/bad\t/bad,/' data/$part.csv >tabs/$part.tsv
    awk -F'\t' 'NR > 1 { printf "{\"text\": \"%s\", \"track\": \"%s\", \"size\": %s, \"weight\": %s, \"label\": %s}\n",
        $1, $2, $3, $4, $5 }' tabs/$part.tsv >lines/$part.jsonl
done
for form in tabs lines; do
    run $(train config.json $form $form-run)
    expect_code 0
    same "$want" "$(digest_of $form-run)" "$form: the same rows train the same model"
    run eval --checkpoint $form-run --data-path data --json --quiet
    expect_code 0
    expect "rows of the test table" is "$(json_number rows "$out")" == 40
done
# The same rows separated by semicolons, with decimal commas and another text for missing values; by bars, as text
# files.
mkdir -p semicolons
for part in train valid test; do
    awk -F'\t' -v OFS=';' 'NR > 1 { sub(/\./, ",", $4) } { print $1, $2, $3, $4, $5 }' tabs/$part.tsv \
        >semicolons/$part.csv
    tr '\t' '|' <tabs/$part.tsv >bars-$part.txt
done
run $(train config.json semicolons semicolons-run)
expect_code 0
expect_text "$err" "semicolons/train.csv: fields are separated by semicolons, numbers have decimal commas"
same "$want" "$(digest_of semicolons-run)" "semicolons and decimal commas: the same rows train the same model"
expect_text semicolons-run/checkpoint-6/preprocessing.json '"decimal_mark": ","' '"N/A"'
run predict --checkpoint semicolons-run --data-path semicolons/test.csv --quiet
cp "$out" from-semicolons
run predict --checkpoint semicolons-run --data-path bars-test.txt --quiet --decimal-mark point
expect_code 0
expect "the same predictions from a table with bars and points" cmp -s from-semicolons "$out"
rejects 65 predict --checkpoint semicolons-run --data-path bars-test.txt
run predict --checkpoint first --data-path semicolons/test.csv --quiet --decimal-mark comma
expect "a model of a comma table reads it too" cmp -s from-semicolons "$out"
run $(train config.json semicolons second) --cache-dir semicolons-run/cache
expect_text "$err" "from the token store" "fields are separated by semicolons"

# NA and the like are missing values: in columns, the same as empty; as labels, refused or left out.
mkdir -p marks blanks
for part in train valid test; do
    sed '1!s/,[0-9]*,0\.25,/,NA,?,/; 1!s/,3,/,-,/' data/$part.csv >marks/$part.csv
    sed '1!s/,[0-9]*,0\.25,/,,,/; 1!s/,3,/,,/' data/$part.csv >blanks/$part.csv
done
run $(train config.json marks marks-run)
expect_code 0
expect_text "$err" "size: numeric, " " missing; weight: numeric, "
run $(train config.json blanks blanks-run)
same "$(digest_of marks-run)" "$(digest_of blanks-run)" "NA, ? and - are as good as nothing"
run predict --checkpoint marks-run --data-path marks/test.csv --quiet
cp "$out" from-marks
run predict --checkpoint marks-run --data-path blanks/test.csv --quiet
expect "predict reads them the same" cmp -s from-marks "$out"
run $(train config.json marks other) --missing '?'
expect_text "$err" "size: 12 categories" "weight: numeric, "
sed '5s/[01]$/NA/' data/train.csv >na.csv
rejects 65 $(train config.json na.csv other) --quiet
rejects 65 eval --checkpoint first --data-path na.csv --quiet
run $(train config.json na.csv other) --bad-rows skip
expect_code 0
expect_text "$err" "na.csv: 95 rows" "1 bad row left out"

# JSON lines in .json, which is taken only where there is no other table: such a file may be anything.
mkdir -p object && cp lines/train.jsonl object/train.json && cp lines/valid.jsonl object/valid.json
run $(train config.json object object-run)
expect_code 0
mkdir -p both && cp data/*.csv both && echo '{"seed": 1}' >both/train.json
run inspect both
expect_code 0
expect_text "$out" "train.csv"
cp data/train.csv lines/
rejects 2 $(train config.json lines other)
mkdir -p nothing
rejects 66 $(train config.json nothing other)

# Bad rows: refused with their place, or left out, counted and listed, the same ones for any number of threads.
mkdir -p bad
cp data/valid.csv bad/
awk 'NR == 5 { print "a box,late,heavy,1.5,0"; next } NR == 9 { print "a box,late,1,1.5,7"; next }
    NR == 12 { print "a box,late,1"; next }
    NR == 20 { print "a \377 box,late,1,1.5,0"; next } { print }' data/train.csv >bad/train.csv
rejects 65 $(train config.json bad bad-run) --quiet
for threads in 1 2 3; do
    run $(train config.json bad bad-run) --bad-rows skip --threads $threads --cache-dir none
    expect_code 0
    expect_text "$err" "train.csv: 92 rows" "4 bad rows left out: 5:12:" "heavy"
    [ $threads = 1 ] && skipped=$(digest_of bad-run)
    same "$skipped" "$(digest_of bad-run)" "the same rows are left out with $threads threads"
done
expect_text bad-run/summary.json '"bad_rows"' '"count": 4' '"line": 5' '"line": 9' '"line": 12' '"line": 20'
expect_text bad-run/metrics.jsonl '"bad_rows":{"train":{"count":4' "warn"
rejects 65 eval --checkpoint bad-run --data-path bad/train.csv
run eval --checkpoint bad-run --data-path bad/train.csv --bad-rows skip --json --by track
expect_code 0
expect "eval leaves out the same rows" is "$(json_number rows "$out")" == 92
expect "and so do its groups" test 92 = \
    "$(sed 's/.*"by"://' "$out" | grep -o '"rows":[0-9]*' | awk -F: '{ n += $2 } END { print n }')"
expect_text "$err" "4 bad rows left out"

# Predictions can be joined back: kept columns, numbers of rows, the most probable classes; formats by their names.
awk 'NR == 4 { print "a box,late,heavy,1.5,0"; next } NR == 6 { print "a box,late,1"; next } { print }' data/test.csv \
    >holes.csv
run predict --checkpoint first --data-path holes.csv --bad-rows skip --keep size,text --quiet
expect_code 0
expect "kept columns, the row, then ours" test "$(head -n 1 "$out")" = "size,text,row,label,prob_0,prob_1"
expect "rows that were left out count" test "$(cut -d, -f 1 "$out" | wc -l)" = 39
expect "numbers of rows" test "$(sed 's/.*",\([0-9]*\),.*/\1/' "$out" | sed -n 2,6p | tr '\n' ' ')" = "1 2 4 6 7 "
run predict --checkpoint first --data-path data/test.csv --keep all --top-k 1 -o all.csv --quiet
expect_code 0
expect "a kept column keeps its name" test "$(head -n 1 all.csv)" = "text,track,size,weight,label,predicted_label,prob"
expect "what is kept is as it was" test "$(cut -d, -f 1-6 all.csv | tail -n +2 | tr -d '"')" = \
    "$(tail -n +2 data/test.csv | tr -d '"')"
run predict --checkpoint first --data-path all.csv --quiet
expect_code 0
run predict --checkpoint first --data-path data/test.csv --keep label --top-k 2 -o out.jsonl --quiet
expect_code 0
expect "an object a row" test \
    "$(grep -c '^{"kept":{"label":"[01]"},"label":"[01]","top":\[{"label":"[01]","probability":0' out.jsonl)" = 40
run predict --checkpoint first --data-path data/test.csv --keep track -o out.tsv --quiet
expect_code 0
expect_text out.tsv "$(printf 'track\tlabel\tprob_0\tprob_1')"
for name in out.parquet out.xlsx out.json out.csv.gz; do
    rejects 2 predict --checkpoint first --data-path data/test.csv -o $name
done
rejects 2 predict --checkpoint first --data-path data/test.csv -o out.csv --json
rejects 65 predict --checkpoint first --data-path data/test.csv --keep colour
rejects 2 predict --checkpoint first --data-path data/test.csv --top-k 3

# The least certain rows first, with their numbers, in every format.
run predict --checkpoint first --data-path holes.csv --bad-rows skip --quiet
awk -F, 'NR > 1 { d = $3 - $4; printf "%.9f %d\n", d < 0 ? -d : d, $1 }' "$out" | sort -s -n -k1,1 |
    cut -d' ' -f2 >ranked
tail -n +2 "$out" >whole.csv
run predict --checkpoint first --data-path holes.csv --bad-rows skip --quiet --uncertain 7
expect_code 0
expect "the rows whose classes are closest" test "$(cut -d, -f 1 "$out" | tail -n +2)" = "$(head -n 7 ranked)"
expect "each as it is among all" test "$(tail -n +2 "$out" | grep -cxFf whole.csv)" = 7
run predict --checkpoint first --data-path data/test.csv --uncertain 3 --keep size,weight --top-k 1 -o next.csv
expect_code 0
expect "kept columns, then the row" test "$(head -n 1 next.csv)" = "size,weight,row,label,prob"
expect "three rows and a header" test "$(wc -l <next.csv)" = 4
expect_text "$err" "3 rows in next.csv"
awk -F, -v OFS=, 'NR > 1 { print $4, $5, NR - 1 }' data/test.csv >places # of texts with a comma
expect "a row's number is its place in the table" test "$(cut -d, -f 1-3 next.csv | grep -cxFf places)" = 3
run predict --checkpoint first --data-path data/test.csv --uncertain 1000 --json --quiet
expect_code 0
expect "all rows where there are no more" test "$(grep -c '^{"row":[0-9]*,"label":"[01]","prob' "$out")" = 40
rejects 2 predict --checkpoint first --data-path data/test.csv --uncertain 0
rejects 2 predict --checkpoint first --data-path data/test.csv --uncertain few

# Categories, a quantile transform, missing numbers: kept with the model, applied by eval and predict.
mkdir -p kinds
for part in train valid test; do
    awk -F, -v OFS=, 'NR == 1 { print $0, "colour", "shop"; next }
        { c = NR % 4; print $0, (c == 0 ? "red" : c == 1 ? "light blue" : c == 2 ? "green" : ""), 10 + NR % 3 }' \
        data/$part.csv | sed '7s/,[0-9]*,\([0-9.]*\),\([01]\),/,,\1,\2,/' >kinds/$part.csv
done
make_config kinds.json '"tab_field_list": ["size", "colour", "shop"]' '"cat_field_list": ["shop"]' \
    '"numeric_transform": "quantile_normal"' '"numeric_missing": "mean"'
run $(train kinds.json kinds kinds-run)
expect_code 0
expect_text "$err" "columns: size: numeric, 1 missing; colour: 3 categories, 24 missing; shop: 3 categories"
expect_text kinds-run/checkpoint-6/preprocessing.json '"version": 4' '"light blue"' quantiles
valid=$(sed -n '/"valid"/,$s/.*"loss": \([0-9.e-]*\).*/\1/p' kinds-run/summary.json | head -n 1)
run eval --checkpoint kinds-run --data-path kinds/valid.csv --json --quiet --calibration none
expect_code 0
expect "eval computes what validation did" is "$(json_number loss "$out")" == "$valid"
run eval --checkpoint kinds-run --data-path kinds/valid.csv --json --quiet --cache-dir eval-cache --num-workers 2 \
    --calibration none
expect "a store for eval" is "$(json_number loss "$out")" == "$valid"
expect "eval keeps a store where it is told to" test -n "$(ls eval-cache/*.tokens)"
sed 's/light blue/violet/' kinds/test.csv >violet.csv
run predict --checkpoint kinds-run --data-path violet.csv --quiet
expect_code 0
expect "a line for each row" test "$(wc -l <"$out")" = 41
sed '1s/colour/color/' kinds/test.csv >renamed.csv
checked rejects 65 predict --checkpoint kinds-run --data-path renamed.csv --quiet
awk 'BEGIN {
    print "text,track,size,weight,label,colour,shop"
    for (i = 0; i < 600; i++) printf "a,b,1,1,%d,c%d,1\n", i % 2, i }' >many.csv
rejects 65 $(train kinds.json many.csv other) --quiet

# The Multimodal-Toolkit's column_info.json beside the tables: an unnamed index, three texts, labels by index.
mkdir -p toolkit
for part in train test; do
    awk -F'\t' -v OFS=, 'NR == 1 { print ",text,track,note,size,colour,label"; next }
        { print NR - 2, "\"" $1 "\"", $2, NR % 2 ? "fine" : "", $3, NR % 3 ? "red" : "blue", $5 }' \
        tabs/$part.tsv >toolkit/$part.csv
done
cp toolkit/test.csv toolkit/val.csv
echo '{"text_cols": ["text", "track", "note"], "num_cols": ["size"], "cat_cols": ["colour"], "label_col": "label",
    "label_list": ["kept", "sent back"]}' >toolkit/column_info.json
sed '1s/.*/{/; /_text_name"/d; /tab_field_list/d; /num_classes/d; /is_binary/d' config.json >bare.json
run $(train bare.json toolkit toolkit-run)
expect_code 0
expect_text "$err" "columns: size: numeric; colour: 2 categories" "secondary text"
expect_text toolkit-run/checkpoint-6/config.json '"secondary_text_list"' '"note"' '"sent back"'
run predict --checkpoint toolkit-run --data-path toolkit --quiet
expect_code 0
expect_text "$out" "label,prob_kept,prob_sent back"
mv toolkit/column_info.json elsewhere.json
rejects 2 $(train bare.json toolkit other)
run $(train bare.json toolkit other) --column-info elsewhere.json
expect_code 0
same "$(digest_of toolkit-run)" "$(digest_of other)" "a column_info.json may be named"
echo '{"text_cols": ["text"]}' >torn.json
rejects 2 $(train bare.json toolkit other) --column-info torn.json
finish
