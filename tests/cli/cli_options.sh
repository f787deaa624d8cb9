# An impossible value of every option of train, on the command line and in the configuration file: refused before
# anything is tokenised or created. A new free-text option must be added to one of the two lists here.
. "$(dirname "$0")/../lib/cli_lib.sh"
make_all
common=(train --config config.json --data-path data --output-dir new --threads 1 --max-steps 9)

# Texts and lists with a form of their own: an impossible value each, and the exit code.
declare -A closed=([device]=gpu [offload]=x [profile]=foo [redirects]=9 [tee]=0:9 [local-ranks-filter]=x [nnodes]=0
    [mesh-order]=pp,dp
    [memory-limit]=much [resume]=nowhere [allow-change]=nothing [class-weights]=a [stage-profile]=nowhere
    [column-info]=nowhere [deepspeed]=nowhere [accelerate]=nowhere [training-arguments]=nowhere
    [data-path]=nowhere [config]=nowhere [primary-tokenizer]=nowhere [secondary-tokenizer]=nowhere
    [rdzv-endpoint]=elsewhere
    [rdzv-conf]=x [label-list]=a,b,c [cat-field-list]=nothing [hashed-field-list]=nothing
    [boolean-field-list]=nothing [label-name]=text [label-separator]=x [weight-name]=text
    [primary-text-name]=label
    [secondary-text-name]=label [text-list]=text [text-encoders]=x [attention]=windos
    [tab-field-list]=label [float-layers]=pooler [secondary-text-list]=, [separator]=ab
    [log-to]=mlflow:x [layer-drop]=theta=0 [threshold]=accuracy [freeze]=layers [average-weights]=mean
    [split]=0.8 [group-by]=size [tp-plan]=x [quantiles]=0.5)
declare -A missing=([resume]=66 [stage-profile]=66 [column-info]=66 [data-path]=66 [config]=66 [primary-tokenizer]=66
    [secondary-tokenizer]=66 [attention]=66 [deepspeed]=66 [accelerate]=66 [training-arguments]=66)
open=' output-dir models-dir cache-dir rdzv-id master-addr log-dir no-decay stages missing positive-label '

"$trident" train --help all | sed -n 's/^  --\([a-z0-9-]*\)\( [A-Z],*[A-Z]*\)\{0,1\}  .*/\1\2/p' >rows
expect "the help lists options" test "$(wc -l <rows)" -gt 90
while read -r name kind; do
    case $kind in
    N) value=-7 ;;
    X) value=x ;;
    WORD) value=impossible ;;
    '') value=maybe ;;
    *)
        case $open in *" $name "*) continue ;; esac
        value=${closed[$name]-}
        [ -n "$value" ] || fail "--$name: is any text possible? Say so in $0"
        ;;
    esac
    run "${common[@]}" "--$name=$value"
    expect_code "${missing[$name]:-2}"
    expect "--$name=$value is refused in words" grep -q '^trident: .' "$err"
    expect "--$name=$value leaves no folder" test ! -e new
    case $kind in N | X | '') json='"x"' ;; *) json=7 ;; esac
    printf '{\n"_comments": {"%s": 1},\n"%s": %s}\n' "${name//-/_}" "${name//-/_}" "$json" >bad.json
    run train --config bad.json --data-path data --output-dir new
    expect_code 2
    expect "$name in a file is named with its line: $(cat "$err")" grep -q '^trident: bad.json:3: ' "$err"
    expect "$name in a file leaves no folder" test ! -e new
done <rows

# What depends on the model or on other options.
for options in '--tp-size 3 --nproc-per-node 3' '--shard hybrid --shard-size 3 --nproc-per-node 2' \
    '--pp-size 2 --nproc-per-node 2 --stages nothing' \
    '--offload none,params' '--max-sen-len 100' '--global-batch-size 7 --batch-size 3' '--num-microbatches 99' \
    '--precision bf16-true' \
    '--lr 1 --learning-rate 1' '--backend nccl'; do
    run "${common[@]}" $options
    expect_code 2
    expect "$options leaves no folder" test ! -e new
done
rejects 2 "${common[@]}" --log-to mlflow:x
# A warm-up that never ends is said first of all.
run "${common[@]}" --warmup-steps 40
expect_code 0
expect "the first line is the warning" sh \
    -c "head -n 1 '$err' | grep -q '^trident: --warmup-steps 40 in a run of 9: the learning rate rises'"
run train --config config.json --data-path data --output-dir short --threads 1 --epochs 1 --warmup-steps 40 \
    --batch-size 32
expect_code 0
expect_text "$err" "warning: --warmup-steps 40 in a run of 3: the learning rate rises"
expect "before texts are tokenised" sh -c "grep -n 'warmup-steps\|train.csv:' '$err' | head -n 1 | grep -q warmup"
expect "once" test "$(grep -c warmup-steps "$err")" = 1
run train --config config.json --data-path data --output-dir short --threads 1 --epochs 1 --warmup-steps 40 \
    --batch-size 32 --resume never
expect "from the store, too" test "$(grep -c 'warning: --warmup-steps 40' "$err")" = 1
rejects 2 "${common[@]}" --resume never --max-tokens 5 --quiet

# Options of other programs: taken and held ones are said once, refused ones name ours.
run "${common[@]}" --resume never --bf16 --limit-all-gathers --max-epochs 1 --nproc-per-node 2 --is-binary true
expect_code 0
expect_text "$err" "trident: --bf16 is taken as --precision bf16" "trident: --limit-all-gathers: the plan bounds" \
    "trident: --max-epochs 1 is taken as --epochs 1"
expect "said once, not by every rank" test "$(grep -c 'taken as --precision' "$err")" = 1
make_config foreign.json '"bf16": true' '"num_train_epochs": 1' '"find_unused_parameters": false'
run train --config foreign.json --data-path data --output-dir foreign --threads 1 --max-steps 2
expect_code 0
expect_text "$err" "bf16 true is taken as --precision bf16" "num_train_epochs 1 is taken as --epochs 1" \
    "find_unused_parameters false: every step"
rejects 2 "${common[@]}" --gradient-accumulation-steps 4

# Command lines that are printed can be pasted, whatever the names are.
for folder in 'a b' "it's" '$HOME `x` "q"' $'two\nlines' $'tab\tand \x01' 'größe/日本' '~x' '#x' 'a\b' '*'; do
    mkdir -p "$folder" && cp -r data "$folder/data"
    run train --config config.json --data-path "$folder/data" --output-dir "$folder/run" --threads 1 --max-steps 1 \
        --warmup-steps 0 --quiet
    expect_code 0
    line=$(sed -n 's/^evaluate *trident //p' "$out")
    expect "one line for $folder" test -n "$line"
    eval "set -- $line"
    expect "as it was given: $line" test "$3" = "$folder/run" -a "$5" = "$folder/data"
    run "$@" --quiet
    expect_code 0
done
cp config.json 'a b'
run train --config "a b/config.json" --data-path "it's" --nnodes 2
expect_text "$err" "--config 'a b/config.json'" "--data-path 'it'\\''s'"
run inspect 'a b/data' --write-config "it's.json" --quiet
expect_text "it's.json" "--config 'it'\\\\''s.json' --data-path 'a b/data'"

# A thousand columns: lines that a person can read.
mkdir wide
awk 'BEGIN { printf "text,label"; for (i = 0; i < 1000; i++) printf ",column_%d", i; print ""
    for (r = 0; r < 20; r++) {
        printf "the box was %s,%d", r % 2 ? "bad" : "good", r % 2
        for (i = 0; i < 1000; i++) printf ",%d", (r * 7 + i) % 10
        print ""
    } }' >wide/train.csv
columns=$(awk 'BEGIN { for (i = 0; i < 1000; i++) printf "%s\"column_%d\"", i ? ", " : "", i }')
make_config wide.json "\"tab_field_list\": [$columns]" '"secondary_text_name": null' \
    '"secondary_encoder": null'
run train --config wide.json --data-path wide --output-dir widerun --threads 1 --max-steps 2 --warmup-steps 0
expect_code 0
expect_text "$err" "column_11: numeric; and 988 more: 988 numeric, 0 of categories, 0 with missing values"
expect "no line is long" sh -c "! grep -q '.\{700\}' '$err'"
run train --config wide.json --data-path wide --output-dir widerun --threads 1 --max-steps 3 --warmup-steps 0 \
    --tab-field-list column_1 --allow-change tab_field_list
expect "no line is long when it changes" sh -c "! grep -q '.\{700\}' '$err'"
run train --config wide.json --data-path wide --output-dir widerun2 --threads 1 --label-name lable
expect_code 65
expect_text "$err" 'did you mean "label"?' "more"
expect "no line is long when one is missing" sh -c "! grep -q '.\{700\}' '$err'"
finish
