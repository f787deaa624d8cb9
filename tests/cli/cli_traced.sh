# The crash matrix again, with strace: it kills a real run during a system call of its commit, or makes the call fail.
# Afterwards there is the complete old state or the complete new one, and the run can resume to the same weights.
# timeout: 200
. "$(dirname "$0")/../lib/cli_lib.sh"
command -v strace >/dev/null && strace -qq -o /dev/null true 2>/dev/null ||
    { echo "no strace here, or it may not trace" && exit 77; }
[ -z "${TRI_SANITIZED:-}" ] || { echo "a sanitizer and strace do not go together" && exit 77; }
make_all
mkdir plain && cp data/train.csv plain
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE
common=(train --config config.json --data-path plain --batch-size 8 --max-steps 10 --threads 1 --save-steps 5 --keep 9
    --quiet --cache-dir "$work/cache")
stride=6
[ "${SOAK_CALLS:-0}" = 0 ] || stride=1
digest() { "$trident" digest "$1" 2>/dev/null; }

run "${common[@]}" --output-dir whole
expect_code 0
old=$(digest whole/checkpoint-5) new=$(digest whole/checkpoint-10)
cp -r whole start && rm -r start/checkpoint-10

# The order in which a new run reaches the disk: its folder's name, metrics.jsonl with all steps until the checkpoint,
# then the checkpoint; at the end the lines of the last steps before the summary.
sync_order() { # FOLDER TRACE
    awk -v here="$work" -v run="$1" '
        /mkdir(at)?\(.*"new"|mkdir(at)?\(.*new\/deep"/ && / = 0/ { made++ }
        /fsync\(/ && index($0, "<" here ">") { parent = made >= 1 }
        /fsync\(/ && index($0, "<" here "/new>") { inner = made >= 2 }
        /fsync\(/ && index($0, run "/metrics.jsonl>") { synced = 1 }
        /renameat2?\(/ && /\.tmp\.[0-9]+", .*checkpoint-[0-9]+"/ && / = 0/ { commits++; bad += !synced; synced = 0 }
        /renameat2?\(/ && /"summary.json"/ { bad += !synced; ended = 1 }
        END { exit !(parent && inner && commits == 2 && ended && !bad) }' "$2"
}
for how in "" --async-save; do
    rm -rf new
    strace -f -qq -y -e trace=fsync,renameat,renameat2,mkdir,mkdirat -o order "$trident" "${common[@]}" $how \
        --output-dir new/deep >/dev/null 2>&1
    expect "the disk has metrics.jsonl before each checkpoint, and the names of new folders $how" \
        sync_order new/deep order
done

# How often the second half of a run makes a call.
calls() {
    rm -rf again && cp -r start again
    strace -f -qq -e trace="$1" -o trace "$trident" "${common[@]}" --output-dir again >/dev/null 2>&1
    grep -c "$1(" trace
}

# attempt CALL N INJECTION: the N-th such call of a run from step 5 on.
attempt() {
    rm -rf again && cp -r start again
    last_command="strace -e inject=$1:$3:when=$2 trident train"
    # strace ends as its tracee does; the inner shell's remark about it is not wanted
    (strace -f -qq -o /dev/null -e trace="$1" -e inject="$1:$3:when=$2" "$trident" "${common[@]}" --output-dir again \
        >"$out" 2>"$err" && exit 0 || exit $?) 2>/dev/null
    code=$?
    local now
    now=$(digest again)
    expect "$1 $2, $3 (exit $code): the newest state is $now" test "$now" = "$old" -o "$now" = "$new"
    [ $code = 0 ] && expect "$1 $2, $3: a run that ended well has its last step" test "$now" = "$new"
    "$trident" checkpoint verify again >/dev/null 2>&1
    expect "$1 $2, $3: every checkpoint is whole" test $? = 0
    run "${common[@]}" --output-dir again
    expect_code 0
    expect "$1 $2, $3: the run goes on to the same weights" test "$(digest again)" = "$new"
    expect "$1 $2, $3: nothing half-made is left" test -z "$(ls -d again/*.tmp* 2>/dev/null)"
    cases=$((cases + 1))
}

cases=0
for call in fsync rename renameat2 mkdir unlinkat; do
    n=$(calls "$call")
    for ((k = 1 + cases % stride; k <= n && failures < 5; k += stride)); do
        attempt "$call" "$k" signal=KILL
        attempt "$call" "$k" error=EIO
        [ "$call" != fsync ] || attempt "$call" "$k" error=ENOSPC
    done
done
n=$(calls write)
for ((k = 1; k <= n && failures < 5; k += 5 * stride)); do
    attempt write "$k" signal=KILL
    attempt write "$k" error=ENOSPC
done
echo "$cases calls of a run ended or failed by the kernel"
finish
