# trident serve: answers equal those of predict, in every protocol; bad requests get their status and a cause; signals
# reload and drain. The client is bash.
. "$(dirname "$0")/../lib/cli_lib.sh"
make_all
run train --config config.json --data-path data --output-dir run --epochs 1 --batch-size 16 --quiet \
    --threshold recall=0.9
expect_code 0

rejects 2 serve
rejects 66 serve none
rejects 2 serve run --tls-cert config.json
rejects 66 serve run --api-key-file keys
echo short >keys
rejects 65 serve run --api-key-file keys
rejects 2 serve a=run a=run
rejects 2 serve run --max-body large

# serve ARGS...: a server in the background; sets $server and $port.
serve() {
    last_command="trident serve $*"
    : >serve.out
    "$trident" serve "$@" --port 0 >serve.out 2>serve.err &
    server=$!
    local left
    for ((left = 400; left > 0; left--)); do grep -q try: serve.out && break || sleep 0.05; done
    port=$(sed -n '1s/.* at https\{0,1\}:\/\/127.0.0.1:\([0-9]*\); try: .*/\1/p' serve.out)
    expect "the first line has the address and a request" test -n "$port"
}

# ask METHOD PATH [BODY [HEADER...]]: one request, for $host; $status and the file body.
host=localhost
ask() {
    local method=$1 path=$2 data=${3-} header line
    shift $(($# < 3 ? $# : 3))
    last_command="$method $path ${data:0:200} $*"
    status=0
    : >body
    exec 5<>"/dev/tcp/127.0.0.1/$port" || return 1
    {
        printf '%s %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n' "$method" "$path" "$host"
        for header; do printf '%s\r\n' "$header"; done
        LC_ALL=C
        [ -z "$data" ] || printf 'Content-Length: %d\r\n' "${#data}"
        printf '\r\n%s' "$data"
    } >&5
    {
        read -r _ status _
        while IFS= read -r line && [ "${line%$'\r'}" ]; do headers="${headers-}$line"; done
        cat >body
    } <&5
    exec 5<&- 5>&-
    cp body "$out"
}

# answers STATUS TEXT... -- ask's arguments
answers() {
    local want=$1 texts=()
    shift
    while [ "$1" != -- ]; do texts+=("$1") && shift; done
    shift
    ask "$@"
    checks=$((checks + 1))
    [ "$status" = "$want" ] || fail "status $status, not $want: $(head -c 300 body)"
    [ ${#texts[@]} = 0 ] || expect_text body "${texts[@]}"
}

# stop [SIGNAL]: ends the server, which exits with 0.
stop() {
    kill -"${1:-TERM}" "$server"
    wait "$server"
    code=$?
    cp serve.err "$err"
    expect_code 0
}

# ---- the same numbers as predict, in every protocol and batch ----
run predict --checkpoint run --data-path data/test.csv -o want.csv
run predict --checkpoint run --data-path data/test.csv -o want.jsonl
sed 's/,[01]$//; s/,label$//' data/test.csv >rows.csv
awk 'NR > 1 { split($0, q, "\""); split(q[3], f, ",")
    printf "{\"text\": \"%s\", \"track\": \"%s\", \"size\": %s, \"weight\": %s}\n", q[2], f[2], f[3], f[4] }' \
    rows.csv >rows.jsonl
serve run --max-rows 40 --access-log access.jsonl
answers 200 -- POST /invocations "$(cat rows.csv)" 'Content-Type: text/csv'
expect "CSV equals predict's" cmp -s body want.csv
answers 200 -- POST /invocations "$(cat rows.jsonl)" 'Content-Type: application/jsonlines'
expect "JSON lines equal predict's" cmp -s body want.jsonl
answers 200 -- POST /invocations "$(cat rows.jsonl)" 'Content-Type: application/x-ndjson' 'Accept: text/csv'
expect "the answer's form is what Accept says" cmp -s body want.csv
# [{"score":P,"label":L},...] by row becomes L,P(0),P(1)
tei_csv() {
    tr -d '[]{' <"$1" | tr '}' '\n' | sed 's/^,*"score":\([^,]*\),"label":"\([^"]*\)"$/\2 \1/' |
        awk 'NF == 2 { if (n++ % 2 == 0) label = $1; p[$1] = $2; if (n % 2 == 0) print label "," p[0] "," p[1] }'
}
tail -n +2 want.csv >want.rows
answers 200 '[[{"score":' -- POST /predict "{\"inputs\": [$(paste -sd, rows.jsonl)]}" 'Content-Type: application/json'
tei_csv body >got.rows
expect "/predict equals predict" cmp -s got.rows want.rows
: >got.rows
while read -r row; do # one by one; without a Content-Type it is JSON
    ask POST /predict "{\"inputs\": $row}"
    tei_csv body >>got.rows
done <rows.jsonl
expect "/predict, a row at a time, equals predict" cmp -s got.rows want.rows
tensor() { # NAME DATATYPE: the column as a tensor of shape [40, 1]
    printf '{"name": "%s", "datatype": "%s", "shape": [40, 1], "data": [%s]}' "$1" "$2" \
        "$(sed "s/.*\"$1\": \(\"[^\"]*\"\|[^,}]*\).*/\1/" rows.jsonl | paste -sd,)"
}
infer="{\"id\": \"q 1\", \"inputs\": [$(tensor text BYTES), $(tensor track BYTES), $(tensor size INT64), "
infer+="$(tensor weight FP64)]}"
answers 200 '"id":"q 1"' '"shape":[40,2]' '"shape":[40]' -- POST /v2/models/run/infer "$infer"
sed 's/.*"probabilities"[^[]*\[40,2\],"data":\[\([^]]*\)\].*/\1/' body | tr , '\n' | paste -d, - - >got.rows
cut -d, -f2,3 want.rows >want.probs
expect "the Open Inference Protocol equals predict" cmp -s got.rows want.probs
sed 's/.*"name":"label"[^[]*\[40\],"data":\[\([^]]*\)\].*/\1/' body | tr -d '"' | tr , '\n' | paste - >got.rows
expect "its labels too" cmp -s got.rows <(cut -d, -f1 want.rows)
answers 200 '"outputs":[{"name":"label"' -- POST /v2/models/run/infer \
    "${infer%\}}, \"outputs\": [{\"name\": \"label\"}]}"
expect "only what was asked for" grep -qv probabilities body
# Hugging Face's InferenceClient: POST /, a list of lists also for one row; parameters.
row="{\"inputs\": $(head -n 1 rows.jsonl)"
answers 200 '[[{"score":' -- POST / "$row, \"parameters\": {}}" 'Content-Type: application/json'
tei_csv body >got.rows
expect "POST / equals predict" cmp -s got.rows <(head -n 1 want.rows)
answers 200 -- POST / "$row, \"parameters\": {\"top_k\": 1}}"
expect "top_k 1: one class" test "$(grep -o score body | wc -l)" = 1
answers 422 'softmax' -- POST / '{"inputs": {"text": "a"}, "parameters": {"function_to_apply": "none"}}'

# Triton's clients: the JSON's length in a header, binary tensors after it, and binary outputs. Row 1 of the table.
field() { sed -n "1s/.*\"$1\": \(\"[^\"]*\"\|[^,}]*\).*/\1/p" rows.jsonl | tr -d '"'; }
le4() { printf "\\x$(printf %02x "$1")\\0\\0\\0"; } # a number below 256 as four bytes
binary_input() { # NAME DATATYPE BYTES
    printf '{"name": "%s", "shape": [1], "datatype": "%s", "parameters": {"binary_data_size": %d}}, ' "$@"
}
text=$(field text) track=$(field track)
json="{\"id\": \"b\", \"inputs\": [$(binary_input text BYTES $((4 + ${#text})))"
json+="$(binary_input track BYTES $((4 + ${#track})))$(binary_input size INT32 4)"
json+="{\"name\": \"weight\", \"shape\": [1], \"datatype\": \"FP64\", \"data\": [$(field weight)]}], "
json+='"parameters": {"binary_data_output": true}}'
{ printf '%s' "$json" && le4 ${#text} && printf '%s' "$text" && le4 ${#track} && printf '%s' "$track" &&
    le4 "$(field size)"; } >binary
exec 5<>"/dev/tcp/127.0.0.1/$port"
{
    printf 'POST /v2/models/run/infer HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n'
    printf 'Inference-Header-Content-Length: %d\r\nContent-Length: %d\r\n\r\n' ${#json} "$(stat -c %s binary)"
    cat binary
} >&5
cat <&5 >body
exec 5<&- 5>&-
expect_text body 'HTTP/1.1 200 OK' 'Content-Type: application/octet-stream' 'Inference-Header-Content-Length: ' \
    '"id":"b"' '{"name":"label","datatype":"BYTES","shape":[1],"parameters":{"binary_data_size":5}}' \
    '{"name":"probabilities","datatype":"FP32","shape":[1,2],"parameters":{"binary_data_size":8}}'
six() { awk -F, '{ printf "%.6f %.6f\n", $1, $2 }'; }
tail -c 8 body | od -An -tf4 | awk '{ print $1 "," $2 }' | six >got.rows
expect "binary tensors equal predict" cmp -s got.rows <(head -n 1 want.probs | six)
answers 415 'binary tensors are read by' -- POST /predict '{"inputs": {}}' 'Inference-Header-Content-Length: 14'
answers 400 'bytes of JSON at the beginning' -- POST /v2/models/run/infer '{}' 'Inference-Header-Content-Length: 3'
answers 422 'value 1 is out of the range that is read of INT8' -- POST /v2/models/run/infer \
    '{"inputs": [{"name": "size", "shape": [1], "datatype": "INT8", "data": [300]}]}'
if command -v curl >/dev/null; then
    checks=$((checks + 1))
    bash -c "$(sed 's/.*try: //' serve.out)" >body 2>/dev/null
    grep -q '^\[{"score":' body || fail "the request of the first line is not answered"
fi

# ---- what says something about the model ----
answers 200 '"status":"ready"' -- GET /health
answers 200 -- GET /ping
answers 200 -- GET /v2/health/live
answers 200 -- GET /v2/health/ready
answers 200 '"name":"trident"' -- GET /v2
answers 200 '"datatype":"BYTES"' '"name":"probabilities"' -- GET /v2/models/run
answers 200 '"ready":true' -- GET /v2/models/run/ready
answers 200 '"model_id":"run"' '"max_input_length":32' '{"name":"size","kind":"number"}' '"labels":["0","1"]' \
    '"temperature":' '"threshold":0.' '"threshold_label":"1"' -- GET /info
answers 200 '"openapi"' -- GET /docs
answers 200 '<title>Trident' -- GET /
answers 200 '[[{"columns":["text"],"ids":[2,' -- POST /tokenize '{"inputs": [{"text": "the box"}]}'

# ---- bad requests: a status and a cause each, and the server lives ----
long=$(printf 'box %.0s' {1..100})
answers 400 'body:1:12: ' '"error_type":"Validation"' -- POST /predict '{"inputs": }'
answers 400 'body:2:3: ' -- POST /predict '{"inputs":
  '
answers 422 'an object' -- POST /predict '[]'
answers 422 '\"inputs\" is missing' -- POST /predict '{}'
answers 422 'did you mean \"inputs\"' -- POST /predict '{"input": []}'
answers 400 'no rows' '"Empty"' -- POST /predict '{"inputs": []}'
answers 422 'row 1: an object' -- POST /predict '{"inputs": [3]}'
answers 422 'row 1, column \"text\": a list' -- POST /predict '{"inputs": [{"text": ["a"]}]}'
answers 422 'size' -- POST /predict '{"inputs": [{"size": "large"}]}'
answers 422 'txt' 'text' -- POST /predict '{"inputs": [{"txt": "a"}]}'
answers 422 'true or false' -- POST /predict '{"inputs": [{"text": "a"}], "truncate": 1}'
answers 422 'raw_scores' -- POST /predict '{"inputs": [{"text": "a"}], "raw_scores": true}'
answers 400 'not UTF-8' -- POST /predict "{\"inputs\": [{\"text\": \"$(printf 'a\377b')\"}]}"
answers 400 'UTF-8' -- POST /invocations "text,track
$(printf 'a\377b'),c" 'Content-Type: text/csv'
answers 413 'truncate' -- POST /predict "{\"inputs\": [{\"text\": \"$long\"}]}"
answers 200 -- POST /predict "{\"inputs\": [{\"text\": \"$long\"}], \"truncate\": true}"
answers 200 -- POST '/invocations?truncate=true' "text
$long" 'Content-Type: text/csv'
answers 400 'appears twice' -- POST /invocations 'text,text
a,b' 'Content-Type: text/csv'
answers 422 'true or false' -- POST '/invocations?truncate=yes' '{"inputs": [{}]}'
answers 400 'body:1:12: ' -- POST /tokenize '{"inputs": }'
answers 400 'no rows' -- POST /tokenize '{"inputs": []}'
answers 413 'truncate' -- POST /tokenize "{\"inputs\": [{\"text\": \"$long\"}]}"
answers 415 'application/xml' -- POST /tokenize '<a/>' 'Content-Type: application/xml'
answers 413 '41 rows' -- POST /predict "{\"inputs\": [$(printf '{},%.0s' {1..40}){}]}"
answers 415 'application/xml' -- POST /predict '<a/>' 'Content-Type: application/xml'
answers 415 "-H 'Content-Type: application/json'" -- POST /predict '{"inputs": [{}]}' \
    'Content-Type: application/x-www-form-urlencoded'
answers 406 'image/png' -- POST /invocations '{"inputs": [{}]}' 'Accept: image/png'
answers 400 'CSV:2:1: row has 1 field' -- POST /invocations 'text,track
a' 'Content-Type: text/csv'
answers 400 'line 2:1:' -- POST /invocations '{"text": "a"}
{"text"}' 'Content-Type: application/jsonlines'
answers 404 'did you mean \"run\"' -- POST /v2/models/runn/infer '{}'
answers 404 'no model \"b\"' -- POST '/predict?model=b' '{"inputs": [{}]}'
answers 422 'shape' -- POST /v2/models/run/infer '{"inputs": [{"name": "text", "shape": [1, 2], "datatype": "BYTES"}]}'
answers 422 'datatype' -- POST /v2/models/run/infer \
    '{"inputs": [{"name": "text", "shape": [1], "datatype": "STRING", "data": ["a"]}]}'
answers 422 'value 1' -- POST /v2/models/run/infer \
    '{"inputs": [{"name": "text", "shape": [1], "datatype": "BYTES", "data": [1]}]}'
answers 422 'says 2 values' -- POST /v2/models/run/infer \
    '{"inputs": [{"name": "text", "shape": [2], "datatype": "BYTES", "data": ["a"]}]}'
answers 404 'nothing at /nowhere' -- GET /nowhere
answers 405 'only POST' -- GET /predict
answers 413 'at most 2097152' -- POST /predict '' 'Content-Length: 9999999'
answers 200 -- GET /health
answers 200 'trident_requests_total{route="/predict",code="422"} ' 'trident_compute_duration_seconds_count' \
    'trident_requests_in_flight 1' 'trident_queue_rows{model="run"} 0' 'trident_running_rows{model="run"} 0' \
    -- GET /metrics

# ---- names and pages of others: a server without keys at 127.0.0.1 ----
host=evil.example:$port
answers 403 'not a name of this machine' -- GET /info
answers 403 '--allow-host' -- POST /predict '{"inputs": [{}]}'
host=127.0.0.1:$port
answers 200 -- GET /info
answers 403 'a page of another site, http://evil.example' -- POST /predict '{"inputs": [{}]}' \
    'Origin: http://evil.example'
answers 200 -- POST /predict '{"inputs": [{}]}' "Origin: http://127.0.0.1:$port"
host=localhost

# ---- a load from outside has the server's name ----
run bench serve --http "http://127.0.0.1:$port" --data-path data/test.csv --clients 2 --seconds 0.2 --json
expect_code 0
expect_text "$out" '"failed":0,"wrong":0'

# ---- reload ----
first=$(sed -n 's/.*"step":\([0-9]*\).*/\1/p' <(ask GET /info && cat body))
run train --config config.json --data-path data --output-dir run --epochs 3 --batch-size 16 --quiet \
    --allow-change epochs
expect_code 0
run predict --checkpoint run --data-path data/test.csv -o newer.csv
kill -HUP "$server"
wrong=0
for i in {1..1000}; do # every answer is that of the old model or of the new one
    ask POST /invocations "$(cat rows.csv)" 'Content-Type: text/csv'
    [ "$status" = 200 ] && { cmp -s body want.csv || cmp -s body newer.csv; } || wrong=$((wrong + 1))
    [ "$i" -gt 5 ] && cmp -s body newer.csv && break
done
expect "no request is lost or wrong during a reload" test "$wrong" = 0
expect "the new checkpoint answers" cmp -s body newer.csv
answers 200 -- GET /info
expect "the step is another" test "$(sed -n 's/.*"step":\([0-9]*\).*/\1/p' body)" -gt "$first"
for file in run/checkpoint-*/manifest.json; do mv "$file" "$file.kept" && echo '{' >"$file"; done
kill -HUP "$server"
for i in {1..100}; do grep -q 'does not load' serve.err && break || sleep 0.05; done
expect_text serve.err "model run stays at step" "manifest.json"
answers 200 -- POST /invocations "$(cat rows.csv)" 'Content-Type: text/csv'
expect "the old model stays" cmp -s body newer.csv
answers 200 'trident_reloads_total 1' 'trident_failed_reloads_total 1' -- GET /metrics
run serve run
expect_code 65
for file in run/checkpoint-*/manifest.json; do mv "$file.kept" "$file"; done
stop
expect_text access.jsonl '"method":"POST","path":"/predict","status":422' '"path":"/health","status":200'
expect_text "$err" "requests were answered"

# ---- many clients at once: every answer is the first one to that row, whatever it was batched with ----
for load in "--clients 64" "--clients 200 --rate 500"; do
    run bench serve --http run --data-path data/test.csv --seconds 0.4 $load --json
    expect_code 0
    expect_text "$out" '"failed":0,"wrong":0,"retried":0' '"p99_ms":'
    expect "requests are answered" is "$(json_number answered "$out")" '>' 20
done
rejects 66 bench serve --http http://127.0.0.1:1

# ---- keys, several models, SIGINT ----
printf '# a key\nsecret-key-1\n' >keys
chmod 644 keys
host=models.example
serve one=run two=run --api-key-file keys --max-rows 1 --quiet
expect_text serve.err "warning: every user of this machine can read keys (mode 644); chmod 600 keeps it secret"
answers 401 'Authorization: Bearer' -- POST /predict '{"inputs": [{}]}'
answers 401 -- GET /metrics
answers 200 -- GET /health
answers 200 '<title>' -- GET /
answers 200 -- POST '/predict?model=two' '{"inputs": [{}]}' 'Authorization: Bearer secret-key-1'
answers 413 'at most 1' -- POST /predict '{"inputs": [{}, {}]}' 'Authorization: Bearer secret-key-1'
answers 200 '"model_name":"two"' -- POST /v2/models/two/infer \
    '{"inputs": [{"name": "text", "shape": [1], "datatype": "BYTES", "data": ["a"]}]}' \
    'Authorization: Bearer secret-key-1'
answers 200 '"models":["one","two"]' -- GET '/info?model=two' '' 'Authorization: Bearer secret-key-1'
stop INT
chmod 600 keys
serve run --api-key-file keys --allow-host models.example,other.example
expect "a secret file gets no warning" test "$(grep -c warning serve.err)" = 0
answers 200 -- GET /info '' 'Authorization: Bearer secret-key-1' 'Origin: https://other.example'
host=evil.example
answers 403 'not a name' -- GET /info '' 'Authorization: Bearer secret-key-1'
host=localhost
stop

# ---- several ranks: rank 0 has the requests ----
near() {
    paste -d, "$1" "$2" | awk -F, '
        NR > 1 { for (i = 2; i <= 3; i++) if (($i - $(i + 3)) ^ 2 > 1e-10) bad = 1 }
        END { exit bad || NR < 41 }'
}
for mesh in --pp-size --dp-size --tp-size; do
    serve run --nproc-per-node 2 $mesh 2 --threads 1 --max-rows 40
    for when in before after; do
        answers 200 -- POST /invocations "$(cat rows.csv)" 'Content-Type: text/csv'
        if [ $mesh = --tp-size ]; then expect "$mesh, $when a reload: 1e-5" near body newer.csv
        else expect "$mesh, $when a reload: the same bits" cmp -s body newer.csv; fi
        [ $when = after ] && break
        kill -HUP "$server"
        for i in {1..200}; do grep -q 'loaded in' serve.err && break || sleep 0.05; done
        expect_text serve.err "loaded in"
    done
    expect "no batch is announced that is not taken" test -z "$(grep '^batch' serve.err)"
    [ $mesh != --tp-size ] || rejects 2 serve run --nproc-per-node 2 $mesh 2 --threads 1 --port "$port"
    stop
done

# ---- a rank that dies: the server starts again, at the same address ----
: >serve.out
"$trident" serve run --nproc-per-node 2 --threads 1 --max-rows 40 --port "$port" >serve.out 2>serve.err &
server=$!
serves() { # N: it has begun for the N-th time
    for i in {1..400}; do [ "$(grep -c try: serve.out)" = "$1" ] && break || sleep 0.05; done
    expect "start $1 of the server" test "$(grep -c try: serve.out)" = "$1"
    answers 200 -- POST /invocations "$(cat rows.csv)" 'Content-Type: text/csv'
    expect "start $1: the same bits" cmp -s body newer.csv
}
serves 1
for victim in 2 1; do
    read -ra ranks <<<"$(ranks_of $server)"
    kill -KILL "${ranks[victim - 1]}"
    serves $((4 - victim))
    expect_text serve.err "rank $((victim - 1))" "the server starts again"
done
stop

# ---- texts that share an encoder: in one batch of all texts; columns as vectors ----
run train --config config.json --data-path data --output-dir shared --max-steps 2 --batch-size 16 --quiet \
    --share-encoders true --tabular embedded --fusion gated
run predict --checkpoint shared --data-path data/test.csv -o shared.csv
expect_code 0
for ranks in 1 2; do
    serve shared --nproc-per-node $ranks --threads 1 --max-rows 40 --num-microbatches 2
    answers 200 -- POST /invocations "$(cat rows.csv)" 'Content-Type: text/csv'
    expect "$ranks ranks, one encoder, columns as vectors: the same bits" cmp -s body shared.csv
    stop
done

# ---- TLS ----
if command -v openssl >/dev/null && command -v curl >/dev/null && grep -q 'TLS by' <("$trident" doctor); then
    openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 2 -subj /CN=localhost 2>/dev/null
    serve run --tls-cert cert.pem --tls-key key.pem
    checks=$((checks + 1))
    bash -c "$(sed 's/.*try: //' serve.out)" >body 2>/dev/null
    grep -q '^\[{"score":' body || fail "HTTPS does not answer the request of the first line"
    get='GET /health HTTP/1.1\r\nHost: localhost\r\n' # two at once, one that is malformed, and one behind it
    { printf "$get\r\n$get\r\n$get: x\r\n\r\n$get\r\n" && sleep 0.5; } |
        openssl s_client -quiet -connect "127.0.0.1:$port" 2>/dev/null >body
    expect "requests over TLS are read as strictly" test "$(grep -ao 'HTTP/1.1.*' body | paste -sd, | tr -d '\r')" = \
        "HTTP/1.1 200 OK,HTTP/1.1 200 OK,HTTP/1.1 400 Bad Request"
    stop
fi
finish
