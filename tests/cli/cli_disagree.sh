# Ranks with different inputs: other data under the same name, other settings. All exit with 76, and the message names
# the rank that differs.
. "$(dirname "$0")/../lib/cli_lib.sh"
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT SLURM_PROCID OMPI_COMM_WORLD_RANK PMI_RANK
make_all
for who in 0 1 2; do # each rank has a folder of its own, where the same words may mean something else
    mkdir "$who"
    cp -r data config.json "$who"
done
common=(train --config config.json --data-path data --output-dir "$work/run" --batch-size 8 --max-steps 2 --quiet)
port=$((20000 + $$ % 20000))

# by_hand N WHO [OPTION...]: N ranks by hand, rank WHO with these further options; exit codes in ${codes[@]},
# milliseconds in $took.
by_hand() {
    local n=$1 who=$2 r extra pids=() begin
    shift 2
    port=$((port + 1))
    last_command="$n ranks by hand, rank $who: $*"
    rm -rf run
    begin=$(date +%s%N)
    for ((r = 0; r < n; r++)); do
        extra=()
        [ "$r" = "$who" ] && extra=("$@")
        (cd "$r" && RANK=$r WORLD_SIZE=$n MASTER_PORT=$port exec "$trident" "${common[@]}" "${extra[@]}") \
            >"$work/out$r" 2>"$work/err$r" &
        pids+=($!)
    done
    codes=()
    for r in "${pids[@]}"; do
        wait "$r"
        codes+=($?)
    done
    took=$((($(date +%s%N) - begin) / 1000000))
    cat "$work"/err? >"$err"
    code=${codes[*]}
}
# odd N WHO TEXT [OPTION...]: all end with 76 soon, and the words name rank WHO.
odd() {
    local n=$1 who=$2 text=$3
    shift 3
    by_hand "$n" "$who" "$@"
    expect_code "$(yes 76 | head -n "$n" | paste -sd' ')"
    expect_text "$err" "rank $who: $text"
    [ -n "${TRI_SANITIZED:-}" ] || expect "all have ended soon ($took ms)" test "$took" -lt 3000
}

by_hand 2 0
expect_code "0 0" # they do agree otherwise
sed -i '3s/,[01]$/,1/;4s/,[01]$/,1/;5s/,[01]$/,0/' 1/data/train.csv # labels
odd 2 1 "the version, the settings or the data differ from rank 0's"
by_hand 3 1
expect_text "$err" "rank 1: the version"
cp data/train.csv 1/data/train.csv
sed -i '7s/box/fine/' 0/data/train.csv # one word, on rank 0: the others are more
odd 3 0 "the version, the settings or the data differ from rank 1's"
cp data/train.csv 0/data/train.csv
odd 3 2 "the version, the settings or the data differ from rank 0's" --lr 2e-3
odd 2 1 "" --num-microbatches 2
odd 2 1 "the version, the settings or the data differ from rank 0's" --compress-gradients int8
by_hand 2 1 --threads 1 # a matter of each rank
expect_code "0 0"
common+=(--cp-size 2)
odd 2 1 "the version, the settings or the data differ from rank 0's" --cp-mode ring
finish
