# One table in every form in which it can be given: the same rows, the same run to the bit; and what is refused.
golden=$(cd "$(dirname "$0")/../golden/arrow" && pwd) parquet=$(cd "$(dirname "$0")/../golden/parquet" && pwd)
. "$(dirname "$0")/../lib/cli_lib.sh"
make_model model
make_config config.json
run doctor
has() { grep -q "^$1 *yes" "$out"; }
has zlib && gzip=1 || gzip=
has zstd && zstd=1 || zstd=
has lz4 && lz4=1 || lz4=
has brotli && brotli=1 || brotli=
forms=csv
mkdir csv && cp "$golden/table.csv" csv/train.csv
if [ "$gzip" ]; then # of two members
    mkdir gz && { head -n 9 csv/train.csv | gzip; tail -n +10 csv/train.csv | gzip; } >gz/train.csv.gz
    forms="$forms gz"
fi
if [ "$zstd" ]; then mkdir zst && cp "$golden/table.csv.zst" zst/train.csv.zst && forms="$forms zst"; fi
mkdir arrow && cp "$golden/table.arrow" arrow/train.feather && forms="$forms arrow"
mkdir parquet && cp "$parquet/table.parquet" parquet/train.parquet
mkdir -p pieces/data && cp "$parquet"/table-0000?-of-00002.parquet pieces/data
for part in pieces/data/*; do mv "$part" "${part/table/train}"; done
mkdir pq && cp "$parquet/table.parquet" pq/train.pq
forms="$forms parquet pq pieces"
if [ "$zstd$lz4" = 11 ]; then # as a repository of Hugging Face has them
    mkdir -p hub/data parts/train && forms="$forms hub parts"
    for i in 0 1; do
        cp "$golden/table-0000$i-of-00002.arrow" "hub/data/train-0000$i-of-00002.arrow"
        cp "$golden/table-0000$i-of-00002.arrow" "parts/train/part-$i.arrow"
    done
    echo '{}' >parts/train/state.json
fi
# Twelve parts, in the order of their numbers.
mkdir many && head -n 1 csv/train.csv >header
awk -v RS='\n' 'NR > 1 { quotes += gsub(/"/, "\""); text = text $0 "\n" } NR > 1 && quotes % 2 == 0 { n++
    file = "many/train-" int((n - 1) / 4) ".csv"; printf "%s", text >file; text = "" }' csv/train.csv
for part in many/*.csv; do cat header "$part" >part && mv part "$part"; done
expect "more than ten parts" test -e many/train-11.csv
forms="$forms many"

for form in $forms; do
    cp "$golden/table.csv" "$form/valid.csv"
    if [ "$form" = hub ] || [ "$form" = pieces ]; then mv "$form/valid.csv" "$form/data/validation.csv"; fi
    run train --config config.json --data-path "$form" --output-dir "out-$form" --epochs 1 --max-steps 2 \
        --batch-size 8 --quiet
    expect_code 0
    run digest "out-$form" --quiet
    cp "$out" "digest-$form"
    expect "$form trains as csv does" cmp -s digest-csv "digest-$form"
    run inspect "$form"
    expect_code 0
    expect_text "$out" "48 rows"
done

# A folder's tables may have different formats.
mkdir mixed && cp pq/train.pq mixed
echo '{"text": "it is fine", "track": "found", "size": 1, "weight": 2.5, "label": 1}' >mixed/valid.json
run inspect mixed --json
expect_code 0
expect_text "$out" '"path":"mixed/train.pq"' '"path":"mixed/valid.json"'

# A pattern is a table; messages name the part and its line.
run predict --checkpoint out-csv --data-path 'many/train-*.csv' --quiet
expect_code 0
expect "a prediction of every row" test "$(wc -l <"$out")" = 49
sed -i '3s/.*/"x",y,not a number,1,1/' many/train-7.csv
rejects 65 train --config config.json --data-path many --output-dir o --quiet
printf 'text,track,size,mass,label\nx,y,1,1,1\n' >many/train-7.csv
rejects 65 train --config config.json --data-path many --output-dir o --quiet
rm many/train-7.csv
mv many/train-0.csv many/train-old.csv
rejects 2 train --config config.json --data-path many --output-dir o --quiet
mkdir some && for i in 0 2; do cp csv/train.csv some/train-0000$i-of-00003.csv; done
rejects 65 train --config config.json --data-path some --output-dir o --quiet

# Damaged files: 65 with the place.
head -c 900 "$golden/table.arrow" >cut.arrow
rejects 65 inspect cut.arrow
cp "$golden/table.arrow" wide.arrow
rejects 65 train --config config.json --data-path wide.arrow --output-dir o --quiet --primary-text-name tags
rejects 65 train --config config.json --data-path parquet --output-dir o --quiet --primary-text-name tags
run predict --checkpoint out-csv --data-path parquet/train.parquet --quiet --keep text
expect_code 0
rejects 65 predict --checkpoint out-csv --data-path parquet/train.parquet --keep all
head -c 900 parquet/train.parquet >cut.parquet
rejects 65 inspect cut.parquet
cp parquet/train.parquet hurt.parquet
printf '\377\377\377' | dd of=hurt.parquet bs=1 seek=40 conv=notrunc status=none
rejects 65 train --config config.json --data-path hurt.parquet --output-dir o --quiet
# A column in brotli where its library does not load.
mkdir unloadable && echo none >unloadable/libbrotlidec.so.1
cp "$parquet/brotli.parquet" .
LD_LIBRARY_PATH=$PWD/unloadable run inspect brotli.parquet
expect_code 0
expect_text "$out" "is compressed with brotli, and libbrotlidec.so.1 does not load: apt-get install libbrotli1"
LD_LIBRARY_PATH=$PWD/unloadable rejects 65 vocab --column text -o brotli-vocab brotli.parquet
if [ "$brotli" ]; then
    run vocab --column text --size 30 -o brotli-vocab brotli.parquet
    expect_code 0
else
    echo "libbrotlidec.so.1 does not load: no file in brotli was read"
fi
if [ "$gzip" ]; then
    head -c 500 gz/train.csv.gz >cut.csv.gz
    refuses 65 "cut.csv.gz: damaged at byte 500" "cut off" -- inspect cut.csv.gz
    { printf 'a,b\n1,2\n3\n' | gzip; } >ragged.csv.gz
    refuses 65 "ragged.csv.gz:3:1" -- inspect ragged.csv.gz
fi
finish
