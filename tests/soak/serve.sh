# A server under load that is told to load its model again (SIGHUP) and restarted (SIGTERM, then started anew) at random
# moments. Every request is answered: with the same bits as the first answer to its row, or, by a server that drains,
# with 503; each server ends with 0.
. "$(dirname "$0")/../lib/cli_lib.sh"
run doctor
make_all
requests=${SOAK_REQUESTS:-100000}
RANDOM=${SOAK_SEED:-1}
run train --config config.json --data-path data --output-dir run --epochs 1 --batch-size 16 --quiet
expect_code 0

# begin PORT: a server; $server is its process.
begin() {
    : >serve.out
    "$trident" serve run --port "$1" --threads 1 --max-concurrent-requests 10000 >serve.out 2>>serve.err &
    server=$!
    for ((left = 400; left > 0; left--)); do grep -q try: serve.out && return || sleep 0.02; done
    fail "the server does not start"
}
begin 0
port=$(sed -n '1s/.*127.0.0.1:\([0-9]*\); try.*/\1/p' serve.out)
"$trident" bench serve --http "http://127.0.0.1:$port" --data-path data/test.csv --clients 32 --seconds 100000 \
    --requests "$requests" --json >load.json 2>load.err &
load=$!
reloads=0 restarts=0
while [ -d /proc/$load ]; do
    sleep "0.$((RANDOM % 40 + 10))"
    if [ $((RANDOM % 3)) = 0 ]; then
        kill -TERM "$server"
        wait "$server" || fail "a server ended with $?"
        begin "$port"
        restarts=$((restarts + 1))
    else
        kill -HUP "$server"
        reloads=$((reloads + 1))
    fi
done
wait "$load"
code=$?
cp load.json "$out"; cp load.err "$err"
expect_code 0
kill -TERM "$server"
wait "$server" || fail "the last server ended with $?"
expect_text load.json '"failed":0,"wrong":0'
answered=$(json_number answered load.json) refused=$(json_number refused load.json)
expect "every request was answered" test $((answered + refused)) = "$requests"
expect "models were loaded again" grep -q 'loaded in' serve.err
expect "none failed to load" test "$(grep -c 'does not load' serve.err)" = 0
echo "$answered answered, $refused refused while draining, $(json_number retried load.json) sent again;" \
    "$reloads reloads, $restarts restarts"
finish
