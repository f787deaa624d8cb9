#!/usr/bin/env python3
"""Compares how Trident and transformers read tokenizer folders, for random combinations of files.

    .venv/bin/python tools/parity_folders.py [BUILD] [--seed N] [--count N]

`make parity` runs it. Each folder has a vocabulary (vocab.txt, vocab.json and merges.txt, or tokenizer.json) and,
optionally, tokenizer_config.json, special_tokens_map.json, added_tokens.json and config.json, which repeat, complete or
contradict each other. If AutoTokenizer opens it, Trident must give the same ids or refuse it; and what Trident saves
(the folder of a checkpoint or an export) must give the same ids in AutoTokenizer, whatever the encoder in it.
"""
import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

from transformers import AutoTokenizer, logging

import golden_tokenizer as golden
from tokenizers import AddedToken, normalizers, pre_tokenizers, processors

logging.set_verbosity_error()
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TEXTS = [
    "Hello, the DRESS fits  <x> perfectly [MASK] <mask> un<y>affable",
    "CAF\u00c9 cafe\u0301 \u4e2d\u56fd Love<X>love <new>",
    "[CLS] [cls] a [SEP] <s> b </s> [UNK] <unk> [PAD] <pad>",
    "<|endoftext|>it's  <x>  <y>",
    "",
    " the dress",
    "a b c d e f g h i j",
]
POOL = ["<x>", "<y>", "<X>", "<new>", "Love", "the", "[MASK]", "[CLS]", "[SEP]", "<s>", "</s>", "<mask>", "[PAD]"]
NAMED = ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"]
BYTES = ("<s>", "</s>", "<unk>", "<pad>", "<mask>")


def flags(chance, token):
    row = {"content": token}
    for key in ("lstrip", "rstrip", "single_word", "normalized", "special"):
        if chance.random() < 0.4:
            row[key] = chance.random() < 0.5
    return row


def wordpiece_json(chance):
    lower = chance.random() < 0.6
    normalizer = normalizers.BertNormalizer(
        lowercase=lower,
        strip_accents=chance.choice([None, None, None, False, True]),
        handle_chinese_chars=chance.random() < 0.9,
    )
    processor = chance.choice(
        ["template"] * 6
        + [
            None,
            processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2)),
            processors.BertProcessing(("[SEP]", 3), ("[MASK]", 4)),
        ]
    )
    return golden.small_wordpiece(
        chance.choice([normalizer] * 9 + [normalizers.Lowercase()]), pre_tokenizers.BertPreTokenizer(), processor
    )


def bytes_json(chance):
    space = chance.random() < 0.3
    tokenizer = golden.small_bytes(None, space=space, extra=BYTES)
    ids = {token: tokenizer.token_to_id(token) for token in BYTES}
    if chance.random() < 0.8:
        tokenizer.post_processor = processors.RobertaProcessing(
            ("</s>", ids["</s>"]), ("<s>", ids["<s>"]), add_prefix_space=space
        )
    return tokenizer


def tokenizer_json(chance, tokenizer, specials):
    for token in specials:
        if chance.random() < 0.9:
            tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False)])
    for token in POOL:
        if chance.random() < 0.1:
            tokenizer.add_tokens([AddedToken(**flags(chance, token))])
    if chance.random() < 0.2:
        tokenizer.enable_truncation(7, direction=chance.choice(["left", "right"]))
    if chance.random() < 0.1:
        tokenizer.enable_padding(pad_token=chance.choice(["[PAD]", "<pad>", "<x>"]))
    return tokenizer.to_str()


def vocabulary(chance, kind):
    """The files of a vocabulary, and how many pieces it has."""
    if kind == "bert":
        pieces = [piece for piece in golden.small_vocabulary() if piece != "[MASK]" or chance.random() < 0.95]
        return {"vocab.txt": "\n".join(pieces) + "\n"}, pieces
    if kind == "bert json":
        tokenizer = wordpiece_json(chance)
        return {"tokenizer.json": tokenizer_json(chance, tokenizer, golden.SPECIALS)}, list(tokenizer.get_vocab(False))
    if kind == "bytes json":
        tokenizer = bytes_json(chance)
        return {"tokenizer.json": tokenizer_json(chance, tokenizer, BYTES)}, list(tokenizer.get_vocab(False))
    extra = BYTES if kind == "roberta" else ("<|endoftext|>",)
    with tempfile.TemporaryDirectory() as folder:
        names = golden.byte_model(extra=extra).save(folder)
        files = {os.path.basename(name): open(name, encoding="utf-8").read() for name in names}
    return files, list(json.loads(files["vocab.json"]))


def token_value(chance, typed):
    token = chance.choice(POOL)
    if chance.random() < 0.7:
        return token
    return {**({"__type": "AddedToken"} if typed else {}), **flags(chance, token)}


def listed(chance, pieces):
    """{id: token} for added_tokens_decoder, mostly with the ids that they will have."""
    tokens = chance.sample(POOL, chance.choice([0, 1, 2, 4]))
    next_id, rows = len(pieces), {}
    for token in tokens:
        if token in pieces:
            rows[pieces.index(token)] = token
        else:
            rows[next_id if chance.random() < 0.95 else next_id + 5] = token
            next_id += 1
    return rows


def config_keys(chance, kind, pieces):
    likely = {
        "bert": "BertTokenizer",
        "bert json": "BertTokenizer",
        "roberta": "RobertaTokenizer",
        "bytes json": "RobertaTokenizer",
        "gpt2": "GPT2Tokenizer",
    }[kind]
    keys = {}

    def may(share, key, values):
        if chance.random() < share:
            keys[key] = chance.choice(values)

    may(
        0.5,
        "tokenizer_class",
        [likely] * 5
        + [likely + "Fast"] * 2
        + ["PreTrainedTokenizerFast"] * 2
        + ["ElectraTokenizer", "GPT2Tokenizer", None],
    )
    may(0.5, "do_lower_case", [True, False])
    may(0.2, "strip_accents", [True, False, None])
    may(0.2, "tokenize_chinese_chars", [True, False])
    may(0.3, "add_prefix_space", [True, False])
    may(0.2, "truncation_side", ["left", "right"])
    may(0.02, "split_special_tokens", [True, False])
    may(0.02, "clean_text", [True, False])
    may(0.02, "add_bos_token", [True, False])
    may(0.05, "model_max_length", [512])
    for key in [*NAMED, "own_token"]:
        if chance.random() < 0.08:
            keys[key] = token_value(chance, True) if chance.random() < 0.9 else None
    for key in ("additional_special_tokens", "extra_special_tokens"):
        if chance.random() < 0.15:
            keys[key] = chance.choice(
                [None, [], {"image": chance.choice(POOL)}]
                + [[token_value(chance, True) for _ in range(chance.choice([1, 2, 3]))]] * 5
            )
    if chance.random() < 0.2:
        keys["added_tokens_decoder"] = {str(id): flags(chance, token) for id, token in listed(chance, pieces).items()}
    order = list(keys)
    chance.shuffle(order)
    return {key: keys[key] for key in order}


def map_keys(chance):
    keys = {}
    for key in NAMED:
        if chance.random() < 0.2:
            keys[key] = token_value(chance, False)
    if chance.random() < 0.4:
        keys["additional_special_tokens"] = [chance.choice(POOL) for _ in range(chance.choice([1, 2]))]
    if chance.random() < 0.1:
        keys["extra_special_tokens"] = [token_value(chance, False) for _ in range(chance.choice([1, 2]))]
    return keys


def folder_files(chance):
    kind = chance.choice(["bert", "bert json", "bert json", "roberta", "bytes json", "gpt2"])
    files, pieces = vocabulary(chance, kind)
    if chance.random() < 0.8:
        files["tokenizer_config.json"] = json.dumps(config_keys(chance, kind, pieces))
    if chance.random() < 0.35:
        files["special_tokens_map.json"] = json.dumps(map_keys(chance))
    if chance.random() < 0.25:
        files["added_tokens.json"] = json.dumps({token: id for id, token in listed(chance, pieces).items()})
    if chance.random() < 0.85:
        likely = {"bert": "bert", "bert json": "bert", "roberta": "roberta", "bytes json": "roberta", "gpt2": "gpt2"}[
            kind
        ]
        files["config.json"] = json.dumps({"model_type": chance.choice([likely] * 9 + ["bert", "roberta"])})
    return files


def write_folder(folder, files):
    os.makedirs(folder)
    for name, text in files.items():
        with open(os.path.join(folder, name), "w", encoding="utf-8", newline="") as file:
            file.write(text)


def ids_of(folder):
    """(text, max_len or None, ids) of each text, by transformers; None where it does not open the folder or cannot
    encode."""
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder)
        rows = [(text, None, tokenizer(text)["input_ids"]) for text in TEXTS]
        return rows + [(text, 6, tokenizer(text, truncation=True, max_length=6)["input_ids"]) for text in TEXTS]
    except Exception:
        return None


def case_lines(rows):
    for text, max_len, ids in rows:
        yield golden.line(text=text, ids=ids) if max_len is None else golden.line(text=text, max_len=max_len, ids=ids)


def compare(build, folder, seed, count):
    program = os.path.join(os.path.abspath(build), "tests", "test_tokenizer_golden")
    os.makedirs(folder, exist_ok=True)
    chance, wanted, lines = random.Random(seed), {}, []
    for i in range(count):
        files = folder_files(chance)
        here = os.path.join(folder, f"folder-{i}")
        write_folder(here, files)
        rows = ids_of(here)
        lines.append(golden.line(files=files, may_refuse=True, save=os.path.join(folder, f"saved-{i}")))
        lines.extend(case_lines(rows or []))
        wanted[i] = rows
    path = os.path.join(folder, "folders.jsonl")
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        file.writelines(lines)
    result = subprocess.run([program, path], capture_output=True, text=True, cwd=ROOT)
    if result.returncode:
        where = re.findall(r"folders.jsonl:(\d+): (?!refused)", result.stdout + result.stderr)
        i = sum('"may_refuse":true' in row for row in lines[: int(where[0])]) - 1 if where else 0
        text = json.dumps(folder_text(os.path.join(folder, f"folder-{i}")), indent=1)
        sys.exit(
            f"parity: tokenizer folders, seed {seed}\n{result.stdout[-1500:]}{result.stderr[-1500:]}\n"
            f"folder {i}: {text}"
        )
    read = 0
    for i, rows in wanted.items():
        saved = os.path.join(folder, f"saved-{i}")
        if not os.path.isdir(saved):
            continue
        read += 1
        for model in ("bert", "roberta"):
            with open(os.path.join(saved, "config.json"), "w", encoding="utf-8") as file:
                json.dump({"model_type": model}, file)
            again = ids_of(saved)
            if again is None or (rows is not None and again != rows):
                sys.exit(
                    f"parity: tokenizer folders, seed {seed}: {saved}, saved beside a {model} encoder, gives "
                    "other ids in transformers: "
                    f"{json.dumps(folder_text(os.path.join(folder, f'folder-{i}')))}"
                )
    opened = sum(rows is not None for rows in wanted.values())
    both = sum(rows is not None and os.path.isdir(os.path.join(folder, f"saved-{i}")) for i, rows in wanted.items())
    print(
        f"tokenizers: {count} random folders, seed {seed}: transformers opens {opened}, Trident {read}, both "
        f"{both}: no difference, "
        "neither in what is saved",
        flush=True,
    )


def folder_text(folder):
    return {
        name: open(os.path.join(folder, name), encoding="utf-8").read()[:1200]
        for name in os.listdir(folder)
        if name not in ("vocab.txt", "vocab.json", "merges.txt")
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", nargs="?", default="build")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=1000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        compare(options.build, folder, options.seed, options.count)


if __name__ == "__main__":
    main()
