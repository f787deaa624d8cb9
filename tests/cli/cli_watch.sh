# trident watch: the live page's URL and answers, a folder that is waited for, Ctrl-C; the terminal's view as plain text
# where there is no terminal, and on a terminal (script(1)) drawn in place. The client is bash.
. "$(dirname "$0")/../lib/cli_lib.sh"
make_all
common=(train --config config.json --data-path data --threads 1 --batch-size 16 --quiet)

rejects 2 watch
rejects 66 watch nowhere --once
mkdir empty
rejects 65 watch empty --once

run "${common[@]}" --output-dir run --epochs 2 --nproc-per-node 2
expect_code 0
run watch run --once
expect_code 0
expect_text "$out" 'run  finished: 6 steps' 'loss ' 'speed ' 'valid ' 'waiting '
expect "no escape codes" sh -c "! grep -q '$(printf '\033')' '$out'"
run watch run --terminal # stdout is not a terminal
expect_code 0
expect_text "$out" 'run  finished: 6 steps'
LC_ALL=C run watch run --once
expect "ASCII outside UTF-8" sh -c "! LC_ALL=C grep -q '[^ -~]' '$out'"

# In a browser: a folder that does not exist yet, then one that does.
"$trident" watch later --port 0 >"$out" 2>"$err" &
watcher=$!
for ((i = 0; i < 200; i++)); do grep -q http "$out" && break || sleep 0.02; done
port=$(sed -n 's|.*http://127.0.0.1:\([0-9]*\)/.*|\1|p' "$out")
# ask PATH: status line and body of a reply into $work/reply
ask() {
    exec 5<>"/dev/tcp/127.0.0.1/$port" || return 1
    printf 'GET %s HTTP/1.1\r\nHost: 127.0.0.1:%s\r\nConnection: close\r\n\r\n' "$1" "$port" >&5
    cat <&5 >"$work/reply"
    exec 5>&-
}
last_command="trident watch later --port 0"
ask /
expect_text "$work/reply" 'HTTP/1.1 200' 'Waiting for a run: later: no such folder'
expect_text "$err" 'later does not exist yet: waiting for it'
ask /data.json
expect_text "$work/reply" 'HTTP/1.1 503'
run "${common[@]}" --output-dir later --epochs 1
expect_code 0
for ((i = 0; i < 100; i++)); do ask /data.json && grep -q '^HTTP/1.1 200' "$work/reply" && break || sleep 0.05; done
expect_text "$work/reply" 'HTTP/1.1 200' '"live":true' '"state":"finished"'
ask /
expect_text "$work/reply" 'id="data"' 'data.json'
kill -INT $watcher
wait $watcher
code=$?
expect_code 0
rejects 2 watch run --host 203.0.113.7 --port 0

# On a terminal: the second screen, drawn in place; the last view stays on the first one.
if command -v script >/dev/null; then
    TERM=xterm timeout 10 script -qec "stty rows 20 cols 70; '$trident' watch run --terminal & pid=\$!; sleep 0.5;
        kill -INT \$pid; wait \$pid; echo ended with \$?" typed >/dev/null 2>&1 </dev/null
    expect "the second screen is entered and left" sh -c "grep -q '1049h' typed && grep -q '1049l' typed"
    expect "the last view stays" sh -c "sed 's/.*1049l//' typed | grep -q 'finished: 6 steps'"
    expect "it ends with 0" grep -q 'ended with 0' typed
fi
finish
