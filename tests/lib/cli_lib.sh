# cli_lib.sh - what the command-line tests share. Source it. $work is a fresh folder, removed at the end; $out and $err
# hold the last run's output; `finish` ends the script with 1 when any expectation failed.
set -u
trident=${TRI_BUILD:?run through tests/run}/trident
# Messages of this script that `rejects` compares: CODE, command and message of a case, one case a line.
said_before=$(cd "$(dirname "${BASH_SOURCE[0]}")/../golden/messages" && pwd)/$(basename "$0" .sh).txt
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
out=$work/stdout err=$work/stderr code=0 failures=0 checks=0
unset NO_COLOR FORCE_COLOR
export XDG_CONFIG_HOME=$work/config # a machine that was never calibrated
export HF_HUB_CACHE=$work/hub       # and has no models in Hugging Face's cache
export XDG_CACHE_HOME=$work/cached  # nor a measured peak
# Looking for leaks takes seconds a process; under a sanitizer, `checked run ...` does it where it matters.
export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_leaks=0}
checked() { ASAN_OPTIONS=detect_leaks=1 "$@"; }

fail() {
    failures=$((failures + 1))
    printf 'FAILED: %s\n' "$*"
    printf '  last command: %s\n  exit %s\n' "${last_command:-none}" "$code"
    sed 's/^/  stdout: /' "$out" 2>/dev/null | head -n 5
    sed 's/^/  stderr: /' "$err" 2>/dev/null | tail -n 8
}

# run ARGS...: trident with these arguments.
run() {
    last_command="trident $*"
    "$trident" "$@" >"$out" 2>"$err"
    code=$?
}

expect_code() {
    checks=$((checks + 1))
    [ "$code" = "$1" ] || fail "expected exit $1"
}

# expect_text FILE TEXT...: each text stands in the file.
expect_text() {
    local file=$1 text
    shift
    for text in "$@"; do
        checks=$((checks + 1))
        grep -qF -- "$text" "$file" || fail "no \"$text\" in $(basename "$file")"
    done
}

expect() { # expect WHAT COMMAND...: the command succeeds
    local what=$1
    shift
    checks=$((checks + 1))
    "$@" || fail "$what"
}

# refuses CODE TEXT... -- ARGS...: trident ends with CODE, says each text, and prints no result. An error is one line.
refuses() {
    local want=$1 texts=()
    shift
    while [ "$1" != -- ]; do texts+=("$1") && shift; done
    shift
    run "$@"
    expect_code "$want"
    [ ${#texts[@]} = 0 ] || expect_text "$err" "${texts[@]}"
    expect "an error begins with \"trident: \"" grep -q '^trident: ' "$err"
    expect "stdout is empty after an error" test ! -s "$out"
}

# rejects CODE ARGS...: as refuses; what is said is compared with the golden file by `finish`. Run the script with
# TRI_WRITE=1 to record it. What differs between machines and runs is left out: paths, hashes of weights, which depend
# on the processor, the rank that fails first, process ids and ports.
rejects() {
    local stable="s|$work|WORK|g; s|$TRI_BUILD|BUILD|g; s|${said_before%/tests/golden/*}|ROOT|g"
    stable+='; s/\b[0-9a-f]{16,32}\b/HASH/g; s/\ttrident: rank [0-9]+: /\ttrident: rank R: /'
    stable+='; s/\bprocess [0-9]+/process PID/g; s/\bport [0-9]{4,5}\b/port PORT/g'
    refuses "$1" -- "${@:2}"
    printf '%s\t%s\t%s\n' "$code" "$last_command" "$(grep '^trident: ' "$err" | tail -n 1)" |
        sed -E "$stable" >>"$work/rejected.txt"
}

# beside FUNCTION ARGS...: calls a function of this script next to what follows, at most $most_beside at a time, with
# output files and counts of its own. `together` waits for all, tells how long each took, and adds their counts.
most_beside=3 n_beside=0 n_running=0
beside() {
    [ "$n_running" -lt "$most_beside" ] || { wait -n; n_running=$((n_running - 1)); }
    n_beside=$((n_beside + 1)) n_running=$((n_running + 1))
    {
        out=$work/stdout.$n_beside err=$work/stderr.$n_beside failures=0 checks=0 SECONDS=0
        "$@"
        echo "$SECONDS s: $*"
        echo "$checks $failures" >"$work/counts.$n_beside"
    } >"$work/beside.$n_beside" 2>&1 &
}
together() {
    local i of n
    wait
    for ((i = 1; i <= n_beside; i++)); do
        cat "$work/beside.$i"
        of=0 n=1 # of a function that ended the script
        [ ! -e "$work/counts.$i" ] || read -r of n <"$work/counts.$i"
        checks=$((checks + of)) failures=$((failures + n))
        rm -f "$work/counts.$i"
    done
    n_beside=0 n_running=0
}

finish() {
    together
    if [ -e "$work/rejected.txt" ]; then
        [ -z "${TRI_WRITE:-}" ] || cp "$work/rejected.txt" "$said_before"
        expect "messages differ from $said_before" diff "$said_before" "$work/rejected.txt"
    fi
    echo "$checks checks, $failures failures"
    [ "$failures" = 0 ]
    exit
}

# A number of a JSON line: json_number KEY FILE. A member of the line's object comes before those of objects in it.
json_number() {
    local number="s/.*\"$1\": *\\(-\\{0,1\\}[0-9][0-9.eE+-]*\\).*/\\1/p"
    { sed 's/^{//; s/}$//; :a; s/{[^{}]*}//g; ta' "$2" | sed -n "$number"; sed -n "$number" "$2"; } | head -n 1
}

# is A OP B with decimal numbers.
is() { awk -v a="$1" -v b="$3" "BEGIN { exit !(a != \"\" && b != \"\" && a + 0 $2 b + 0) }"; }

# gone MS PID...: none of them is left after that time (a zombie is gone).
gone() {
    local limit=$1 left p
    shift
    for ((left = limit; left > 0; left -= 20)); do
        for p in "$@"; do
            case $(sed -n 's/^State:[[:space:]]*\(.\).*/\1/p' "/proc/$p/status" 2>/dev/null) in
            '' | Z) ;;
            *) sleep 0.02 && continue 2 ;;
            esac
        done
        return 0
    done
    return 1
}

# The rank of a process that a launcher started.
rank_of() { tr '\0' '\n' <"/proc/$1/environ" | sed -n 's/^RANK=//p'; }

# A model folder with a vocabulary only: make_model FOLDER.
make_model() {
    mkdir -p "$1"
    {
        printf '[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n'
        printf '%s\n' good bad fine late early box lost found the a was is it and not very . , \
            a b c d e f g h i j k l m n o p q r s t u v w x y z |
            awk '!seen[$0]++'
        printf '##%s\n' a b c d e f g h i j k l m n o p q r s t u v w x y z
    } >"$1/vocab.txt"
    echo '{"do_lower_case": true}' >"$1/tokenizer_config.json"
}

# make_table FILE ROWS FIRST: text, track, two numbers and a label that the words decide.
make_table() {
    awk -v rows="$2" -v first="$3" 'BEGIN {
        print "text,track,size,weight,label"
        for (i = first; i < first + rows; i++) {
            y = (i * 7 + int(i / 3)) % 2
            word = y ? "bad" : "good"; place = y ? "lost" : "found"
            printf "\"the box was %s, and it is %s\",%s a box %s,%d,%.2f,%d\n",
                word, i % 3 ? "fine" : "late", i % 2 ? "early" : "late", place, i % 11, (i % 17) / 4, y
        }
    }' >"$1"
}

# make_config FILE [JSON MEMBERS...]: a tiny model of the table above; later members win over earlier ones.
make_config() {
    local file=$1 encoder='{"model_type": "bert", "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, '
    encoder+='"intermediate_size": 64, "max_position_embeddings": 64}'
    local keys=(
        '"label_name": "label"' '"primary_text_name": "text"' '"secondary_text_name": "track"'
        '"tab_field_list": ["size", "weight"]'
        "\"primary_tokenizer\": \"$work/model\"" "\"primary_encoder\": $encoder" "\"secondary_encoder\": $encoder"
        '"hidden_common_dim": 16' '"fusion_hidden_dim": 16' '"fusion_dropout": 0.1' '"is_binary": true'
        '"num_classes": 2'
        '"max_sen_len": 32' '"lr": 1e-3' '"weight_decay": 0.01' '"warmup_steps": 4'
    )
    shift
    printf '%s\n' "${keys[@]}" "$@" | awk -F: '
        { if (!($1 in at)) order[++n] = $1; at[$1] = $0 }
        END { printf "{"; for (i = 1; i <= n; i++) printf "%s%s", (i > 1 ? ",\n " : ""), at[order[i]]; print "}" }' \
            >"$file"
}

# losses FOLDER: of each training step.
losses() { sed -n 's/.*"event":"train".*"loss":\([^,]*\),.*/\1/p' "$1/metrics.jsonl"; }
# The largest difference of the losses of two runs; a large one when they have other numbers of steps.
apart() { # FOLDER OTHER
    paste <(losses "$1") <(losses "$2") |
            awk 'BEGIN { m = 0 } NF != 2 { m = 9 } { d = $1 - $2; d = d < 0 ? -d : d; if (d > m) m = d }
            END { print NR ? m : 9 }'
}
losses_near() { # FOLDER OTHER LIMIT WHAT
    expect "$4: losses differ by $(apart "$1" "$2")" is "$(apart "$1" "$2")" '<=' "$3"
}

# ---- Elastic runs: of `common`, the command and options that all runs of a test share ----
steps_of() { # FOLDER: steps that its run has told of
    cat "$1/metrics.jsonl" 2>/dev/null | grep -c '"event":"train"'
}
# The ranks of the run, in the order of their start. Not every kernel lists the children of a process.
ranks_of() { cat "/proc/$1/task/$1/children" 2>/dev/null || ps -o pid= --ppid "$1" | sort -n | tr '\n' ' '; }

# hurt FOLDER STEP VICTIMS ARGS...: a run, whose ranks at these places (from 1) are killed once it has taken STEP steps
hurt() {
    local folder=$1 step=$2 victims=$3 ranks
    shift 3
    last_command="trident ${common[*]} --output-dir $folder $*, killing $victims after step $step"
    "$trident" "${common[@]}" --output-dir "$folder" "$@" >"$out" 2>"$err" &
    local run=$!
    until [ "$(steps_of "$folder")" -ge "$step" ] || ! kill -0 $run 2>/dev/null; do sleep 0.005; done
    read -ra ranks <<<"$(ranks_of $run)"
    for victim in $victims; do kill -KILL "${ranks[victim - 1]}"; done
    wait $run
    code=$?
}

# once FOLDER STEPS EPOCHS: its metrics have each of them once, steps in order.
once() {
    expect "$1: each step once" \
        test "$(sed -n 's/.*"event":"train","step":\([0-9]*\),.*/\1/p' "$1/metrics.jsonl")" = "$(seq "$2")"
    expect "$1: each epoch once" test "$(grep -c '"event":"epoch"' "$1/metrics.jsonl")" = "$3"
}
regroups() { grep -c '"event":"regroup"' "$1/metrics.jsonl" || true; }

# A data folder, a model folder and config.json.
make_all() {
    mkdir -p data
    make_model model
    make_table data/train.csv 96 0
    make_table data/valid.csv 32 96
    make_table data/test.csv 40 128
    make_config config.json
}
