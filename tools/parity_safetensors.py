#!/usr/bin/env python3
"""Gives hostile safetensors files to the reference reader and to Trident's; `make parity` runs it.

    .venv/bin/python tools/parity_safetensors.py [BUILD] [--seed N] [--files N]

The files: all of tests/unit/test_foreign.c, and --files more: valid ones with words of the format inserted, removed or
replaced. Trident must refuse what the reference refuses; if only Trident refuses a file, it must be for one of the
reasons below, which docs/reference/formats.md lists. For files that both accept, both must find the same tensors.
"""
import argparse
import collections
import os
import random
import re
import struct
import subprocess
import sys
import tempfile
import time

from safetensors import deserialize

# Why Trident refuses more: pattern of its message, in words.
MORE = [
    (r"does not begin with '\{'", "blanks before the header"),
    (r"duplicate object key", "a name twice"),
    (r"which Trident does not read", "a dtype that no part of Trident uses"),
    (r"has \d+ dims, the limit is 8", "more than 8 dims"),
    (r"__metadata__ is not an object", "__metadata__: null"),
    (r"has no dtype", "an entry as a list, a dtype as an object"),
    (r"\\u0000 is not allowed|NUL byte", "a NUL in a name or a text"),
    (r"too big integer|overflows", "sizes of 2^63 and more, where the tensor is empty"),
    (r"a negative number|real number overflow", "negative or endless numbers in keys that nobody reads"),
    (r"a string of more than|nested deeper than|more than \d+ MB of memory",
     "a string over 1 MiB, nesting over 64, values over 1.6 GB"),
]

WORDS = ['"F32"', '"F64"', '"BF16"', '"F16"', '"U8"', '"I64"', '"I32"', '"BOOL"', '"F4"', '"C64"', '"f32"', '"x"', "{",
         "}", "[", "]", ",",
         ":", "0", "1", "2", "4", "8", "-0", "-1", "1.0", "1e0", "0.5", "1e999", "true", "null", '"dtype"', '"shape"',
         '"data_offsets"',
         '"__metadata__"', '"a"', '"b"', '"\\u0061"', '"a\\u0000"', '"\\ud800"', '""', " ", "\t", "\n", "\0", "\x0b",
         "\ufeff",
         "9223372036854775807", "9223372036854775808", "18446744073709551615", "18446744073709551616", "4294967296",
         "4611686018427387904", "01", "+1", "[]", "{}", "[0,0]", "[0,4]", "[4,4]", "NaN", "//", "'a'"]
TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|-?[0-9.eE+]+|\w+|\s+|.', re.S)


def good(chance):
    """A well-formed header as words, and its bytes of data."""
    entries, at = [], 0
    if chance.random() < 0.3:
        entries.append('"__metadata__":{"format":"pt"}')
    for name in ["a", "b", "c d", "é"][:chance.randint(0, 4)]:
        dtype, size = chance.choice([("F32", 4), ("F64", 8), ("BF16", 2), ("F16", 2), ("U8", 1), ("I64", 8),
                                     ("I32", 4)])
        shape = [chance.choice([0, 1, 1, 2, 3]) for _ in range(chance.randint(0, 3))]
        count = size
        for dim in shape:
            count *= dim
        entries.append(f'"{name}":{{"dtype":"{dtype}","shape":{shape},"data_offsets":[{at},{at + count}]}}')
        at += count
    chance.shuffle(entries)
    return TOKEN.findall("{" + ",".join(entries) + "}" + " " * chance.randint(0, 9)), at


def damage(chance, words):
    for _ in range(chance.choice([0, 1, 1, 1, 2, 3])):
        at = chance.randrange(len(words)) if words else 0
        what = chance.randrange(5)
        if what == 0:
            words.insert(at, chance.choice(WORDS))
        elif what == 1 and words:
            words[at] = chance.choice(WORDS)
        elif what == 2 and words:
            del words[at]
        elif what == 3 and words:
            other = chance.randrange(len(words))
            words[at], words[other] = words[other], words[at]
        elif words:
            words.insert(at, words[chance.randrange(len(words))])
    return words


def make(chance):
    words, data = good(chance)
    header = "".join(damage(chance, words)).encode("utf-8", "surrogatepass")
    if chance.random() < 0.1 and header:
        at = chance.randrange(len(header))
        header = header[:at] + bytes([chance.randrange(256)]) + header[at + 1:]
    length = len(header) + (chance.choice([-1, 1, 2**32, 2**63]) if chance.random() < 0.05 else 0)
    data += chance.choice([-1, 1, 4]) if chance.random() < 0.1 else 0
    return struct.pack("<Q", max(length, 0)) + header + bytes(max(data, 0))


def reference(path):
    """Why it is refused, or None; types and shapes."""
    with open(path, "rb") as file:
        content = file.read()
    try:
        return None, sorted(f"{tensor['dtype']}{tensor['shape']}" for _, tensor in deserialize(content))
    except Exception as error:  # of several types
        return f"{type(error).__name__}: {error}", []


def compare(build, folder, seed, n):
    """Exits if the readers disagree where they must agree."""
    program, files = os.path.join(build, "tests", "test_foreign"), os.path.join(folder, "foreign")
    os.makedirs(files)
    subprocess.run([program, "make", files], check=True)
    listed = len(os.listdir(files))
    chance = random.Random(seed)
    for i in range(n):
        with open(os.path.join(files, f"random{i}.safetensors"), "wb") as file:
            file.write(make(chance))
    result = subprocess.run([program, "read", files], check=True, capture_output=True)
    lines = result.stdout.decode("utf-8", "replace").splitlines()
    verdicts = dict(line.split("\t", 1) for line in lines if "\t" in line)
    counts, reasons = collections.Counter(), collections.Counter()
    for name in sorted(os.listdir(files)):
        (theirs, tensors), ours = reference(os.path.join(files, name)), verdicts[name]
        accepted = re.fullmatch("accepted( .*)?", ours)
        if theirs and accepted:
            sys.exit(f"parity: {name} (seed {seed}) is accepted, and refused by the reference: {theirs}")
        if accepted and sorted(re.findall(r"\w+\[[^]]*\]", ours)) != tensors:
            sys.exit(f"parity: {name} (seed {seed}) has {tensors}, not: {ours}")
        counts[(bool(accepted), theirs is None)] += 1
        if not theirs and not accepted:
            why = next((words for pattern, words in MORE if re.search(pattern, ours)), None)
            if not why:
                sys.exit(f"parity: {name} (seed {seed}) is refused by Trident alone, for a reason that is not listed: "
                         f"{ours}")
            reasons[why] += 1
    print(f"safetensors: {listed} hostile files and {n} random ones: both refuse {counts[(False, False)]}, both accept "
          f"{counts[(True, True)]}, Trident alone refuses {counts[(False, True)]}, the reference alone 0")
    for why, count in reasons.most_common():
        print(f"  {count:5d}  {why}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", nargs="?", default="build")
    parser.add_argument("--seed", type=int, default=int(time.time()) % 100000)
    parser.add_argument("--files", type=int, default=5000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        compare(os.path.abspath(options.build), folder, options.seed, options.files)


if __name__ == "__main__":
    main()
