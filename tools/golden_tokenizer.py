#!/usr/bin/env python3
"""Makes the tokenizer's golden files from the tokenizers library (pip install tokenizers):

    tools/golden_tokenizer.py             writes tests/golden/tokenizer_vocab.txt and tokenizer_cases.json, and
                                          tokenizer_shared.json from the vocabularies of ../shared/tokenizers
    tools/golden_tokenizer.py --classes   prints the table of character classes of src/data/bert_chars.c
"""
import json
import os
import random
import sys

from tokenizers import BertWordPieceTokenizer
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
GOLDEN = os.path.join(ROOT, "tests", "golden")
SHARED = os.path.join(ROOT, "..", "shared", "tokenizers")
SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = "the dress fit love is it un ##aff ##able ##s ##ing ##ed ##ly per ##fect hello world i am 5 ' 8 caf ##é cafe naive".split()
# Letters with and without accents, marks that are kept and that are dropped, Chinese, Hangul, newer letters.
RARE = "éèñüçßøłıİÅΑΩσςаЖאبกあアー中国한ᄒ" "ᅡᆫ½©€™😀ﬁẞ\u1b44\u302e\ua953\u0301\u0327\u09c7\u09be\u2126\u1e9e\U00010d50\U00010d70\u0898\U000111c9"

TEXTS = [
    "", " ", "\t\r\n", "Hello, WORLD!", "unaffable", "The dress fits perfectly.", "i'm 5'8\" and 110lbs", "don't -- stop...",
    "caf\u00e9 cafe\u0301 CAF\u00c9", "na\u00efve r\u00e9sum\u00e9", "\u0130stanbul I\u0307 \u0131", "\u03a3\u03b1\u03c2 \u03a3\u0391\u03a3",
    "stra\u00dfe STRASSE \u1e9e", "\u4e2d\u56fd\u4e2d", "a\u4e2db", "\u3042\u30a2\u30fc", "\ud55c\uad6d\uc5b4", "\u1112\u1161\u11ab",
    "soft\u00adhyphen zero\u200bwidth \ufefffeed", "\u00a0nbsp\u2003em\u2028line\u2029para\u3000wide", "nul\x00byte bell\x07 esc\x1b del\x7f",
    "\ufffd\ufffd replacement", "\ue000private", "\u037e \u0387 \u1fef \u226e \u2260", "\u00a1hola! \u00bfqu\u00e9?", "\u201cquoted\u201d \u2018it\u2019s\u2019 \u2014 dash",
    "$100 + 5% = #1 @home ~ ^ ` |", "[CLS] in the text [SEP]", "[MASK]", "a[MASK]b", "[UNK][PAD]", "[cls] [Sep]", "[[SEP]]", "[SEP", "##ing ## #",
    "x" * 99, "x" * 100, "x" * 101, "x" * 1000, "\u00e9" * 100, "e\u0301" * 100, "e\u0301" * 101, "\ud55c" * 34, "a b " * 20,
    "e\u0327\u0301 e\u0301\u0327", "a\u302e\u1b44b", "a\u302e\u0301\u1b44b", "a\u302e\u034f\u1b44b", "\u1b44\ua953\u302e\u302f\u1b44", "\u09cb \u09c7\u09be",
    "\U0001f600 smile\U0001f600s", "\U00010d50\U00010d51", "\u0898 \u08d4 \U000111c9", "\ufb01ne \uff21\uff22", "\u2126 \u212b \u00c5", "\U0002f800 \uf900 \u8c48",
    "\U000e0001tag", "\u0627\u0644\u0639\u0631\u0628\u064a\u0629 \u064b", "\u05e9\u05c1\u05dc\u05d5\u05dd", "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35", "\u0928\u092e\u0938\u094d\u0924\u0947",
    "Love this dress!  it's sooo pretty.\r\ni happened to find it in a store", "1,234.56e-7", "http://a.b/c?d=e&f#g", "it's a \"test\": (one) [two] {three}",
]


def vocabulary():
    pieces = list(SPECIALS)
    for char in [chr(i) for i in range(33, 127)] + list(RARE):
        pieces += [char, "##" + char]
    pieces += WORDS
    return [piece for i, piece in enumerate(pieces) if piece not in pieces[:i]]


def texts():
    random.seed(20240)
    pools = ["abcxyz ABC", RARE + " ", "ab.,!?'\"[] ", "the dress fit un able s ing ", "e\u0301\u0327\u302e\u1b44\u034f a"]
    for _ in range(120):
        yield "".join(random.choice(random.choice(pools)) for _ in range(random.choice([3, 8, 20])))


def encode(path, lower, all_texts):
    tokenizer = BertWordPieceTokenizer(path, lowercase=lower, clean_text=True, handle_chinese_chars=True, strip_accents=None)
    return [encoding.ids for encoding in tokenizer.encode_batch(all_texts)]


def write(name, text):
    with open(os.path.join(GOLDEN, name), "w", encoding="utf-8", newline="\n") as file:
        file.write(text)


def rows(head, all_texts, columns):
    lines = []
    for i, text in enumerate(all_texts):
        row = {"text": text, **{name: ids[i] for name, ids in columns.items()}}
        lines.append(json.dumps(row, separators=(",", ":")))
    return json.dumps(head)[:-1] + ', "cases": [\n' + ",\n".join(lines) + "\n]}\n"


def golden():
    small = os.path.join(GOLDEN, "tokenizer_vocab.txt")
    write("tokenizer_vocab.txt", "\n".join(vocabulary()) + "\n")
    cases = TEXTS + list(texts())
    cases = [case.replace("\x00", "\x01") for case in cases]  # both are dropped; JSON readers dislike the first
    head = {"made_by": "tools/golden_tokenizer.py"}
    write("tokenizer_cases.json", rows(head, cases, {"cased": encode(small, False, cases), "uncased": encode(small, True, cases)}))
    cased, uncased = (os.path.join(SHARED, f"bert-base-{kind}", "vocab.txt") for kind in ("cased", "uncased"))
    few = [case.replace("\x00", "\x01") for case in TEXTS]
    write("tokenizer_shared.json", rows(head, few, {"cased": encode(cased, False, few), "uncased": encode(uncased, True, few)}))


def classes():
    clean = BertNormalizer(clean_text=True, handle_chinese_chars=False, strip_accents=False, lowercase=False)
    strip = BertNormalizer(clean_text=False, handle_chinese_chars=False, strip_accents=True, lowercase=False)
    split = BertPreTokenizer()

    def kind(char):
        cleaned = clean.normalize_str(char)
        if cleaned in ("", " "):
            return "S" if cleaned else "D"
        if len(split.pre_tokenize_str("a" + char + "a")) == 3:
            return "P"
        return "" if strip.normalize_str(char) else "A"

    ranges = []
    for code in range(0x80, 0x110000):
        value = "" if 0xD800 <= code < 0xE000 else kind(chr(code))
        if value and ranges and ranges[-1][1] == code - 1 and ranges[-1][2] == value:
            ranges[-1][1] = code
        elif value:
            ranges.append([code, code, value])
    line = "   "
    for first, last, value in ranges:
        item = f" {{0x{first:X}, 0x{last:X}, {value}}},"
        if len(line) + len(item) > 118:
            print(line)
            line = "   "
        line += item
    print(line)


if __name__ == "__main__":
    classes() if sys.argv[1:] == ["--classes"] else golden()
