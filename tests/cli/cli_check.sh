# cli_check.sh - printed programs: `trident check` proves them and names the line that was broken, `trident simulate
# --program` times them as it times the plan, and `trident plan --print-after` shows them between any two passes.
project=$(cd "$(dirname "$0")/../.." && pwd)
. "$(dirname "$0")/../lib/cli_lib.sh"
config=$project/configs/hybrid_3d_16gpu.json
layout=(--config "$config" --tiny --quiet --max_sen_len 64 --batch-size 16)
mesh=(--world-size 8 --pp-size 2 --tp-size 2)

# print_ranks FOLDER WORLD OPTIONS...: a file for each rank.
print_ranks() {
    local folder=$1 world=$2 rank
    shift 2
    mkdir -p "$folder"
    for ((rank = 0; rank < world; rank++)); do
        "$trident" plan "${layout[@]}" "$@" --print-program "$rank" >"$folder/r$rank.txt" || fail "rank $rank"
    done
}
# first_line FILE PATTERN: the number of the first line that has it; last_line likewise.
first_line() { grep -nE -- "$2" "$1" | head -n 1 | cut -d: -f1; }
last_line() { grep -nE -- "$2" "$1" | tail -n 1 | cut -d: -f1; }
# fresh: a copy of the programs in bad/, to be edited.
fresh() { rm -rf bad && cp -r good bad; }
# says LOCATION TEXT...: bad/ is refused, at that place, for these reasons.
says() {
    local at=$1
    shift
    case $at in *:) ;; *) at+=: ;; esac
    refuses 65 "trident: bad/$at" "$@" -- check bad/r*.txt
}

# All ranks, in a file each or in one.
print_ranks good 8 "${mesh[@]}"
run check good/r*.txt
expect_code 0
said='[0-9,]+ instructions, [0-9,]+ transfers between ranks, at most [0-9,]+ bytes a rank: proven'
expect "what was proven" grep -Eq "^trimodal train: 8 ranks, $said\$" "$out"
cp "$out" proven
run plan "${layout[@]}" "${mesh[@]}" --print-program all
expect_code 0
cp "$out" all.txt
expect "the file of all ranks is theirs, one after the other" sh -c 'cat good/r*.txt | cmp - all.txt'
run check all.txt
expect_code 0
expect "the same was proven" cmp -s "$out" proven
run check --json all.txt
expect_code 0
expect_text "$out" '"checked":true' '"title":"trimodal train"' '"ranks":8'
run check <(cat all.txt)
expect_code 0
expect "the same was proven of a pipe" cmp -s "$out" proven
sed 's/$/\r/' all.txt >windows.txt
run check windows.txt
expect_code 0
for options in "--world-size 4 --shard zero3 --precision bf16" \
    "--world-size 4 --pp-size 4 --schedule zb-h1 --recompute full" \
    "--world-size 6 --pp-size 3 --mesh-order dp,tp,pp --shard zero1" "--offload optimizer"; do
    run plan "${layout[@]}" $options --print-program all
    expect_code 0
    cp "$out" more.txt
    checked run check more.txt
    expect_code 0
done

# send_of FILE first|last: the line and slot of a send.
send_of() {
    post=$("$2"_line "$1" ' send_post ')
    slot=$(sed -n "${post}s/.* send_post *<- \([^[]*\).*/\1/p" "$1")
}

# A send that is gone: its wait finds nothing under way. With the wait gone as well, the next send meets its receive;
# the last one's receiver waits in vain, and the sender for what would follow.
send_of good/r0.txt first
fresh
sed -i "${post}d" bad/r0.txt
gone=$(first_line bad/r0.txt " wait +_ <- $slot")
says "r0.txt:$gone" "wait: no transfer of these slots is in flight"
sed -i "${gone}d" bad/r0.txt
says "r4.txt:$(first_line good/r4.txt " recv_post +$slot")" \
    "ranks 0 and 4 differ in transfer 0 of their group: bad/r0.txt:" "; but bad/r4.txt:"
send_of good/r0.txt last
fresh
sed -i -e "${post}d" -e "$(first_line good/r0.txt " wait +_ <- $slot")d" bad/r0.txt
wait=$(first_line good/r4.txt " wait +$slot")
says "r0.txt:" "deadlock: rank 0 waits at" \
    "rank 4 waits at bad/r4.txt:$wait for rank 0 to join in what bad/r4.txt:$(first_line good/r4.txt \
    " recv_post +$slot")"

# Two collectives in another order, on one of the ranks that take part.
fresh
a=$(first_line good/r1.txt ' all_reduce_post .*axes=tp( |$)') \
    b=$(last_line good/r1.txt ' all_reduce_post .*axes=tp( |$)')
expect "there are two" test "$a" -lt "$b"
sed -i -e "${a}{h;d};${b}{G}" bad/r1.txt
says "r1.txt:$a" "ranks 3 and 1 differ in transfer" ": bad/r3.txt:" \
    "; but bad/r1.txt:$a (all_reduce_post g.primary.layer.0.tokens"

# Sizes: of a slot whose views then leave it; of what one rank sends.
fresh
parent=$(first_line good/r2.txt '^slot g\..* grad f32 \[1,')
name=$(sed -n "${parent}s/^slot \([^ ]*\) .*/\1/p" good/r2.txt)
sed -i "${parent}s/\[1,[0-9]*\]/[1,3]/" bad/r2.txt
says "r2.txt:$(first_line good/r2.txt "^view [^ ]* of $name ")" "is not inside $name"
fresh
sum=$(first_line good/r3.txt '^slot grad.sumsq ')
expect "a slot is too large for its class" sed -i "${sum}s/\[1,[0-9]*\]/[1,1000]/" bad/r3.txt
says "r3.txt:$sum" "grad.sumsq is outside the memory of class result"

# Memory: a value that is read after its memory went to another, two that lie on each other, one before the first.
fresh
use=$(first_line good/r0.txt ' linear .*mb 0')
sed -n "${use}p" good/r0.txt >>bad/r0.txt
says "r0.txt:$(wc -l <bad/r0.txt)" "linear: " "is read after its memory went to"
fresh
y=$(sed -n "${use}s/^[0-9]* linear *\([^[]*\).*/\1/p" good/r0.txt) \
    x=$(sed -n "${use}s/.* <- \([^[]*\).*/\1/p" good/r0.txt)
offset=$(sed -n "s/^slot $x .* @\([0-9]*\) .*/\1/p" good/r0.txt)
sed -i "s/^\(slot $y .*\) @[0-9]* /\1 @$offset /" bad/r0.txt
says "r0.txt:$use" "linear: $y overlaps $x"
fresh
sed -i "${use}d" bad/r0.txt
says "r0.txt:$(first_line bad/r0.txt " <- $y")" "$y is read before it is written"

# What is not there, twice there, or of another run.
fresh
rm bad/r5.txt bad/r7.txt
says "r0.txt:1" "one of 8 ranks; there are no program of ranks 5, 7" "--print-program all"
fresh
cp good/r3.txt bad/r8.txt
says "r8.txt:1" "a second program of rank 3: the first is bad/r3.txt:1"
fresh
"$trident" plan "${layout[@]}" --world-size 8 --pp-size 4 --print-program 2 >bad/r2.txt
says "r2.txt:1" "has another mesh than bad/r0.txt:1"
fresh
sed -i 's/^max T0=[0-9]*/max T0=2/' bad/r6.txt
says "r6.txt:1" "has another largest microbatch than bad/r0.txt:1"
fresh
sed -i 's/^\(mesh .*\) rank=1 /\1 rank=9 /' bad/r1.txt
says "r1.txt:1" "rank 9 of a mesh of 8 ranks"
: >empty.txt
rejects 65 check empty.txt
rejects 65 check "$config"
rejects 65 check "$trident"
rejects 65 check good/r0.txt
rejects 66 check good/r0.txt nothing.txt
rejects 74 check good
rejects 2 check
head -c 20000 good/r0.txt >torn.txt
refuses 65 "torn.txt:" -- check torn.txt
head -c 4096 /dev/urandom | tr -d '\0' >junk.txt
refuses 65 "junk.txt:" -- check junk.txt

# Programs of several kinds: each kind is proven.
for kind in start infer; do
    run plan "${layout[@]}" "${mesh[@]}" --shard zero1 --precision bf16 --print-kind "$kind" --print-program all
    expect_code 0
    cp "$out" "$kind.txt"
done
run check start.txt good/r*.txt infer.txt
expect_code 0
expect "three kinds" test "$(cut -d: -f1 "$out" | xargs)" = "trimodal start trimodal train trimodal infer"
rejects 65 simulate --program start.txt good/r*.txt infer.txt
run plan "${layout[@]}" "${mesh[@]}" --print-kind start --print-program all
cp "$out" start.txt

# Times: those of the plan, whether its ranks are planned or read.
for hardware in h200x8 cpu; do
    device=cpu
    [ $hardware = cpu ] || device=cuda # its programs, without its plug-in
    run plan "${layout[@]}" "${mesh[@]}" --device $device --print-program all
    cp "$out" timed.txt
    run plan "${layout[@]}" "${mesh[@]}" --device $device --print-kind start --print-program all
    cp "$out" timed_start.txt
    run simulate "${layout[@]}" "${mesh[@]}" --hardware "$hardware" --json
    expect_code 0
    # what only the plan knows
    sed 's/,"microbatches_held":[^,}]*//g; s/,"schedule":"[^"]*"//; s/,"forecast":{[^}]*}//' "$out" >planned.json
    planned=$(json_number step_seconds planned.json)
    checked run simulate --program timed.txt timed_start.txt --hardware "$hardware" --json
    expect_code 0
    expect "a step takes $planned s on $hardware" test "$(json_number step_seconds "$out")" = "$planned"
    expect "all figures of all ranks are the same" cmp -s "$out" planned.json
done
run simulate --program all.txt --timeline
expect_code 0
expect_text "$out" "on cpu a step takes" "most activations: rank 0"
expect "8 rows" test "$(grep -c '^rank  *[0-9]* [FBWU0-9.]*$' "$out")" = 8
run simulate --program good/r0.txt --program good/r1.txt,good/r2.txt good/r[3-7].txt --hardware cpu
expect_code 0
fresh
send_of good/r0.txt first
sed -i "${post}d" bad/r0.txt
refuses 65 "bad/r0.txt:$gone: wait: no transfer" -- simulate --program bad/r*.txt --hardware cpu
rejects 2 simulate "${layout[@]}" --program all.txt --hardware cpu
rejects 2 simulate all.txt --hardware cpu
rejects 2 simulate --hardware cpu
printf 'program nothing\nmesh pp=1 tp=1 dp=1 rank=0 microbatches=1\n' >none.txt
rejects 65 simulate --program none.txt

# Two lanes: each wait between them is needed.
lanes=$project/fuzz/corpus/program/lanes
run check "$lanes"
expect_code 0
for wait in 0 2 3; do
    sed "s/  after $wait\$//" "$lanes" >lanes.txt
    rejects 65 check lanes.txt
done
sed 's/after 2$/after 3/' "$lanes" >lanes.txt
rejects 65 check lanes.txt
run simulate --program "$lanes" --hardware h200x8
expect_code 0

# Between passes.
run plan --print-after help
expect_code 0
cp "$out" passes
expect "a dozen passes and more" test "$(wc -l <passes)" -ge 12
expect "each with its line" sh -c "! grep -Evq '^[a-z0-9_]+ +[^ ]+ .*' passes"
expect "the first and the last" test "$(cut -d' ' -f1 passes | sed -n '1p;$p' | xargs)" = "forward waits"
for pass in $(cut -d' ' -f1 passes); do
    run plan "${layout[@]}" "${mesh[@]}" --print-after "$pass" --print-program 5
    expect_code 0
    expect "after $pass" sh -c "head -n 1 '$out' | grep -q '^# after pass $pass: '"
    expect "instructions of rank 5 after $pass" sh -c "grep -q ' rank=5 ' '$out' && grep -Eq '^[0-9]+ linear' '$out'"
    cp "$out" "after_$pass.txt"
done
expect "a template until schedule" grep -q "microbatches=1$" after_turns.txt
expect "all microbatches from there on" grep -q "microbatches=4$" after_schedule.txt
expect "no transfer before tensor_lower" sh -c "! grep -q '_post ' after_prune.txt"
expect "tensor_lower adds some" grep -q 'all_gather_post .*axes=tp' after_tensor_lower.txt
expect "what was not needed says so" grep -q '^# it was not needed here, only for --recompute' after_recompute.txt
expect "no offset before memory" sh -c "! grep -q ' @' after_offload.txt"
run plan "${layout[@]}" "${mesh[@]}" --print-program 5
expect "memory leaves the plan's program" sh -c "tail -n +2 after_memory.txt | cmp - '$out'"
run plan "${layout[@]}" --print-after shard
expect_code 0
expect_text "$out" " rank=0 "
cp "$out" template.txt
refuses 65 "template.txt:" "has no offset yet" -- check template.txt
run plan "${layout[@]}" --print-after shard --json
expect_code 0
expect_text "$out" '"program":"# after pass shard'
rejects 2 plan "${layout[@]}" --print-after folding
run plan "${layout[@]}" --print-kind infer --print-after prune
expect_code 0
expect_text "$out" "program trimodal infer"
for view in --check --timeline "--svg step.svg" --csv --params "--hardware cpu"; do
    rejects 2 plan "${layout[@]}" --print-after prune $view
done
expect "nothing was drawn" test ! -e step.svg
for view in --timeline --csv --params "--hardware h200x8"; do
    rejects 2 plan "${layout[@]}" --print-program 0 $view
done
rejects 2 plan "${layout[@]}" --print-kind start --print-after prune
rejects 2 plan "${layout[@]}" "${mesh[@]}" --print-after shard --print-program 8
finish
