# Columns as vectors and gated fusion from the command line: trained, resumed, evaluated, predicted on meshes, exported
# and quantised; what the run says, what it keeps, and what is refused.
. "$(dirname "$0")/../lib/cli_lib.sh"
make_all
mkdir -p kinds
for part in train valid test; do # colours and shops, some values missing
    awk -F, -v OFS=, 'NR == 1 { print $0, "colour", "shop"; next }
        { c = NR % 4; print $0, (c == 0 ? "red" : c == 1 ? "light blue" : c == 2 ? "green" : ""), 10 + NR % 3 }' \
        data/$part.csv | sed '7s/,[0-9]*,\([0-9.]*\),\([01]\),/,,\1,\2,/' >kinds/$part.csv
done
keys=('"tab_field_list": ["size", "weight", "colour", "shop"]' '"cat_field_list": ["shop"]' '"tabular": "embedded"'
    '"column_dim": 6' '"fusion": "gated"')
make_config piecewise.json "${keys[@]}" '"numeric_bins": 5'
make_config periodic.json "${keys[@]}" '"numeric_embedding": "periodic"' '"numeric_frequencies": 4'
train() { # train CONFIG OUTPUT MORE...
    echo train --config "$1.json" --data-path kinds --output-dir "$2" --epochs 1 --batch-size 16 --threads 1 "${@:3}"
}

for form in piecewise periodic; do
    run $(train $form $form)
    expect_code 0
    bins=$([ $form = piecewise ] && echo ', 5 bins')
    expect_text "$err" "columns: size: numeric$bins, 1 missing; weight: numeric$bins; colour: 3 categories, 24 missing;"
    expect_text $form/checkpoint-6/preprocessing.json '"version": 4' "\"vectors\": \"$form\"" '"light blue"'
    valid=$(sed -n '/"valid"/,$s/.*"loss": \([0-9.e-]*\).*/\1/p' $form/summary.json | head -n 1)
    run eval --checkpoint $form --data-path kinds/valid.csv --json --quiet --calibration none
    expect_code 0
    expect "$form: eval computes what validation did" is "$(json_number loss "$out")" == "$valid"
    sed 's/light blue/violet/; s/,1[0-9]$/,99/' kinds/test.csv >unknown.csv # categories that training did not have
    common=(--checkpoint $form --data-path unknown.csv --allow-unknown --threads 1 --quiet)
    run predict "${common[@]}" -o one.csv --force
    expect_code 0
    for mesh in '--nproc-per-node 2 --shard zero3' '--nproc-per-node 2 --pp-size 2'; do
        run predict "${common[@]}" $mesh --batch-size 7 -o many.csv --force
        expect "$form, $mesh: predictions are those of one rank" cmp one.csv many.csv
    done
    run export --checkpoint $form --output-dir $form-export
    expect_code 0
    run predict --checkpoint $form-export "${common[@]:2}" -o exported.csv --force
    expect "$form: the export predicts the same" cmp one.csv exported.csv
done
run quantize --checkpoint periodic --data-path kinds/valid.csv -o periodic-int8 --quiet
expect_code 0
run predict --checkpoint periodic-int8 "${common[@]:2}"
expect_code 0
expect_text periodic-export/config.json '"tabular": "embedded"' '"numeric_frequencies": 4' '"fusion": "gated"'

# Categories alone, numbers alone: tables of which the other is absent.
for fields in '"colour"' '"size"'; do
    make_config alone.json '"tab_field_list": ['"$fields"']' '"tabular": "embedded"' '"column_dim": 6'
    run $(train alone alone --resume never --quiet)
    expect_code 0
done

# A resumed run has the bits of the whole one; another form of columns is another run.
run $(train piecewise again --save-steps 2 --keep 9)
whole=$("$trident" digest again)
rm -rf again/checkpoint-[46] again/best_checkpoint.json again/summary.json
run $(train piecewise again --save-steps 2 --keep 9)
expect_code 0
expect_text "$err" "checkpoint-2"
expect "resumed: the weights of the whole run" test "$("$trident" digest again)" = "$whole"
rejects 2 $(train piecewise again --tabular plain --epochs 2)
rejects 2 $(train piecewise again --fusion concat --epochs 2)

# GPUs that are described have kernels of these operations.
for hardware in h200x8 a100x8; do
    for precision in fp32 bf16 fp16; do
        run simulate --config periodic.json --hardware $hardware --world-size 8 --precision $precision --quiet
        expect_code 0
    done
done

# Plans of every kind of mesh are checked; without data columns are assumed to be numbers with all bins.
for mesh in '--world-size 4 --pp-size 2 --tp-size 2' '--world-size 4 --dp-size 2 --cp-size 2 --shard zero2' \
    '--world-size 2 --dp-size 2 --precision bf16 --shard zero3 --offload optimizer'; do
    run plan --config piecewise.json --data-path kinds $mesh --check
    expect_code 0
done
run plan --config piecewise.json --params
expect_code 0
expect_text "$err" "without --data-path each of the 4 columns counts as one number of no missing values"
expect_text "$out" tabular.numbers.weight tabular.columns.bias fusion.gate.weight
run plan --config piecewise.json --data-path kinds --params
expect "the tables' rows are those of the data" grep -q 'tabular.categories.weight *6 x 6' "$out"

# Bad input.
rejects 2 $(train piecewise bad --numeric-bins 0)
rejects 2 $(train piecewise bad --fusion sum)
sed '2,$s/,[0-9]*,\([0-9.]*\),\([01]\),/,,\1,\2,/' kinds/train.csv >empty.csv
rejects 65 $(train piecewise bad) --data-path empty.csv
finish
