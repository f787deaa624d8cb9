# Weights of rows in the training loss (--weight-name): their scale does not matter, rows that weigh nothing teach
# nothing, every layout has the same losses; parts of one table; what is no weight.
. "$(dirname "$0")/../lib/cli_lib.sh"
make_all
options=(--config config.json --epochs 2 --batch-size 16 --num-microbatches 2 --seed 3 --log-every 1 --quiet)
# weighted DATA FORMULA: the data with a column "factor", computed from the row's number n.
weighted() {
    mkdir -p "$1"
    for table in train valid test; do
        awk -F, -v OFS=, "NR == 1 { print \$0, \"factor\"; next } { n = NR - 2; print \$0, $2 }" data/$table.csv \
            >"$1/$table.csv"
    done
}
weighted same 3
weighted ramp '0.25 + n % 5'
train() { run train "${options[@]}" --output-dir "$1" --data-path "$2" "${@:3}"; expect_code 0; }
close() { # RUN OTHER LIMIT
    expect "$1 and $2 differ by less than $3: $(apart "$1" "$2")" is "$(apart "$1" "$2")" '<' "$3"
}

train none data
train all-alike same --weight-name factor
close none all-alike 1e-6
train one ramp --weight-name factor
expect "weights change what is learnt" is "$(apart none one)" '>' 1e-3

# A row of weight 0 may have any label.
weighted some 'n % 3 ? 1 : 0'
mkdir -p turned
cp some/valid.csv some/test.csv turned
awk -F, -v OFS=, 'NR > 1 && $NF == 0 { $(NF - 1) = 1 - $(NF - 1) } 1' some/train.csv >turned/train.csv
expect "some labels are turned" test -n "$(diff some/train.csv turned/train.csv)"
train some some --weight-name factor
train turned turned --weight-name factor
close some turned 1e-9

# Ranks, stages, local steps, accumulation in other sizes.
train two ramp --weight-name factor --nproc-per-node 2 --batch-size 8 --num-microbatches 2
close one two 2e-6
train staged ramp --weight-name factor --nproc-per-node 2 --pp-size 2
close one staged 2e-6
train tensor ramp --weight-name factor --nproc-per-node 2 --tp-size 2
close one tensor 1e-5
train sharded ramp --weight-name factor --nproc-per-node 2 --batch-size 8 --shard zero3
close one sharded 2e-6

# The second start reads the store; a divided table is what its parts are as tables.
run train "${options[@]}" --output-dir one --data-path ramp --weight-name factor --epochs 3
expect_code 0
mkdir -p whole
cp ramp/train.csv whole/all.csv
run train "${options[@]}" --output-dir divided --data-path whole/all.csv --weight-name factor --split 0.8,0.2
expect_code 0
run eval --checkpoint divided --data-path whole/all.csv --part valid --json --quiet
expect_code 0
run predict --checkpoint one --data-path data/test.csv --quiet
expect_code 0

# What is no weight.
weighted bad 'n == 6 ? -1 : 1'
rejects 65 train "${options[@]}" --output-dir bad-run --data-path bad --weight-name factor
expect_text "$err" 'bad/train.csv:8:' '"-1" in column "factor" is not a weight: a number from 0'
run train "${options[@]}" --output-dir skipped --data-path bad --weight-name factor --bad-rows skip
expect_code 0
rejects 65 train "${options[@]}" --output-dir none-run --data-path ramp --weight-name facto
expect_text "$err" 'there is no column "facto" (did you mean "factor"?)'
weighted zero 0
rejects 65 train "${options[@]}" --output-dir zero-run --data-path zero --weight-name factor
expect_text "$err" "step 1: all its rows weigh 0"
finish
