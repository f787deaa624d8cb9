# Data in all its forms: tables of three formats, token stores, bad rows, categories, column_info.json.
. "$(dirname "$0")/cli_lib.sh"
make_all
train() { echo train --config "$1" --data-path "$2" --output-dir "$3" --max-steps 6 --epochs 2 --batch-size 16 --resume never --no-color; }
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
refuses 74 "config.json" -- $(train config.json data second) --cache-dir config.json

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
cp data/train.csv lines/
refuses 2 train.csv train.jsonl "which one" -- $(train config.json lines other)
mkdir -p nothing
refuses 66 nothing .csv .tsv .jsonl -- $(train config.json nothing other)

# Bad rows: refused with their place, or left out, counted and listed, the same ones for any number of threads.
mkdir -p bad
cp data/valid.csv bad/
awk 'NR == 5 { print "a box,late,heavy,1.5,0"; next } NR == 9 { print "a box,late,1,1.5,7"; next } NR == 12 { print "a box,late,1"; next }
    NR == 20 { print "a \377 box,late,1,1.5,0"; next } { print }' data/train.csv >bad/train.csv
refuses 65 "train.csv:12:" -- $(train config.json bad bad-run) --quiet
for threads in 1 2 3; do
    run $(train config.json bad bad-run) --bad-rows skip --threads $threads --cache-dir none
    expect_code 0
    expect_text "$err" "train.csv: 92 rows" "4 bad rows left out: 5:12:" "heavy"
    [ $threads = 1 ] && skipped=$(digest_of bad-run)
    same "$skipped" "$(digest_of bad-run)" "the same rows are left out with $threads threads"
done
expect_text bad-run/summary.json '"bad_rows"' '"count": 4' '"line": 5' '"line": 9' '"line": 12' '"line": 20'
expect_text bad-run/metrics.jsonl '"bad_rows":{"train":{"count":4' "warn"
refuses 65 'train.csv:12' -- eval --checkpoint bad-run --data-path bad/train.csv
run eval --checkpoint bad-run --data-path bad/train.csv --bad-rows skip --json
expect_code 0
expect "eval leaves out the same rows" is "$(json_number rows "$out")" == 92
expect_text "$err" "4 bad rows left out"

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
expect_text kinds-run/checkpoint-6/preprocessing.json '"version": 2' '"light blue"' quantiles
valid=$(sed -n '/"valid"/,$s/.*"loss": \([0-9.e-]*\).*/\1/p' kinds-run/summary.json | head -n 1)
run eval --checkpoint kinds-run --data-path kinds/valid.csv --json --quiet
expect_code 0
expect "eval computes what validation did" is "$(json_number loss "$out")" == "$valid"
run eval --checkpoint kinds-run --data-path kinds/valid.csv --json --quiet --cache-dir eval-cache --num-workers 2
expect "a store for eval" is "$(json_number loss "$out")" == "$valid"
expect "eval keeps a store where it is told to" test -n "$(ls eval-cache/*.tokens)"
sed 's/light blue/violet/' kinds/test.csv >violet.csv
run predict --checkpoint kinds-run --data-path violet.csv --quiet
expect_code 0
expect "a line for each row" test "$(wc -l <"$out")" = 41
sed '1s/colour/color/' kinds/test.csv >renamed.csv
checked refuses 65 renamed.csv '"colour"' '"color"' size shop -- predict --checkpoint kinds-run --data-path renamed.csv --quiet
awk 'BEGIN { print "text,track,size,weight,label,colour,shop"; for (i = 0; i < 600; i++) printf "a,b,1,1,%d,c%d,1\n", i % 2, i }' >many.csv
refuses 65 "many.csv:2:" '"colour"' "more than 256 different values" tab_field_list -- $(train kinds.json many.csv other) --quiet

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
refuses 2 label_name -- $(train bare.json toolkit other)
run $(train bare.json toolkit other) --column-info elsewhere.json
expect_code 0
same "$(digest_of toolkit-run)" "$(digest_of other)" "a column_info.json may be named"
echo '{"text_cols": ["text"]}' >torn.json
refuses 2 torn.json label_col -- $(train bare.json toolkit other) --column-info torn.json
finish
