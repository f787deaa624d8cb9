# commands.sh - what tests/shortage/run tries: the files, the commands, and what a command leaves behind.
steps='train --config config.json --data-path data --batch-size 8 --max-steps 3 --save-steps 2 --threads 1'
steps+=' --class-weights balanced --best-by pr_auc --early-stopping 5 --output-dir new'
plain="$steps --cache-dir none"
declare -A lines=(
    [train]="$plain"
    [resume]="$plain"
    [async]="$plain --async-save"
    [cached]="$steps --cache-dir tokens --num-workers 1"
    [threads]="$plain --threads 2"
    [offload]="$plain --offload optimizer"
    [profile]="$plain --profile wait=0,warmup=1,active=1"
    [ranks]="$plain --nproc-per-node 2"
    [ranks_resume]="$plain --nproc-per-node 2"
    [ranks_async]="$plain --nproc-per-node 2 --async-save --shard zero1"
    [stages]="$plain --nproc-per-node 2 --pp-size 2"
    [mpi]="$plain"
    [mpi_far]="$plain --transport mpi"
    [cuda]="$plain --device cuda"
    [split]="$plain --data-path data/train.csv --split 0.6,0.3,0.1 --stratify --group-by size"
    [members]='eval --checkpoint both --data-path data/test.csv --threads 1 --json'
    [sweep]='sweep --config config.json --space space.json --trials 2 --epochs 1 --threads 1 --data-path data'
    [eval]='eval --checkpoint new --data-path data/test.csv --threads 1 --json'
    [explain]='explain --checkpoint new --data-path data/test.csv --rows 2 --threads 1 --json'
    [importance]='explain --checkpoint new --data-path data/test.csv --importance --repeats 1 --rows 4 -o why.html'
    [predict]='predict --checkpoint new --data-path data/test.csv --threads 1 -o predicted.csv'
    [predict_ranks]='predict --checkpoint new --data-path data/test.csv --threads 1 --nproc-per-node 2 -o predicted.csv'
    [quantize]='quantize new --data-path data --threads 1 -o small'
    [digest]='digest new/checkpoint-2'
    [ls]='checkpoint ls new --json'
    [verify]='checkpoint verify new'
    [diff]='checkpoint diff new/checkpoint-2 new/checkpoint-3 --json'
    [prune]='checkpoint prune new --keep 1'
    [export]='export --checkpoint new --output-dir exported'
    [report]='report new -o page.html'
    [trace]='trace traced -o merged.json'
    [tables]='inspect tables --json'
    [inspect]='inspect data --tokenizer model --write-config start.json'
    [tokenize]='tokenize --tokenizer model text.txt'
    [plan]='plan --config config.json --json'
    [simulate]='simulate --config config.json --hardware cpu --json --svg step.svg'
    [choose]='choose --config config.json --world-size 2 --hardware cpu --json'
    [check]='check step.txt --json'
    [mesh]='mesh --world-size 8 --tp-size 2 --json'
    [vocab]='vocab text.txt --size 60 --lower-case -o learned'
    [serve]='serve new --port 0 --threads 1 --http-threads 1'
)
order=(train resume async cached threads offload profile ranks ranks_resume ranks_async stages mpi mpi_far cuda split
    sweep eval members predict predict_ranks quantize explain importance digest ls verify diff prune export report
    trace inspect tables tokenize plan simulate choose check mesh vocab serve)
# Those whose system calls fail too.
order_calls=(train resume async cached threads offload profile ranks ranks_resume ranks_async stages prune verify eval
    predict export)

# A command that leaves a run folder: `trains NAME`.
trains() {
    case $1 in
    train | resume | async | cached | threads | offload | profile | split | ranks | ranks_resume | ranks_async) ;;
    stages | mpi | mpi_far) ;;
    cuda) [ "$(cat "$work/cuda.code" 2>/dev/null)" = 0 ] ;; # there is a GPU
    *) return 1 ;;
    esac
}

# What lies before a command, in the present folder.
make_template() {
    make_all
    make_config config.json '"primary_tokenizer": "./model"' '"tabular": "embedded"' '"fusion": "gated"'
    mkdir tables && cp "$here"/../golden/arrow/table-0000?-of-00002.arrow tables
    for part in tables/*; do mv "$part" "${part/table-0/train-0}"; done
    cp "$here/../golden/arrow/table.csv.zst" tables/test.csv.zst
    gzip -c "$here/../golden/arrow/table.csv" >tables/valid.csv.gz
    cut -d, -f1 data/test.csv | head -n 12 >text.txt
    eval "line=(${lines[train]})"
    "$trident" "${line[@]}" >/dev/null 2>../first || { cat ../first; return 1; }
    mv new first && "$trident" "${line[@]}" --profile wait=0,warmup=1,active=1 >/dev/null 2>../first || return 1
    mv new traced && mv first new
    mkdir both && cp -r new both/a && cp -r new both/b || return 1
    echo '{"format": "trident-ensemble", "version": 1, "members": [{"folder": "a"}, {"folder": "b"}]}' \
        >both/ensemble.json
    echo '{"lr": {"from": 1e-4, "to": 1e-2}, "freeze": [["embeddings"]]}' >space.json
    "$trident" plan --config config.json --nproc-per-node 2 --pp-size 2 --print-program all >step.txt 2>../first ||
        { cat ../first; return 1; }
    eval "line=(${lines[sweep]})" # finished: its trials are other processes
    "$trident" "${line[@]}" >/dev/null 2>../first || { cat ../first; return 1; }
}

# What a command finds of a run, in a copy of the template.
prepare() {
    case $1 in
    resume | ranks_resume) rm -r new/checkpoint-3 ;;
    *) if trains "$1" || [ "$1" = cuda ]; then rm -r new; fi ;;
    esac
}

# start NAME: the command, with $preload and the variables in $failing; its exit code.
start() {
    eval "local -a line=(${lines[$1]})"
    local -a how=(env "${failing[@]}" "$trident" "${line[@]}")
    [[ $1 != mpi* && $1 != cuda ]] || how=(env SHORTAGE_OURS=1 "${how[@]:1}")
    case $1 in
    mpi | mpi_far)
        timeout -k 2 60 mpirun --oversubscribe --bind-to none --mca mpi_yield_when_idle 1 -np 2 \
            env ASAN_OPTIONS="$no_leaks" "${how[@]}" # Open MPI has leaks of its own
        ;;
    serve) serve_once ;;
    *) timeout -k 2 60 "${how[@]}" ;;
    esac
}

# A server answers two requests and is told to stop.
serve_once() {
    "${how[@]}" &
    local server=$! url='' i
    for ((i = 0; i < 400; i++)); do
        url=$(sed -n 's|.*\(http://[0-9.:]*\).*|\1|p' stderr stdout 2>/dev/null | head -n 1)
        [ -z "$url" ] && kill -0 "$server" 2>/dev/null || break
        sleep 0.05
    done
    for i in first second; do # memory that fails in the first is there again
        [ -z "$url" ] || curl -s -m 20 -H 'Content-Type: application/json' "$url/predict" \
            -d '{"inputs": [{"text": "the box was good", "track": "early", "size": 1, "weight": 2}]}' >$i
    done
    kill -TERM "$server" 2>/dev/null
    (sleep 20; kill -KILL "$server") 2>/dev/null &
    local watch=$!
    wait "$server"
    local ended=$?
    kill "$watch" 2>/dev/null
    return $ended
}

# What a command leaves behind, in words that do not change from run to run; `strict`: nothing may have failed.
result() {
    if trains "$1"; then
        "$looks" digest new 2>&1
        "$looks" checkpoint verify new >/dev/null 2>&1
        echo "verify $?"
        { # one checkpoint that cannot be saved, or not be marked as the best, is said, and the run goes on
            ls -A new
            [ -z "${strict:-}" ] || exit 0
            grep -q 'after a checkpoint was saved: ' stderr && echo best_checkpoint.json
            sed -n 's/.*checkpoint of step \([0-9]*\) not saved: .*/checkpoint-\1/p' stderr
            # so are the report and the files that only it reads
            grep -q '^warning: there is no report: ' stderr && echo report.html
            grep -q 'its report will lack this' stderr && grep -E '^(profile-rank|validation-)' "../$1.result"
        } | grep -v -e tfevents -e stage_profile | sort -u # the latter is of steps that this start took
        [ -z "${strict:-}" ] || ! grep '^warning' stderr | grep -v 'times as long as the mean' # that one is of times
        return
    fi
    case $1 in
    export) (cd exported 2>/dev/null && sha256sum -- $(find . -type f | sort)) ;;
    quantize) (cd small 2>/dev/null && ls -A && sha256sum -- *.safetensors) ;;
    predict | predict_ranks) cat predicted.csv 2>/dev/null ;;
    importance) cat why.html 2>/dev/null ;;
    trace) cat merged.json 2>/dev/null ;;
    report) sed 's/[0-9][0-9:. -]*//g' page.html 2>/dev/null ;;
    inspect) sed "s|$PWD|.|g" start.json 2>/dev/null ;;
    vocab) cat learned/vocab.txt 2>/dev/null ;;
    simulate) cat step.svg 2>/dev/null ;;
    serve)
        cat second 2>/dev/null
        grep -q 'memory' first || [ ! -s first ] || cmp first second # said, or the connection was closed
        ;;
    prune) ls new; "$trident" checkpoint verify new >/dev/null 2>&1; echo "verify $?" ;;
    *) ;;
    esac
    case $1 in
    simulate | serve) ;; # times stand in what they print
    choose) sed 's/"\(planned\|skipped\|seconds\)[^,}]*//g' stdout ;; # without memory fewer layouts are ruled out
    eval | members | quantize) sed 's/"seconds[^,}]*//g; s/"[a-z_]*per_second[^,}]*//g' stdout ;;
    *) sed "s|$PWD|.|g" stdout ;;
    esac
}
