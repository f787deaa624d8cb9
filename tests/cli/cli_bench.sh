# `trident bench`: comm gives consistent figures for every operation, for ranks started here and by hand; lab; pipeline.
. "$(dirname "$0")/../lib/cli_lib.sh"

field() { sed -n "s/.*\"$1\": *\\([^,}]*\\).*/\\1/p"; }
ops='all_reduce reduce_scatter all_gather broadcast reduce gather scatter all_to_all sendrecv barrier'

run bench comm --nproc-per-node 2 --op all --sizes 300000 --json
expect_code 0
expect "a line for each operation" test "$(wc -l <"$out")" = 10
for op in $ops; do expect "figures of $op" grep -q "\"op\":\"$op\"" "$out"; done
line=$(grep '"all_reduce","bytes":300000' "$out")
expect "bytes and ranks" test "$(echo "$line" | field bytes)/$(echo "$line" | field ranks)" = 300000/2
for key in time_us algbw_gbs busbw_gbs memcpy_ratio memcpy_gbs; do
    expect "$key > 0" is "$(echo "$line" | field $key)" '>' 0
done
# algbw = bytes / time; busbw of an all_reduce of 2 is the same; of a reduce_scatter, half. The ratio is that to
# memcpy's rate.
expect "algbw is bytes over time" is \
    "$(echo "$line" | awk -F'[:,]' '{ b = $4; t = $8; a = $10; print (b / t / 1000 - a) ^ 2 < (1e-3 * a) ^ 2 }')" == 1
expect "busbw of all_reduce" is "$(echo "$line" | field busbw_gbs)" == "$(echo "$line" | field algbw_gbs)"
line=$(grep '"reduce_scatter","bytes":300000' "$out")
expect "busbw of reduce_scatter" is "$(echo "$line" | awk -F'[:,]' '{ print ($10 / $12 - 2) ^ 2 < 1e-6 }')" == 1
expect "memcpy_ratio" is "$(echo "$line" | awk -F'[:,}]' '{ print ($10 / $16 / $14 - 1) ^ 2 < 1e-6 }')" == 1
expect "a barrier moves nothing" grep -q '"op":"barrier","bytes":0,' "$out"

# An odd number of ranks, more than there are cores, and sizes that do not divide: parts are rounded down, and one
# element is the least.
run bench comm --nproc-per-node 3 --op all_gather,all_reduce --sizes 4,1000
expect_code 0
expect "a table" grep -Eq '^op +bytes +ranks +time us +algbw GB/s +busbw GB/s +of memcpy$' "$out"
expect "all_gather of 999 / 12 elements" grep -Eq '^all_gather +996 +3 ' "$out"
expect "one element of each rank" grep -Eq '^all_gather +12 +3 ' "$out"
# A size has its time: a millisecond is less than a call of 64 MiB takes, which is left out, aloud.
run bench comm --nproc-per-node 2 --sizes 4K,4M,64M --seconds 0.001 --json
expect_code 0
expect "lines of what was measured" test "$(grep -c '"op":"all_reduce"' "$out")" = 2
expect "few calls of 4 MiB" is "$(sed -n 2p "$out" | field calls)" '<' 11
expect_text "$err" "all_reduce of 67108864 bytes is left out: one call would take about" "--seconds 0.001"
checked run bench comm --nproc-per-node 1 --sizes 4K --json
expect_code 0
expect_text "$out" '"ranks":1' '"busbw_gbs":0'

# Ranks that somebody else started meet; only the first prints.
port=$((20000 + $$ % 20000))
export WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port
RANK=1 LOCAL_RANK=1 "$trident" bench comm --sizes 4K --json >second 2>second.err &
RANK=0 LOCAL_RANK=0 checked run bench comm --sizes 4K --json
wait $!
code_second=$?
expect_code 0
expect "the second rank ends well: $(cat second.err)" test "$code_second" = 0
expect "the first rank prints" test "$(wc -l <"$out")" = 1
expect "the second does not" test ! -s second
RANK=0 LOCAL_RANK=0 rejects 2 bench comm --nproc-per-node 4 --sizes 4K
unset WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT

# Under mpirun MPI's own collectives are timed on the same buffers, and its results checked like ours.
if [ -e "$(dirname "$trident")/libtrident_mpi.so" ] && [ -z "${TRI_SANITIZED:-}" ] && mpirun --version 2>/dev/null |
    grep -q 'Open MPI'; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    last_command="mpirun -np 3 trident bench comm --op all_reduce,all_to_all,sendrecv --sizes 3000 --json"
    timeout -k 2 60 mpirun --oversubscribe --bind-to none --mca mpi_yield_when_idle 1 -np 3 "$trident" bench comm \
        --op all_reduce,all_to_all,sendrecv --sizes 3000 --json >"$out" 2>"$err"
    code=$?
    expect_code 0
    expect "a line for each operation" test "$(grep -c '"ranks":3' "$out")" = 3
    expect "MPI's time of all but sendrecv" test "$(grep -c '"mpi_time_us":' "$out")" = 2
    line=$(grep '"all_to_all"' "$out")
    expect "mpi_ratio is MPI's time over ours" is \
        "$(echo "$line" | awk -F'[:,}]' '{ print ($18 / $8 / $20 - 1) ^ 2 < 1e-6 }')" == 1
else
    echo "without mpirun: no such plug-in here, not Open MPI, or under a sanitizer"
fi

# The lab: every layout has a line; one that does not fit the limit says so, and the others are measured.
layouts='one ddp zero1 zero2 zero3 zero3_no_prefetch zero3_recompute zero3_offload pipeline tensor'
lab="bench lab --lab-model tiny --nproc-per-node 2 --max-steps 3 --quiet"
export TMPDIR=$work/tmp && mkdir "$TMPDIR"
run $lab --json
expect_code 0
expect "a line for each layout" test "$(wc -l <"$out")" = 10
for layout in $layouts; do
    expect "figures of $layout" grep -q "\"layout\":\"$layout\",.*\"fits\":true,.*\"samples_per_second\":" "$out"
done
expect "one rank is the measure" grep -q '"layout":"one","ranks":1,.*"efficiency":1\.0' "$out"
for layout in $layouts; do
    grep "\"layout\":\"$layout\"" "$out" >one
    expect "$layout took what was planned" is "$(field planned_bytes <one)" == "$(field allocated_bytes <one)"
    expect "$layout was seen to: $(cat one)" is "$(field held_bytes <one)" '>' 1e6
    expect "a share is no more than all of it" is "$(field held_bytes <one)" '<=' "$(field max_rss_bytes <one)"
done
expect "DDP sums by all_reduce" is "$(grep '"ddp"' "$out" | sed 's/.*"all_reduce":{"ms":\([^,]*\).*/\1/')" '>' 0
expect "a pipeline receives" is "$(grep '"pipeline"' "$out" | sed 's/.*"recv":{"ms":\([^,]*\).*/\1/')" '>' 0
expect "ZeRO-3 gathers" is "$(grep '"zero3"' "$out" | sed 's/.*"all_gather":{"ms":\([^,]*\).*/\1/')" '>' 0
limit=$(grep '"ddp"' "$out" | field planned_bytes | awk '{ printf "%d", 2 * $1 - 1 }')
run $lab --memory-limit "$limit"
expect_code 0
expect "DDP is refused" grep -Eq '^ +2 +DDP .* - +2 ranks need .*: --shard zero1 would need' "$out"
expect "ZeRO-1 is not" grep -Eq '^ +2 +ZeRO-1 .* (compute|communication|loading)$' "$out"
expect "nothing is left behind" test -z "$(ls "$TMPDIR")"
rejects 2 bench lab --lab-model tiny --max-steps 1
rejects 2 bench lab --layouts one,zero4
run $lab --json --layouts tensor,one
expect "those asked for" test "$(sed 's/.*"layout":"\([^"]*\)".*/\1/' "$out" | paste -sd,)" = one,tensor

# The user's configuration and data: layouts by hand beside one device.
(cd "$work" && make_all)
mine="bench lab --config $work/config.json --data-path $work/data --nproc-per-node 2 --max-steps 3 --quiet"
run $mine --layouts "fsdp; zero1,bucket_mb=1; pp=3" --json
expect_code 0
expect "a row for each, the first of one device" test "$(grep -o '"layout":"[^"]*"' "$out" | paste -sd' ')" = \
    '"layout":"one device" "layout":"fsdp" "layout":"zero1,bucket_mb=1" "layout":"pp=3"'
expect "three of them ran" test "$(grep -o '"fits":true' "$out" | wc -l)" = 3
expect_text "$out" '"times":1.0,"efficiency":1.0' 'no whole number fits'
run $mine --layouts zero3 -o "$work/lab.html"
expect_code 0
expect_text "$work/lab.html" '<title>Trident layouts</title>' '"layout":"zero3","fits":true'
expect "nothing is left behind" test -z "$(ls "$TMPDIR")"
rejects 2 bench lab --config "$work/config.json" --layouts zero3
rejects 2 $mine -o lab.pdf

# The pipeline: a line for each schedule and each shape that it can have.
pipe="bench pipeline --lab-model tiny --pp-size 2 --num-microbatches 3 --max-steps 3 --quiet"
run $pipe --schedules zb-h1,zbv --json
expect_code 0
expect "schedules in their order, both shapes where there are" test \
    "$(sed 's/.*"schedule":"\([^"]*\)","shape":"\([^"]*\)".*/\1 \2/' "$out" | paste -sd,)" = \
    "zb-h1 chain,zb-h1 branch,zbv chain"
while read -r line; do
    echo "$line" >one
    expect "what was asked for" grep -q '"model":"tiny","device":"timed",.*"stages":2,"microbatches":3' one
    for key in step_ms flow_ms predicted_bubble activation_bytes; do
        expect "$key > 0: $line" is "$(field $key <one)" '>' 0
    done
    expect "a bubble is a share: $line" is "$(field bubble <one)" '<' 1
    expect "the ratio is that of the bubbles" is \
        "$(awk -v a="$(field bubble <one)" -v b="$(field predicted_bubble <one)" -v r="$(field ratio <one)" \
        'BEGIN { print (a / b - r) ^ 2 < 1e-8 }')" == 1
done <"$out"
run $pipe --schedules 1f1b --pipeline-shape branch --device cpu
expect_code 0
expect_text "$out" "2 encoders of 2 layers x 64, 2 stages on device cpu, 3 microbatches of 2 x 16 tokens"
expect "one row" test "$(grep -c '1f1b *branch .* %' "$out")" = 1
expect "nothing is left behind" test -z "$(ls "$TMPDIR")"
unset TMPDIR
rejects 2 bench pipeline --schedules 1f1b,zb-h2
rejects 2 bench pipeline --schedules zbv --pipeline-shape branch
rejects 2 bench pipeline --pp-size 1
rejects 2 bench pipeline --max-steps 1

# Devices that compute nothing say so, and have no predictions.
make_all
run train --config config.json --data-path data --output-dir hollow --device null --max-steps 2 --batch-size 8
expect_code 0
expect_text "$err" "--device null computes nothing: weights stay as they are"
rejects 2 eval --checkpoint hollow --data-path data/test.csv --device null
rejects 2 bench step --device null
run plan --config config.json --device null --json
expect_code 0

rejects 2 bench kernels
rejects 2 bench
rejects 2 bench comm --op all_reduse
rejects 2 bench comm --sizes 4K,25X
rejects 2 bench comm --sizes 1
rejects 2 bench comm --sizes 9G
rejects 2 bench comm --sizes=-4K
rejects 2 bench comm --epochs 2
# ---- step ----
run bench step --cases tiny --max-steps 7 --precision bf16 --json --quiet
expect_code 0
for key in step_ms step_ms_mean first_step_seconds samples_per_second mfu ceiling_tflops planned_bytes; do
    expect "$key > 0" is "$(json_number $key "$out")" '>' 0
done
expect "128 tokens" test "$(json_number tokens "$out")" = 128
expect_text "$out" '"case":"tiny"' '"attention_din_db":'
run bench step --max-steps 6
expect_code 0
expect "a table" grep -Eq '^case +what +ms a step +samples/s +MFU' "$out"
rejects 2 bench step --cases huge --quiet
rejects 2 bench step --max-steps 5
rejects 2 bench step --device abacus

# ---- serve ----
# The forward-only program alone, on made tokens and on given lengths.
printf '5 2\n16 9\n3 4\n' >lengths
checked run bench serve --cases tiny:2x16,tiny:2xmixed --lengths lengths --max-steps 2 --json
expect_code 0
expect "a line for each case" test "$(wc -l <"$out")" = 2
expect_text "$out" '"case":"tiny:2x16"' '"rows":2,"tokens":64,"batches":1,"runs":2' '"operations_ms":{' \
    '"case":"tiny:2xmixed"' '"rows":3,"tokens":39,"batches":2,"runs":4'
expect "rows a second" is "$(head -n 1 "$out" | field rows_per_second)" '>' 0
rejects 2 bench serve --cases tiny:2y16
rejects 2 bench serve --cases other:2x16
rejects 2 bench serve --cases tiny:2x513
printf '5 2\n16\n' >lengths
rejects 65 bench serve --cases tiny:2xmixed --lengths lengths
rejects 66 bench serve --cases tiny:2xmixed --lengths no-lengths
finish
