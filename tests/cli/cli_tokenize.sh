# trident tokenize and trident vocab: lines, tables, pieces, JSON, threads, and what they refuse.
. "$(dirname "$0")/../lib/cli_lib.sh"
mkdir -p bert bpe
printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' '[MASK]' the dress fit '##s' , . x >bert/vocab.txt
echo '{"do_lower_case": true}' >bert/tokenizer_config.json
printf '%s' '{"<s>": 0, "</s>": 1, "a": 2, "b": 3, "ab": 4, "Ġ": 5, "Ġa": 6}' >bpe/vocab.json
printf '#version: 0.2\na b\nĠ a\n' >bpe/merges.txt
says() { # says TEXT...: these are the lines of stdout
    printf '%s\n' "$@" >wanted
    expect "stdout is: $*" cmp -s wanted "$out"
}
feed() { # feed TEXT ARGS...: trident with this text on stdin
    local text=$1
    shift
    last_command="printf '$text' | trident $*"
    printf "$text" | "$trident" "$@" >"$out" 2>"$err"
    code=$?
}

feed 'The dress fits.\n\nx [MASK] y\r\n' tokenize --tokenizer bert
expect_code 0
says '2 5 6 7 8 10 3' '2 3' '2 11 4 1 3'
expect_text "$err" "WordPiece, 12 pieces, uncased: 3 texts, 14 ids"
feed 'The dress fits.\nx' tokenize --tokenizer bert --pieces --quiet
says '[CLS] the dress fit ##s . [SEP]' '[CLS] x [SEP]'
expect "nothing on stderr" test ! -s "$err"
feed 'the dress fits' tokenize --tokenizer bert --json --pieces --max-len 4 --quiet
says '{"ids":[2,5,6,3],"pieces":["[CLS]","the","dress","[SEP]"]}'
feed 'ab a</s>b' tokenize --tokenizer bpe --quiet
says '0 4 6 1 3 1'
feed 'x\nx\0x' tokenize --tokenizer bert --null --quiet
says '2 11 11 3' '2 11 3'
feed 'ab\n' tokenize --tokenizer bpe --models-dir . --quiet
says '0 4 1'

# Files, in order; a table's column; any number of threads.
printf 'the\n' >one.txt && printf 'dress' >two.txt
run tokenize --tokenizer bert --quiet one.txt two.txt
says '2 5 3' '2 6 3'
printf 'text,n\n"the ""dress"", x",1\nfit,2\n' >table.csv
run tokenize --tokenizer bert --quiet --column text table.csv
says '2 5 1 6 1 9 11 3' '2 7 3'
awk 'BEGIN { for (i = 0; i < 20000; i++) print "the dress", i % 977, "fits." }' >many.txt
run tokenize --tokenizer bert --quiet --threads 1 many.txt
cp "$out" single
run tokenize --tokenizer bert --quiet --threads 3 many.txt
expect "threads change nothing" cmp -s single "$out"

rejects 2 tokenize one.txt
rejects 66 tokenize --tokenizer nowhere one.txt
rejects 66 tokenize --tokenizer bert missing.txt
rejects 65 tokenize --tokenizer bert --column word table.csv
rejects 2 tokenize --tokenizer bert --column text -
rejects 2 tokenize --tokenizer bert --max-len -1 one.txt
printf 'good\nbad \377\n' >bytes.txt
checked rejects 65 tokenize --tokenizer bert bytes.txt
rejects 65 tokenize --tokenizer bert /dev/zero
rejects 65 vocab -o other /dev/zero
mkdir -p odd && echo '{"model": {"type": "WordLevel", "vocab": {}}}' >odd/tokenizer.json
checked rejects 2 tokenize --tokenizer odd one.txt
echo '{"model": {"type": "Unigram", "unk_id": 0, "vocab": []}}' >odd/tokenizer.json
checked rejects 65 tokenize --tokenizer odd one.txt
rm odd/tokenizer.json && touch odd/spm.model
checked rejects 66 tokenize --tokenizer odd one.txt
expect_text "$err" "AutoTokenizer.from_pretrained('odd').save_pretrained('odd')"
printf '{"a": 2147483648}' >bpe/vocab.json
checked rejects 65 tokenize --tokenizer bpe one.txt

# A vocabulary is learnt, the same each time, and can be used.
printf 'low low low lower lower\nnewest newest newest widest\n' >corpus.txt
checked run vocab --size 40 -o mine corpus.txt
expect_code 0
expect_text "$out" "mine: WordPiece, " "pieces, cased, learnt from 2 texts"
cp mine/vocab.txt first
run vocab --size 40 -o mine --force --threads 2 corpus.txt --json
expect_text "$out" '"folder":"mine"' '"texts":2'
expect "the same vocabulary" cmp -s first mine/vocab.txt
feed 'low newest' tokenize --tokenizer mine --pieces --quiet
says '[CLS] low newest [SEP]'
run vocab --size 60 --lower-case --column text -o lower table.csv
expect_code 0
expect_text lower/tokenizer_config.json '"do_lower_case": true'
rejects 2 vocab --size 100 corpus.txt
rejects 2 vocab --size 3 -o other corpus.txt
finish
