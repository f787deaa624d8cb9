#!/usr/bin/env python3
"""Makes tests/golden/hashed.json: names and codes as hashed character n-grams, as docs/guide/data.md describes them.

    python3 tools/golden_hashed.py

XXH3 is written here again, for the at most 20 bytes that five characters have, so that the tool needs nothing but
Python.
"""
import json
import math
import os
import random

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "golden", "hashed.json")
MASK = (1 << 64) - 1
SECRET = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221"
    "b8084674f743248ee03590e6813a264c")


def word(data, at, size=8):
    return int.from_bytes(data[at:at + size], "little")


def fold(a, b):
    product = a * b
    return (product ^ product >> 64) & MASK


def mix(h, *steps):
    """Shifts and factors, in turn."""
    for shift, factor in steps:
        h ^= h >> shift
        h = h * factor & MASK
    return h


def rotated(h, bits):
    return (h << bits | h >> 64 - bits) & MASK


def xxh3(data):
    n = len(data)
    if n <= 3:
        key = data[0] << 16 | data[n >> 1] << 24 | data[-1] | n << 8
        h = key ^ word(SECRET, 0, 4) ^ word(SECRET, 4, 4)
        return mix(h, (33, 0xC2B2AE3D27D4EB4F), (29, 0x165667B19E3779F9), (32, 1))
    if n <= 8:
        h = (word(data, n - 4, 4) + (word(data, 0, 4) << 32)) ^ word(SECRET, 8) ^ word(SECRET, 16)
        h ^= rotated(h, 49) ^ rotated(h, 24)
        h = h * 0x9FB21C651E98DF25 & MASK
        h ^= (h >> 35) + n
        h = h * 0x9FB21C651E98DF25 & MASK
        return h ^ h >> 28
    if n <= 16:
        low = word(data, 0) ^ word(SECRET, 24) ^ word(SECRET, 32)
        high = word(data, n - 8) ^ word(SECRET, 40) ^ word(SECRET, 48)
        h = n + int.from_bytes(low.to_bytes(8, "little"), "big") + high + fold(low, high)
    else:
        assert n <= 32
        h = n * 0x9E3779B185EBCA87
        for at, secret in ((0, 0), (n - 16, 16)):
            h += fold(word(data, at) ^ word(SECRET, secret), word(data, at + 8) ^ word(SECRET, secret + 8))
    return mix(h & MASK, (37, 0x165667919E3779F9), (32, 1))


def grams(text):
    """Of each word in lower case and between two blanks: all runs of three to five characters."""
    for one in text.split():
        padded = " " + "".join(c.lower() for c in one) + " "
        for n in range(3, 6):
            for at in range(len(padded) - n + 1):
                yield padded[at:at + n]


def numbers(text, buckets):
    counts = [0] * buckets
    for gram in grams(text):
        h = xxh3(gram.encode())
        counts[(h & 0xFFFFFFFF) % buckets] += -1 if h >> 63 else 1
    length = math.sqrt(sum(c * c for c in counts))
    return {str(k): c / length for k, c in enumerate(counts) if c}


def cases():
    rng = random.Random(44)
    yield from ["", " ", "a", "ab", "Abc", "x y", "Nova 12", "  Château  Margaux\u00a02015 ", "ÄÖÜß", "İstanbul",
                "Ωmega ΣΑΣ", "东京", "中文 名字\u3000测试", "😀😀😀😀😀 😀", "e\u0301cole", "SKU-00123/B",
                "O'Neil-Smith", "01234", "12e4", "\u0130\u0130\u0130\u0130\u0130", "a" * 400, "long " * 300]
    letters = "abcXYZ 0129-_.éßжЖ字😀"
    for _ in range(60):
        yield "".join(rng.choice(letters) for _ in range(rng.randrange(1, 40)))


def main():
    made = [{"text": text, "buckets": buckets, "numbers": numbers(text, buckets)}
            for text in cases() for buckets in ((2, 64, 1000) if len(text) < 12 else (64,))]
    with open(OUT, "w", encoding="utf-8") as f:
        f.write('{"cases": [\n' + ",\n".join(json.dumps(case, ensure_ascii=False) for case in made) + "\n]}\n")


if __name__ == "__main__":
    main()
