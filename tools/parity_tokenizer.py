#!/usr/bin/env python3
"""Compares Trident's tokenizers with the tokenizers library, exhaustively; `make parity` runs it.

    .venv/bin/python tools/parity_tokenizer.py [BUILD] [--sets reviews,torture,random,characters]

Ids must be equal, without exception, for: every text of ../shared/data/reviews; a file of Unicode torture; 10,000
random byte strings, decoded with replacement; and all 0x110000 code points, each where its class, case, decomposition,
composition, replacement by SentencePiece's character map or place in a grapheme cluster shows in the ids. The
library's ids are written to a temporary folder; BUILD/tests/test_tokenizer_golden compares them.
"""
import argparse
import csv
import os
import random
import shutil
import subprocess
import sys
import tempfile

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import golden_tokenizer as golden
import golden_unigram as unigram
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SHARED = os.path.join(ROOT, "..", "shared")


def reviews():
    for name in ("train", "valid", "test"):
        with open(os.path.join(SHARED, "data", "reviews", name + ".csv"), newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                yield row["Title"]
                yield row["Review Text"]


def torture():
    """Combining marks, CJK, emoji sequences, right to left, control characters, unassigned code points, words of 10
    kB."""
    chance = random.Random(7)
    marks = [chr(code) for code in [*range(0x300, 0x370), *range(0x483, 0x488), 0x591, 0x5B0, 0x64B, 0x670, 0x93C,
                                    0x94D, 0xE38,
                                    0x302E, 0x3099, 0x20D0, 0x1D165, 0xFE20]]
    emoji = ["\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466", "\U0001f1e9\U0001f1ea",
             "\U0001f44d\U0001f3fd",
             "\u2764\ufe0f", "1\ufe0f\u20e3", "\U0001f3f4\U000e0067\U000e0062\U000e007f"]
    pools = [
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", "0123456789\u0660\u0967\u00b2\u2155\u2160\u3007",
        " \t\n\r\x0b\x0c\x1c\x85\xa0\u1680\u2003\u2028\u202f\u3000",
        ".,;:!?'\"()[]{}<>-_/\\@#$%^&*+=~`|\u00a1\u00bf\u2014\u2018\u2019\u201c\u3001\uff01",
        [chr(code) for code in range(0x80, 0x250)], [chr(code) for code in range(0x370, 0x530)],
        [chr(code) for code in range(0x590, 0x780)], [chr(code) for code in range(0x900, 0xE80)],
        [chr(code) for code in range(0x3040, 0x3400)],
        [chr(code) for code in range(0x4E00, 0x4F00)], [chr(code) for code in range(0xAC00, 0xAD00)],
        [chr(code) for code in range(0x1100, 0x1200)],
        [chr(code) for code in range(0xF900, 0x10000)], [chr(code) for code in range(0x1D000, 0x1D200)],
        [chr(code) for code in range(0x1E000, 0x1F000)],
        [chr(code) for code in range(0x378, 0x380)] + ["\u2fe0", "\ufdd0", "\ufffe", "\U0001ffff", "\U000e0080",
                                                       "\U0010ffff"],
        emoji, marks,
        [chr(code) for code in range(0x20)],
        ["\u200b", "\u200c", "\u200d", "\u200e", "\u200f", "\u202a", "\u202e", "\u2066", "\u2069", "\ufeff", "\u00ad"],
        ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d", "'S", " '", "\u2019s"],
        ["[SEP]", "[MASK]", "<mask>", "<s>", "</s>", "<|endoftext|>", "[CLS", "<"],
    ]
    yield from golden.TEXTS
    for size in (10, 100, 1000, 10000):
        for unit in ("a", "A", "ab", "\u00e9", "e\u0301", "\u0301", "\u4e2d", "\U0001f600", "1", "!", " ", "\n", "'s",
                     "\u302e\u1b44", "\u0327\u0301", "a.", "[", "<mask>", "\ud55c", "\u200d"):
            yield unit * (size // len(unit.encode()) + 1)
    for _ in range(200):
        yield "a" + "".join(chance.choice(marks) for _ in range(chance.choice([2, 20, 200])))
    for _ in range(4000):
        yield "".join(chance.choice(chance.choice(pools)) for _ in range(chance.choice([2, 5, 12, 40])))
    for _ in range(2000):
        pair = [chance.choice(pools) for _ in range(2)]
        yield "".join(chance.choice(chance.choice(pair)) for _ in range(chance.choice([4, 16])))
    for _ in range(2000):
        yield "".join(chr(code) for code in (chance.randrange(0x110000) for _ in range(12))
                      if not 0xD800 <= code < 0xE000)


def random_bytes(seed=20240, n=10000):
    chance = random.Random(seed)
    for _ in range(n):
        yield chance.randbytes(chance.randrange(1, 120)).decode("utf-8", "replace")


def characters(form, block=128):
    """Texts of all code points, each in the context that `form` gives."""
    for start in range(0, 0x110000, block):
        codes = [code for code in range(start, start + block) if not 0xD800 <= code < 0xE000]
        if codes:
            yield "".join(form.replace("@", chr(code)) for code in codes)


def pair_bytes(first):
    """A byte-level model that joins each of `first` with whatever byte follows it in a word: words' ends show in the
    ids."""
    alphabet = golden.byte_alphabet()
    vocabulary = {char: i for i, char in enumerate(alphabet)}
    merges = [(char, other) for char in first for other in alphabet]
    for left, right in merges:
        vocabulary[left + right] = len(vocabulary)
    return Tokenizer(models.BPE(vocabulary, merges))


def character_sets():
    """(what, tokenizer, texts): between them, every class and every mapping of every code point."""
    n, p = normalizers, pre_tokenizers
    gpt2 = pair_bytes("a1!")
    gpt2.pre_tokenizer = p.ByteLevel(add_prefix_space=False)
    yield "gpt2", gpt2, characters("a@ 1@ !@ ")
    words = pair_bytes("a!")
    words.pre_tokenizer = p.Sequence([p.Whitespace(), p.ByteLevel(add_prefix_space=False, use_regex=False)])
    yield "words", words, characters("a@ !@ ")
    blanks = pair_bytes("a")
    blanks.pre_tokenizer = p.Sequence([p.WhitespaceSplit(), p.Punctuation(), p.ByteLevel(add_prefix_space=False,
                                                                                         use_regex=False)])
    yield "blanks and punctuation", blanks, characters("a@a ")
    forms = {"clean": n.BertNormalizer(True, False, False, False), "chinese": n.BertNormalizer(False, True, False,
                                                                                               False),
             "accents": n.BertNormalizer(False, False, True, False), "bert": n.BertNormalizer(), "lower": n.Lowercase(),
             "marks": n.StripAccents(),
             "NFD": n.NFD(), "NFC": n.NFC(), "NFKD": n.NFKD(), "NFKC": n.NFKC()}
    for name, normalizer in forms.items():
        tokenizer = pair_bytes("")
        tokenizer.normalizer = normalizer
        tokenizer.pre_tokenizer = p.ByteLevel(add_prefix_space=False, use_regex=False)
        # after a letter, between marks of other classes, and in front of what may compose with it
        form = "@" if name in ("clean", "chinese", "lower", "marks") else "e@ a\u0345@\u0327 @\u0301 @\u1161\u11a8 "
        yield name, tokenizer, characters(form)
    spread = pair_bytes("a")
    spread.normalizer = n.BertNormalizer(lowercase=False)
    spread.pre_tokenizer = p.Sequence([p.BertPreTokenizer(), p.ByteLevel(add_prefix_space=False, use_regex=False)])
    yield "bert split", spread, characters("a@a ")


def released(folder):
    """(name, folder's line, tokenizer) of ../shared/tokenizers, GPT-2's among them."""
    shared = os.path.join(SHARED, "tokenizers")
    for kind in ("cased", "uncased"):
        here = os.path.join(shared, f"bert-base-{kind}")
        yield f"bert-base-{kind}", here, golden.bert(here, kind == "uncased")
    here = os.path.join(shared, "roberta-base")
    yield "roberta-base", here, golden.byte_level(os.path.join(here, "vocab.json"), os.path.join(here, "merges.txt"),
                                                  True)
    gpt2 = os.path.join(folder, "gpt2")
    os.makedirs(gpt2)
    shutil.copy(os.path.join(here, "gpt2_encoder.json"), os.path.join(gpt2, "vocab.json"))
    shutil.copy(os.path.join(here, "merges.txt"), gpt2)
    yield "gpt2", gpt2, golden.byte_level(os.path.join(gpt2, "vocab.json"), os.path.join(gpt2, "merges.txt"), False)


def learnt(folder):
    """Unigram tokenizers with the structure of XLM-R's and DeBERTa's, learnt from the reviews."""
    texts = reviews() if os.path.isdir(SHARED) else [text for text in golden.TEXTS if text.strip()] * 20
    yield from unigram.released((text.replace("\n", " ") for text in texts if text.strip()), folder,
                                16000 if os.path.isdir(SHARED) else 300)


def compare_unigram(program, folder, sets):
    texts = {"reviews": reviews, "torture": torture, "random": random_bytes}
    if not os.path.isdir(SHARED):
        del texts["reviews"]
    for name, here in learnt(folder):
        tokenizer = unigram.read(here)
        for kind in texts:
            if kind in sets:
                check(program, folder, f"Unigram, {name}, {kind}", golden.line(folder=here),
                      golden.cases(tokenizer, texts[kind]()))
    if "torture" in sets:
        made = [(golden.line(files={"tokenizer.json": text}), tokenizer) for text, tokenizer in unigram.components()]
        lines = (line for head, tokenizer in made for line in [head, *golden.cases(tokenizer, torture())])
        check(program, folder, f"Unigram, {len(made)} made tokenizers, torture", "", lines)
    if "characters" in sets:
        # alone, after and before letters and marks, in conjuncts, syllables and joined pictures
        form = ("@\n1@ @e\u0301 e@\u0301 \u0915\u094d@\u0301 @\u094d\u0915\u0301 \u00a9\u200d@\u0301 "
                "\u1100@\u11a8\u0301 ")
        for name, text in unigram.map_tokenizers(folder):
            check(program, folder, f"all characters, Precompiled, {name}", golden.line(files={"tokenizer.json": text}),
                  golden.cases(Tokenizer.from_str(text), characters(form)))


def check(program, folder, name, head, lines):
    path = os.path.join(folder, "cases.jsonl")
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        file.write(head)
        file.writelines(lines)
    result = subprocess.run([program, path], capture_output=True, text=True, cwd=ROOT)
    if result.returncode:
        sys.exit(f"parity: tokenizers: {name}\n{result.stdout[-4000:]}{result.stderr[-2000:]}")
    count = next(row.split(": ")[-1] for row in result.stdout.splitlines() if row.startswith(path))
    print(f"tokenizers: {name}: {count}, no difference", flush=True)


def component_lines(tokenizers):
    for tokenizer in tokenizers:
        yield golden.line(files={"tokenizer.json": tokenizer.to_str()})
        yield from golden.cases(tokenizer, torture())


def compare(build, folder, sets=("reviews", "torture", "random", "characters")):
    program = os.path.join(os.path.abspath(build), "tests", "test_tokenizer_golden")
    texts = {"reviews": reviews, "torture": torture, "random": random_bytes}
    if not os.path.isdir(SHARED):
        print("tokenizers: ../shared is not here: released vocabularies and reviews skipped")
    else:
        for name, here, tokenizer in released(folder):
            for kind in texts:
                if kind in sets:
                    check(program, folder, f"{name}, {kind}", golden.line(folder=here),
                          golden.cases(tokenizer, texts[kind]()))
    compare_unigram(program, folder, sets)
    if "torture" in sets:
        made = list(golden.components())
        check(program, folder, f"{len(made)} made tokenizers, torture", "", component_lines(made))
    for name, tokenizer, rows in character_sets():
        if "characters" in sets:
            head = golden.line(files={"tokenizer.json": tokenizer.to_str()})
            check(program, folder, f"all characters, {name}", head, golden.cases(tokenizer, rows))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", nargs="?", default="build")
    parser.add_argument("--sets", default="reviews,torture,random,characters")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        compare(options.build, folder, options.sets.split(","))


if __name__ == "__main__":
    main()
