#!/usr/bin/env python3
"""SentencePiece Unigram tokenizers for golden_tokenizer.py, parity_tokenizer.py and bench/tokenizing.py: character
maps, small tokenizers with every component, and tokenizers with the structure of XLM-R's and DeBERTa-v3's.

    tools/golden_unigram.py               writes tests/golden/tokenizer_unigram.jsonl
    tools/golden_unigram.py --graphemes   prints src/data/text/unicode_graphemes.c
"""
import base64
import struct
import sys

from tokenizers import normalizers

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


def graphemes():
    """The table of src/data/text/unicode_graphemes.c; Hangul syllables follow from arithmetic."""
    values = grapheme_classes()
    print("""\
/* unicode_graphemes.c - the grapheme cluster classes of all characters as in the tokenizers library (0.23), determined
 * by testing each code point: tools/golden_unigram.py --graphemes prints this file. */
#include "data/text/graphemes.h"

const uint32_t tri__grapheme_bounds[] = {""")
    text, before = "   ", None
    for code in range(0x110000):
        value = 0 if 0xAC00 <= code < 0xD7A4 else values.get(code, 3)
        if value != before:
            item = f" 0x{code << 8 | value:X},"
            if len(text) + len(item) > 116:
                print(text)
                text = "   "
            text, before = text + item, value
    print(text)
    print("};\n\nconst int tri__grapheme_bounds_n = "
          "(int)(sizeof tri__grapheme_bounds / sizeof *tri__grapheme_bounds);")


if __name__ == "__main__":
    graphemes()
