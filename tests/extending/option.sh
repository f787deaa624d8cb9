#!/usr/bin/env bash
# option.sh - an option: one row of options.def makes field, default, help, choices, commands, key and effect.
most=1

add() {
    row src/settings/options.def 'TRI_OPTION(INT, seed,' \
        'TRI_OPTION(CHOICE, greeting, RUN, "none", TRAIN, "what to say first", .choices = "none|hello|goodbye")'
}

use() {
    "$trident" train --help all | grep -q -- '--greeting WORD .*(none, hello, goodbye) \[none\]' || exit 1
    "$trident" completion bash | grep -q -- '--greeting) words="none hello goodbye"' || exit 1
    "$trident" train --greeting hi 2>&1 | grep -q 'expected none, hello or goodbye, not "hi"' || exit 1
    "$trident" train --greting hello 2>&1 | grep -q 'did you mean --greeting' || exit 1
    train option --greeting hello
    grep -q '"greeting": *"hello"' option/checkpoint-2/config.json || exit 1
    "$trident" train --config base.json --data-path data --output-dir option --max-steps 2 --epochs 1 --batch-size 8 \
        --lr 1e-3 --greeting goodbye 2>&1 | grep -q 'greeting = "hello" (now "goodbye")' || exit 1
}
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
