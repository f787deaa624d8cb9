# cli_stages.sh - the stages that are announced, printed and reported are those that run, also on meshes where tp
# changes the division: every rank holds the weights of its announced stage, whether stages are divided by cost, by
# branch, or as given.
project=$(cd "$(dirname "$0")/../.." && pwd)
. "$(dirname "$0")/../lib/cli_lib.sh"
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE
tiny=(--tiny --config "$project/configs/hybrid_3d_16gpu.json" --max_sen_len 64)

# "primary.layer.0-1 tabular" as single units, a line each.
units() {
    awk '{ gsub(/,/, " ")
        for (i = 1; i <= NF; i++) {
            if (match($i, /[0-9]+-[0-9]+$/)) {
                split(substr($i, RSTART), ends, "-")
                for (k = ends[1]; k <= ends[2]; k++) print substr($i, 1, RSTART - 1) k
            } else print $i
        } }' | sort
}
# The units whose weights a rank's program has: holds RANK OPTIONS...
holds() {
    local rank=$1
    shift
    "$trident" plan "$@" --quiet --print-program "$rank" | sed -n 's/^slot p\.\([^ ]*\) param .*/\1/p' | sort
}
# What the last run announced for a rank, which may have several stages: announced RANK.
announced() {
    awk -v rank="$1" '/^stage [0-9]+ on ranks? / {
        n = split($5, runs, ","); sub(/:$/, "", runs[n])
        for (i = 1; i <= n; i++) {
            k = split(runs[i], ends, "-")
            if (rank >= ends[1] && rank <= ends[k]) { sub(/^[^:]*: /, ""); print; next }
        } }' "$err" | units
}
# stages PP TP OPTIONS...: one rank of each place holds what was announced for it.
stages() {
    local pp=$1 tp=$2 place rank
    shift 2
    local all=("${tiny[@]}" --world-size $((pp * tp)) --pp-size "$pp" --tp-size "$tp" "$@")
    run plan "${all[@]}" --json --params
    expect_code 0
    for ((place = 0; place < pp; place++)); do
        rank=$((place * tp + tp - 1))
        announced "$rank" >said
        holds "$rank" "${all[@]}" >held
        expect "pp $pp, tp $tp, $*: rank $rank holds $(paste -sd' ' held), announced was $(paste -sd' ' said)" cmp \
            -s said held
        expect "the rank holds something" test -s held
    done
    sed 's/.*"params":{//' "$out" | grep -o '"units":"[^"]*"' | sed 's/.*:"\(.*\)"/\1/' | units >listed
    for ((place = 0; place < pp; place++)); do announced $((place * tp)); done | sort >said
    expect "--params lists the same stages" cmp -s said listed
}
for mesh in "2 1" "4 1" "2 2" "3 2" "4 2" "5 2" "4 4"; do
    set -- $mesh
    for shape in chain branch auto; do stages "$1" "$2" --pipeline-shape $shape; done
done
stages 4 2 --schedule zb-h1
stages 2 2 --schedule interleaved
stages 2 2 --schedule zbv
given='primary.embeddings,primary.layer primary.pooling,secondary.embeddings secondary.layer.0'
given+=',secondary.layer.1 secondary.pooling tabular fusion'
stages 4 2 --stages "$given"
stages 4 2 --stages "$given" --pipeline-shape branch

# The same in a run: what it announces and what its summary says, of 8 ranks; they train what `plan` prints.
mkdir data models
awk 'BEGIN { print "label,dialogue,shiptrack,feature_1,feature_2,feature_3"
    for (i = 0; i < 64; i++)
        printf "%d,the box was %s,a box %s,%d,%d,%d\n", i % 2, i % 2 ? "bad" : "good", i % 2 ? "lost" : "found",
            i % 7, i % 5, i % 3 }' >data/train.csv
cp data/train.csv data/valid.csv
make_model models/bert-base-cased
run=("${tiny[@]}" --pp-size 4 --tp-size 2 --pipeline-shape chain --primary_tokenizer bert-base-cased
    --secondary_tokenizer bert-base-cased
    --models-dir models --data-path data --batch-size 8 --num-microbatches 4)
run train "${run[@]}" --nproc-per-node 8 --threads 1 --max-steps 2 --save-every 0 --output-dir trained
expect_code 0
sed 's/.*"stages":\[//' trained/summary.json | tr -d '\n' | grep -o '"units": *"[^"]*"' |
    sed 's/.*: *"\(.*\)"/\1/' >reported
for place in 0 1 2 3; do
    announced $((2 * place)) >said
    holds $((2 * place)) "${run[@]}" --world-size 8 >held
    expect "a run of 8 ranks announces what rank $((2 * place)) holds: $(paste -sd' ' said), $(paste -sd' ' held)" cmp \
        -s said held
    sed -n "$((place + 1))p" reported | units >told
    expect "its summary reports the same: $(paste -sd' ' told)" cmp -s told held
done
finish
