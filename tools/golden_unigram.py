#!/usr/bin/env python3
"""SentencePiece Unigram tokenizers for golden_tokenizer.py, parity_tokenizer.py and bench/tokenizing.py: character
maps, small tokenizers with every component, and tokenizers with the structure of XLM-R's and DeBERTa-v3's.

    tools/golden_unigram.py             writes tests/golden/tokenizer_unigram.jsonl
    tools/golden_unigram.py --classes   prints src/data/text/unicode_classes.c
"""
import json
import os
import random
import struct
import sys
import tempfile
import unicodedata

from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, processors

import golden_tokenizer as golden

BLOCK = 256  # units of a double array are allocated in blocks


def double_array(keys):
    """A Darts double array of {bytes: int}: a unit is label | has_leaf << 8 | offset << 10, or a leaf's value with its
    sign bit set; the children of the node at p are at p ^ offset ^ label, its leaf at p ^ offset."""
    children = {b"": set()}
    for key in keys:
        for end in range(len(key)):
            children.setdefault(key[:end], set()).add(key[end])
            children.setdefault(key[:end + 1], set())
    units, used, bases = [0] * BLOCK, {0}, set()

    def place(labels):
        base = 1
        while base in bases or any(base ^ label in used for label in labels):
            base += 1
        bases.add(base)
        used.update(base ^ label for label in labels)
        while len(units) <= base | (BLOCK - 1):
            units.extend([0] * BLOCK)
        return base

    waiting = [(b"", 0)]
    while waiting:
        prefix, at = waiting.pop()
        labels = sorted(children[prefix]) + [0] * (prefix in keys)
        base = place(labels)
        units[at] |= (at ^ base) << 10 | (prefix in keys) << 8
        for label in labels:
            if label:
                units[base ^ label] = label
                waiting.append((prefix + bytes([label]), base ^ label))
            else:
                units[base] = keys[prefix] | 1 << 31
    return units


def charsmap(mapping):
    """A precompiled_charsmap that replaces each text, or byte string, by another."""
    blob, starts = b"", {}
    for text in mapping.values():
        if text not in starts:
            starts[text] = len(blob)
            blob += text.encode() + b"\0"
    units = double_array({key if isinstance(key, bytes) else key.encode(): starts[text]
                          for key, text in mapping.items()})
    return struct.pack(f"<{len(units) + 1}I", 4 * len(units), *units) + blob


def grapheme_classes():
    """What unicode-segmentation makes of each code point, seen through a map that replaces every character by x, and
    every cluster of less than 6 bytes by one x."""
    leads = [b"a", *(bytes([lead]) for lead in range(0xC2, 0xF5))]
    normalizer = normalizers.Precompiled(charsmap({lead: "x" for lead in leads}))
    codes = [code for code in range(0x110000) if not 0xD800 <= code < 0xE000 and code not in (10, 13, ord("x"))]

    def ask(form):
        text = "\n".join(form.replace("@", chr(code)) for code in codes)
        return dict(zip(codes, (out.count("x") + (code < 0x80 and code != 0x61) for code, out in
                                zip(codes, normalizer.normalize_str(text).split("\n")))))

    attaches = ask("a@")
    control, extend = ask("@\u0301\u0301"), ask("\u00a9@\u200d\u00a9\u0301")
    prepend, picture = ask("@a\u0301"), ask("@\u200d\u00a9\u0301")
    before_v, before_t = ask("@\u1161\u0301"), ask("@\u11a8\u0301")
    after_l, after_v = ask("\u1100@\u0301"), ask("\u1161@\u0301")
    consonant, linker = ask("@\u094d\u0915\u0301"), ask("\u0915@\u0915\u0301")
    conjoins = ask("\u0915@\u094d\u0915\u0301")
    names = {"other": 0, "control": 3, "extend": 4, "zwj": 5, "spacing": 6, "prepend": 7, "picture": 8, "l": 9, "v": 10,
             "t": 11, "lv": 12, "lvt": 13}

    def kind(code):
        if code == 0x200D:
            return "zwj"
        if control[code] == 2:
            return "control"
        if attaches[code] == 1:
            return "extend" if extend[code] == 5 else "spacing"
        if prepend[code] != 2:
            return "prepend"
        if picture[code] == 4:
            return "picture"
        if code >= 0x80 and before_v[code] == 3:
            return "lv" if before_t[code] == 3 and after_v[code] != 3 and code < 0x10000 else \
                "v" if before_t[code] == 3 else "l"
        if code >= 0x80 and before_t[code] == 3:
            return "lvt" if after_l[code] == 3 else "t"
        return "other"

    values = {10: 2, 13: 1, ord("x"): 0}
    for code in codes:
        joins = 2 if linker[code] == 4 and attaches[code] == 1 else 3 if attaches[code] == 1 and conjoins[code] == 5 \
            else 1 if attaches[code] != 1 and consonant[code] == 4 else 0
        values[code] = names[kind(code)] | joins << 4
    return values


def rows(items):
    """Prints a table's entries in lines of at most 118 columns."""
    text = "   "
    for item in items:
        if len(text) + len(item) > 116:
            print(text)
            text = "   "
        text += f" {item},"
    print(text)


def print_classes(classes, graphemes):
    """The tables of src/data/text/unicode_classes.c, of both classes of each code point."""
    each, kinds, bounds = list(zip(classes, graphemes)), [], []
    for code, kind in enumerate(each):
        if kind not in kinds:
            kinds.append(kind)
        if code == 0 or kind != each[code - 1]:
            bounds.append(code << 6 | kinds.index(kind))
    assert len(kinds) <= 1 << 6
    print("""\
/* unicode_classes.c - the classes of all characters as in the tokenizers library (0.23), determined by testing each
 * code point: tools/golden_unigram.py --classes prints this file. */
#include "data/text/unicode.h"

const uint8_t tri__ascii_class[128] = {""")
    rows(str(value) for value in classes[:128])
    print("};\n\nconst tri_char_kind tri__char_kinds[] = {")
    rows(f"{{{kind[0]}, {kind[1]}}}" for kind in kinds)
    print("};\n\nconst uint32_t tri__char_bounds[] = {")
    rows(str(bound) for bound in bounds)
    print("};\n\nconst int tri__char_bounds_n = (int)(sizeof tri__char_bounds / sizeof *tri__char_bounds);")


def print_all_classes():
    """Hangul syllables' graphemes follow from arithmetic."""
    graphemes = grapheme_classes()
    print_classes(golden.classes(), [0 if 0xAC00 <= code < 0xD7A4 else graphemes.get(code, 3)
                                     for code in range(0x110000)])


def small_map():
    """Part of SentencePiece's nmt_nfkc: control characters, blanks, accents, compatibility characters."""
    chars = [chr(code) for code in [*range(0xA0, 0x100), 0x1E9B, 0x2003, 0x2126, 0x3392, 0xFB01, 0xFDFA, 0xFF01, 0xFF21,
                                    0xFF22, 0xFF41, 0xFF76, 0x1D15E, 0x2F800]]
    mapping = {char: normal for char in chars if (normal := unicodedata.normalize("NFKC", char)) != char}
    for char in "\u00e9\u00c9\u00e8\u00f1\u00fc\u00e7\u00c5\u1e09":
        mapping[unicodedata.normalize("NFD", char)] = char
    mapping.update({chr(code): "" for code in (1, 7, 0x1B, 0x7F)})
    mapping.update({char: " " for char in "\t\n\r\u200b\u2028\u3000\ufeff\u2581"})
    return charsmap(mapping)


def small_pieces(seed, space="\u2581", extra=()):
    """Pieces with scores as SentencePiece writes them (float32) and many ties."""
    chance = random.Random(seed)
    words = [space, *(chr(code) for code in range(33, 127)), *golden.RARE[::2], "the", "dress", "fit", "un", "aff",
             "able", "ing", "aa", "aaa", "xx", "xxxx", "..", "...", "!!", "ee", "e\u0301", "\u4e2d\u56fd", "ab",
             "caf", "na", "00", *extra]
    words += [space + word for word in ("the", "dress", "a", "x", "it", "un", "", "hel", "lo") if word]
    pieces = [("<unk>", 0.0)]
    for word in dict.fromkeys(words):
        score = struct.unpack("f", struct.pack("f", -chance.random() * 12 - 2))[0]
        pieces.append((word, score if chance.random() < 0.8 else float(-chance.randrange(2, 9))))
    return pieces


def small(normalizer, pre_tokenizer, tokens=(), processor=None, seed=1, fallback=False, **options):
    """The text of a tokenizer.json, and the tokenizer that the library reads from it."""
    pieces = small_pieces(seed, **options)
    pieces += [(f"<0x{byte:02X}>", -20.0 - byte / 7) for byte in range(256)] if fallback else []
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=0, byte_fallback=fallback))
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    if pre_tokenizer is not None:
        tokenizer.pre_tokenizer = pre_tokenizer
    if processor is not None:
        tokenizer.post_processor = processor
    tokenizer.add_tokens(list(tokens))
    text = tokenizer.to_str()
    return text, Tokenizer.from_str(text)


def components():
    """Small tokenizers that between them have every component and option that Trident knows beside Unigram."""
    n, p, token = normalizers, pre_tokenizers, AddedToken
    accents = n.Precompiled(small_map())
    blanks = n.Replace(Regex(" {2,}"), "\u2581")
    yield small(None, p.Metaspace())
    yield small(None, None, seed=2)
    yield small(None, p.Metaspace(), seed=8)  # "eeeee" shows how scores are parsed
    yield small(accents, p.Sequence([p.WhitespaceSplit(), p.Metaspace()]), processor=processors.TemplateProcessing(
        single="<unk> $A <unk>", special_tokens=[("<unk>", 0)]))
    yield small(n.Sequence([accents, n.Strip(left=False), blanks]), p.Metaspace(), fallback=True, seed=3)
    yield small(n.Sequence([n.Strip(), accents, n.Replace(Regex(" {2,}"), " ")]),
                p.Sequence([p.Punctuation("isolated"), p.Metaspace()]), seed=4)
    yield small(n.Sequence([n.Lowercase(), n.Replace(Regex(r"\s{2,}|[\n\r\t]"), " "), n.NFC(), n.Strip(left=False)]),
                p.Metaspace(), seed=5)
    yield small(n.Nmt(), p.Metaspace(prepend_scheme="never"), seed=6)
    yield small(n.Sequence([n.Nmt(), n.NFKC(), n.Prepend("\u2581"), n.Replace(" ", "\u2581")]), None, seed=7)
    yield small(n.Sequence([n.Replace("``", '"'), n.Replace("''", '"'), n.NFKD(), n.StripAccents(), n.Lowercase(),
                            accents]), p.Sequence([p.WhitespaceSplit(), p.Metaspace()]), seed=16)
    yield small(accents, p.Metaspace(prepend_scheme="first"), [token("[SEP]"), token("the", normalized=True)], seed=9)
    yield small(n.Replace("a", "bb"), p.Metaspace(prepend_scheme="first", split=False), fallback=True, seed=10)
    yield small(None, p.Sequence([p.WhitespaceSplit(), p.Metaspace(prepend_scheme="first")]), seed=11)
    yield small(None, p.Sequence([p.Metaspace("_", "always"), p.Punctuation("contiguous")]), seed=12, space="_")
    yield small(accents, p.Metaspace(), [token("<mask>", lstrip=True, normalized=False, special=True),
                                         token("<s>", normalized=False), token("caf\u00e9", normalized=True),
                                         token("[", rstrip=True)], seed=13)


def class_folders():
    """(files, words of the refusal or None): folders of XLM-R's and DeBERTa's classes."""
    n, p = normalizers, pre_tokenizers
    accents, space = n.Precompiled(small_map()), p.Sequence([p.WhitespaceSplit(), p.Metaspace()])
    special = ["<s>", "<pad>", "</s>"]
    first = [(name, 0.0) for name in special] + [("<unk>", 0.0)]
    pieces = first + small_pieces(14)[1:]

    def xlm(normalizer=accents, pre_tokenizer=space, unknown=3, **config):
        tokenizer = Tokenizer(models.Unigram(pieces, unk_id=unknown))
        tokenizer.normalizer, tokenizer.pre_tokenizer = normalizer, pre_tokenizer
        tokenizer.post_processor = processors.TemplateProcessing(
            single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)])
        tokenizer.add_special_tokens(golden.special([*special, "<unk>"]) + golden.special(["<mask>"], lstrip=True))
        return {"config.json": json.dumps({"model_type": "xlm-roberta"}), "tokenizer.json": tokenizer.to_str(),
                "tokenizer_config.json": json.dumps(config)}

    def deberta(normalizer, pre_tokenizer=p.Sequence([p.Metaspace()]), **config):
        names = ["[PAD]", "[CLS]", "[SEP]", "[UNK]"]
        tokenizer = Tokenizer(models.Unigram([(name, 0.0) for name in names] + small_pieces(15)[1:], unk_id=3))
        tokenizer.normalizer, tokenizer.pre_tokenizer = normalizer, pre_tokenizer
        tokenizer.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 1), ("[SEP]", 2)])
        tokenizer.add_special_tokens(golden.special([*names, "[MASK]"]))
        return {"config.json": json.dumps({"model_type": "deberta-v2"}), "tokenizer.json": tokenizer.to_str(),
                "tokenizer_config.json": json.dumps(config)}

    spaces = [n.Replace(Regex(r"\s{2,}|[\n\r\t]"), " "), n.NFC(), n.Strip(left=False)]
    old = n.Sequence([n.Strip(), accents, n.Replace(Regex(" {2,}"), " ")])
    fast = {"tokenizer_class": "PreTrainedTokenizerFast"}
    yield xlm(), None
    yield xlm(tokenizer_class="XLMRobertaTokenizerFast", extra_special_tokens=["<x>"]), None
    yield xlm(add_prefix_space=False), None
    yield xlm(unknown=5), "unk_id of the model"
    yield xlm(n.Sequence([accents, n.Strip(left=False), n.Replace(Regex(" {2,}"), "\u2581")]), p.Metaspace()), \
        "the normalizer is not what transformers' XLMRobertaTokenizer makes"
    yield xlm(n.Sequence([accents, n.Strip(left=False), n.Replace(Regex(" {2,}"), "\u2581")]), p.Metaspace(), **fast), \
        None
    yield deberta(n.Sequence(spaces)), None
    yield deberta(n.Sequence([n.Lowercase(), *spaces]), do_lower_case=True, unk_id=3), None
    yield deberta(n.Sequence([n.Lowercase(), *spaces])), "do_lower_case"
    yield deberta(n.Sequence(spaces), p.Sequence([p.Punctuation("isolated"), p.Metaspace()]), split_by_punct=True), None
    yield deberta(old), "the normalizer is not what transformers' DebertaV2Tokenizer makes"
    yield deberta(old, **fast), None


def class_lines():
    from transformers import AutoTokenizer

    for i, (files, refused) in enumerate(class_folders()):
        yield golden.line(files=files, **({"refused": refused} if refused else {}))
        if refused:
            continue
        with tempfile.TemporaryDirectory() as folder:
            for name, text in files.items():
                with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                    file.write(text)
            tokenizer = AutoTokenizer.from_pretrained(folder)._tokenizer
        tokenizer.no_truncation()
        yield from golden.cases(tokenizer, golden.TEXTS[i % 5::5])


def write_golden():
    lines = []
    for i, (text, tokenizer) in enumerate(components()):
        lines.append(golden.line(files={"tokenizer.json": text}))
        lines += golden.cases(tokenizer, golden.TEXTS[i % 4::4])
        lines += golden.cases(tokenizer, golden.random_texts(400 + i, 15))
        lines += golden.cases(tokenizer, [unit * count for unit in "ae." for count in (5, 7)])
    golden.write("tokenizer_unigram.jsonl", lines + list(class_lines()))


def proto_fields(data):
    """(number, value) of the fields of a protocol buffer."""
    at = 0

    def number():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        key = number()
        kind = key & 7
        size = number() if kind in (0, 2) else 8 if kind == 1 else 4
        yield key >> 3, size if kind == 0 else data[at:at + size]
        at += 0 if kind == 0 else size


def trained(texts, folder, size, **options):
    """Pieces with their scores and the precompiled_charsmap (nmt_nfkc) of a SentencePiece model learnt from texts."""
    import sentencepiece

    prefix = os.path.join(folder, "learnt")
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts), model_prefix=prefix, vocab_size=size, model_type="unigram",
        normalization_rule_name="nmt_nfkc", num_threads=1, minloglevel=2, hard_vocab_limit=False, **options)
    with open(prefix + ".model", "rb") as file:
        model = list(proto_fields(file.read()))
    rules = dict(proto_fields(next(value for field, value in model if field == 3)))
    learnt = sentencepiece.SentencePieceProcessor(model_file=prefix + ".model")
    pieces = [(learnt.id_to_piece(i), learnt.get_score(i)) for i in range(learnt.get_piece_size())]
    return pieces, rules[2]


def released(texts, folder, size=16000):
    """(name, folder): tokenizers with the structure of released ones, of both versions of transformers' converters."""
    n, p = normalizers, pre_tokenizers
    pieces, rules = trained(texts, folder, size)
    accents, blank = n.Precompiled(rules), Regex(" {2,}")

    def save(name, pieces, unknown, names, normalizer, pre_tokenizer, mask, config, **template):
        here = os.path.join(folder, name)
        os.makedirs(here, exist_ok=True)
        tokenizer = Tokenizer(models.Unigram(pieces, unk_id=unknown))
        tokenizer.normalizer, tokenizer.pre_tokenizer = normalizer, pre_tokenizer
        tokenizer.post_processor = processors.TemplateProcessing(
            special_tokens=[(text, i) for i, (text, _) in enumerate(pieces[:4])], **template)
        tokenizer.add_special_tokens(golden.special(names) + mask)
        tokenizer.save(os.path.join(here, "tokenizer.json"))
        with open(os.path.join(here, "tokenizer_config.json"), "w", encoding="utf-8") as file:
            json.dump(config, file)
        return name, here

    xlm = [(name, 0.0) for name in ("<s>", "<pad>", "</s>", "<unk>")] + pieces[3:] + [("<mask>", 0.0)]
    around = {"single": "<s> $A </s>", "pair": "<s> $A </s> </s> $B </s>"}
    names, mask = ["<s>", "<pad>", "</s>", "<unk>"], golden.special(["<mask>"], lstrip=True)
    yield save("xlm-r", xlm, 3, names, accents, p.Sequence([p.WhitespaceSplit(), p.Metaspace()]), mask,
               {"tokenizer_class": "XLMRobertaTokenizer"}, **around)
    yield save("xlm-r-4", xlm, 3, names, n.Sequence([accents, n.Strip(left=False), n.Replace(blank, "\u2581")]),
               p.Metaspace(), mask, {"tokenizer_class": "PreTrainedTokenizerFast"}, **around)
    names = ["[PAD]", "[CLS]", "[SEP]", "[UNK]"]
    deberta, mask = [(name, 0.0) for name in names] + pieces[3:], golden.special(["[MASK]"])
    around = {"single": "[CLS] $A [SEP]", "pair": "[CLS] $A [SEP] $B:1 [SEP]:1"}
    yield save("deberta-v3", deberta, 3, names, n.Sequence([n.Replace(Regex(r"\s{2,}|[\n\r\t]"), " "), n.NFC(),
                                                           n.Strip(left=False)]), p.Sequence([p.Metaspace()]), mask,
               {"tokenizer_class": "DebertaV2Tokenizer"}, **around)
    yield save("deberta-v3-4", deberta, 3, names, n.Sequence([n.Strip(), accents, n.Replace(blank, " ")]),
               p.Sequence([p.Metaspace()]), mask, {"tokenizer_class": "PreTrainedTokenizerFast"}, **around)


def read(folder):
    """A folder's tokenizer as transformers reads it."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)._tokenizer
    tokenizer.no_truncation()
    return tokenizer


def map_tokenizers(folder):
    """(name, tokenizer): the bytes of a normalised text are its ids, with the map of released models and with one that
    replaces every cluster."""
    with open(os.path.join(folder, "xlm-r", "tokenizer.json"), encoding="utf-8") as file:
        rules = json.load(file)["normalizer"]
    leads = charsmap({bytes([lead]): "x" for lead in [*b"ae1!", *range(0xC2, 0xF5)]})
    for name, normalizer in (("nmt_nfkc", rules), ("every cluster", json.loads(Tokenizer.from_str(
            small(normalizers.Precompiled(leads), None)[0]).to_str())["normalizer"])):
        tokenizer = json.loads(Tokenizer(models.Unigram(
            [("<unk>", 0.0)] + [(f"<0x{byte:02X}>", -1.0) for byte in range(256)], unk_id=0,
            byte_fallback=True)).to_str())
        tokenizer["normalizer"] = normalizer
        yield name, json.dumps(tokenizer)


if __name__ == "__main__":
    print_all_classes() if sys.argv[1:] == ["--classes"] else write_golden()
