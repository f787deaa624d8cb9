# What a run records of itself: profiles of every rank, shares, MFU, traces merged on one clock.
. "$(dirname "$0")/../lib/cli_lib.sh"
make_all
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE
pipeline=(train --config config.json --data-path data --batch-size 8 --threads 1 --quiet --nproc-per-node 4 --pp-size 2
    --dp-size 2 --num-microbatches 2)

# Every run leaves a profile of each rank. Shares are within 0 and 1 and sum to at most 1, also after a validation.
run "${pipeline[@]}" --max-steps 18 --epochs 9 --output-dir run --profile wait=1,active=3
expect_code 0
expect_text "$out" "transfer " "all_reduce" "send" "module " "attention"
for rank in 0 1 2 3; do
    expect_text run/profile-rank$rank.json '"format":1' "\"rank\":$rank" '"steps":[2,4]' '"legs":[["F",0' \
        '"kind":"control"' '"modules":{"name":"model"' '"shares":{"steps":18'
done
expect "shares within 0 and 1" awk '
    function get(key) { if (!match($0, "\"" key "\":[-0-9.e]+")) return -1
                        split(substr($0, RSTART, RLENGTH), part, ":"); return part[2] + 0 }
    /"event":"train"/ { n++; sum = get("loader_share") + get("comm_share") + get("idle_share")
        if (get("loader_share") < 0 || get("comm_share") < 0 || get("idle_share") < 0 || sum > 1) bad = 1
        if (get("mfu") <= 0 || get("mfu") > 1) bad = 1 }
    END { exit bad || n != 18 }' run/metrics.jsonl
expect_text run/metrics.jsonl '"peak_flops":' '"peak_from":"measured"'

# The peak is kept: that of a quieter hour counts, and one that is too low, or a damaged file, is replaced.
peaks=$XDG_CACHE_HOME/trident/peaks.json
peak_of() { sed -n 's/.*"peak_flops":\([0-9.e+]*\),.*/\1/p' "$1/metrics.jsonl"; }
expect_text "$peaks" '"trident-peaks"' 'threads=1": '
for kept in 1e20 1 damaged; do
    sed "s/\": [0-9][0-9.e+]*\$/\": $kept/" "$peaks" >x && mv x "$peaks"
    run train --config config.json --data-path data --max-steps 2 --threads 1 --quiet --output-dir peak-$kept
    expect_code 0
done
expect "a higher one counts" test "$(peak_of peak-1e20)" = 1e20
for kept in 1 damaged; do
    expect "measured anew: $kept" awk -v peak="$(peak_of peak-$kept)" 'BEGIN { exit !(peak > 1e6 && peak < 1e18) }'
done
expect "and kept" grep -Eq 'threads=1": [1-9][0-9.]*e[0-9]' "$peaks"
env -u HOME -u XDG_CACHE_HOME "$trident" train --config config.json --data-path data --max-steps 1 --threads 1 \
    --quiet --output-dir homeless >"$out" 2>"$err"
expect "no folder for it, no error" test $? = 0
expect_text run/summary.json '"modules"' '"layers"' '"idle_share"' '"waiting_seconds"'

# A short run without --profile records what it can.
run train --config config.json --data-path data --max-steps 2 --threads 1 --quiet --output-dir short
expect_code 0
expect_text short/profile-rank0.json '"steps":[1,2]'
expect "no trace without --profile" test ! -e short/trace-rank0.json

# One file for Perfetto: a message of each microbatch, forward and backward, of both replicas and three steps.
run trace run
expect_code 0
expect_text "$out" "run/trace.json: " "of 4 of 4 ranks, 24 messages"
expect "24 messages are drawn" test "$(grep -c '"ph":"s","name":"message"' run/trace.json)" = 24
expect "each arrow has two ends" test "$(grep -c '"ph":"s"' run/trace.json)" = "$(grep -c '"ph":"f"' run/trace.json)"
run trace run --json -o merged.json
expect_code 0
expect_text "$out" '"missing":[]' '"cut":[]' '"path":"merged.json"'
expect "the same trace" cmp -s merged.json run/trace.json

# A trace of a start on more ranks is left out.
sed '1s/"world_size":4/"world_size":8/' run/trace-rank3.json >run/trace-rank7.json
run trace run -o again.json
expect_text "$err" "on another number of ranks: the trace of rank 7"
expect "the same trace again" cmp -s again.json merged.json
rm run/trace-rank7.json

# A trace that is cut off, and one that is missing, are named.
head -c 20000 run/trace-rank1.json >cut && mv cut run/trace-rank1.json && rm run/trace-rank2.json
run trace run
expect_code 0
expect_text "$err" "no trace of rank 2" "cut off, its whole events are merged: rank 1"
rejects 66 trace short
rejects 66 trace nowhere
rejects 2 trace
echo '{"ph":"X"' >>run/trace-rank0.json && sed -i '9s/.*/{"ph":"X", oops/' run/trace-rank3.json
rejects 65 trace run
finish
