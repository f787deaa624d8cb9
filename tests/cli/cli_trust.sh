# Who may read and write what a run makes: modes of its files under several umasks, the memory that ranks share, what
# another user can do with both, and that nothing listens while ranks train.
. "$(dirname "$0")/../lib/cli_lib.sh"
make_all
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT
common=(train --config config.json --data-path data --batch-size 4 --threads 1 --quiet)
loose() { find "$1" ! -type l -perm "$2" | head -n 3; } # FOLDER /MODE: what has any of these bits

# ---- Files: as the umask says, and none that a umask of 022 leaves writable for others ----
for mask in 022 077; do
    (umask $mask && "$trident" "${common[@]}" --epochs 1 --output-dir "run$mask" --nproc-per-node 2 --tee 3 \
        --offload optimizer) >"$out" 2>"$err"
    code=$? last_command="umask $mask; trident ${common[*]}"
    expect_code 0
    expect "umask $mask holds for all of the run: $(loose "run$mask" "/$mask")" test -z "$(loose "run$mask" "/$mask")"
done
expect "logs of ranks are the user's alone, whatever the umask" \
    test "$(stat -c %a run022/logs/none_*)" = 700

# ---- Memory of the ranks: 0600 under any umask; nobody listens ----
(umask 000 && exec "$trident" "${common[@]}" --epochs 100000 --save-every 0 --output-dir going --nproc-per-node 2) \
    >"$out" 2>"$err" &
pid=$! last_command="umask 000; trident train --nproc-per-node 2"
until [ -e going/metrics.jsonl ] || [ ! -d /proc/$pid ]; do sleep 0.05; done
ranks=$(cat "/proc/$pid/task/$pid/children")
memory=0
for rank in $ranks; do
    for fd in /proc/"$rank"/fd/*; do
        case $(readlink "$fd") in /memfd:trident*)
            memory=$((memory + 1))
            expect "shared memory is 0600" test "$(stat -L -c %a "$fd")" = 600
            shared=$fd
            ;;
        esac
    done
    expect "no rank has a socket" test "$(find /proc/"$rank"/fd -lname 'socket:*' | wc -l)" = 0
done
expect "each rank has the shared memory" test "$memory" = 2

# ---- Another user ----
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
    other=(setpriv --reuid 65534 --regid 65534 --clear-groups)
    expect "another user cannot open the shared memory" test -z "$("${other[@]}" head -c 8 "$shared" 2>/dev/null)"
    "${other[@]}" kill -TERM "${ranks%% *}" 2>/dev/null && fail "another user can signal a rank"
    chmod 755 "$work"
    "${other[@]}" "$trident" eval --checkpoint "$work/run077" --data-path "$work/data/test.csv" >"$out" 2>"$err"
    code=$? last_command="eval as another user"
    expect "a run under umask 077 is closed to another user (exit $code)" test "$code" = 74 -o "$code" = 66
    "${other[@]}" "$trident" "${common[@]}" --config "$work/config.json" --data-path "$work/data" --epochs 2 \
        --output-dir "$work/run022" >"$out" 2>"$err"
    code=$? last_command="train in another user's folder"
    expect "nor can another user go on in a run of umask 022 (exit $code)" test "$code" = 74
else
    echo "not root, or no setpriv: what another user can do was left out"
fi
kill -TERM $pid
wait $pid
finish
