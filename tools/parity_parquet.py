"""Parquet files against pyarrow: types x encodings x codecs x page versions x nulls x sizes of row groups.

    .venv/bin/python tools/parity_parquet.py [BUILD] [--seed 1] [--rounds 1]

pyarrow writes each file; build/bench/table_rows prints its fields, and they must be the text that the same
values have as CSV (src/data/table/value_text.h), field by field. Each file is read twice: all in memory, and with room
for nothing, so that chunks are freed and decoded again. Exit 1 at the first difference.
"""
import argparse
import datetime
import decimal
import itertools
import json
import math
import os
import random
import string
import struct
import subprocess
import sys
import tempfile
import uuid

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

CODECS = ["none", "snappy", "gzip", "zstd", "lz4"]


def text_of(value, kind):
    """A value as the table's text."""
    if value is None:
        return ""
    if isinstance(kind, str):  # rendered already
        return value
    if pa.types.is_boolean(kind):
        return "true" if value else "false"
    if pa.types.is_floating(kind):
        if math.isnan(value):
            return ""
        if pa.types.is_float64(kind):
            return repr(float(value))
        digits = np.format_float_scientific(np.float32(value) if pa.types.is_float32(kind) else np.float16(value))
        return digits if "inf" in digits else repr(float(digits))
    if pa.types.is_decimal(kind):
        return format(value, "f")
    return str(value)


def ticks_text(ticks, unit, utc):
    """A timestamp of `ticks` units as text."""
    per = {"s": 1, "ms": 1000, "us": 10**6, "ns": 10**9}[unit]
    seconds, part = divmod(ticks, per)
    day, second = divmod(seconds, 86400)
    date = np.datetime64(0, "D") + np.timedelta64(day, "D")
    clock = "%02d:%02d:%02d" % (second // 3600, second // 60 % 60, second % 60)
    fraction = "" if per == 1 else ".%0*d" % (len(str(per)) - 1, part)
    return "%s %s%s%s" % (date, clock, fraction, "Z" if utc else "")


def word(rng, longest):
    alphabet = string.ascii_letters + " ,\"'\n;|\t" + "äöüß日本語😀"
    return "".join(rng.choice(alphabet) for _ in range(rng.randrange(longest + 1)))


def columns_of(rng, n):
    """(name, values, type or rendered texts) with hostile values."""
    def integers(bits, signed):
        low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
        ends = [low, high, 0, 1, low + 1, high - 1]
        return [rng.choice(ends) if rng.random() < 0.3 else rng.randint(low, high) >> rng.randrange(bits)
                for _ in range(n)]

    def floats(form, size):
        special = [0.0, -0.0, 1.0, 0.1, float("inf"), float("-inf"), float("nan"), 1e16, 1e15, 1e-5, 1e-4, 123456.789]
        if form == "<d":
            special += [5e-324, 1.7976931348623157e308, 2.2250738585072014e-308, 9007199254740993.0]
        out = []
        for _ in range(n):
            if rng.random() < 0.3:
                out.append(rng.choice(special))
            elif rng.random() < 0.5:
                out.append(round(rng.uniform(-1000, 1000), rng.randrange(6)))
            else:
                out.append(struct.unpack(form, rng.randbytes(size))[0])
        return out

    halves = [v if abs(v) < 65520 else math.inf for v in floats("<e", 2)]
    texts = [word(rng, 30) for _ in range(n)]
    few = [rng.choice(["red", "green", "", "blue, or not", "日本"]) for _ in range(n)]
    alike = sorted("common/prefix/%06d/%s" % (rng.randrange(n * 2), word(rng, 3)) for _ in range(n))
    columns = [("texts", texts, pa.string()), ("few", few, pa.string()), ("alike", alike, pa.string()),
               ("large", texts, pa.large_string()), ("binary", [t.encode() for t in texts], pa.binary()),
               ("fixed", ["".join(rng.choice("abcdef") for _ in range(5)).encode() for _ in range(n)], pa.binary(5)),
               ("yes", [rng.random() < 0.5 for _ in range(n)], pa.bool_()),
               ("mostly", [i % 97 != 0 for i in range(n)], pa.bool_()),
               ("f64", floats("<d", 8), pa.float64()), ("f32", floats("<f", 4), pa.float32()),
               ("f16", [np.float16(v) for v in halves], pa.float16())]
    for bits, signed in itertools.product((8, 16, 32, 64), (True, False)):
        name = ("int%d" if signed else "uint%d") % bits
        columns.append((name, integers(bits, signed), getattr(pa, name)()))
    columns.append(("rising", list(range(-(n // 2), n - n // 2)), pa.int64()))
    columns.append(("constant", [7] * n, pa.int32()))
    for precision, scale in ((1, 0), (9, 2), (18, 7), (38, 10), (38, 38), (5, 5)):
        columns.append(("decimal_%d_%d" % (precision, scale),
                        [decimal.Decimal(rng.randrange(1 - 10**precision, 10**precision)
                                         // 10**rng.randrange(precision)).scaleb(-scale, decimal.Context(prec=80))
                         for _ in range(n)],
                        pa.decimal128(precision, scale)))
    columns.append(("decimal256", [decimal.Decimal(rng.randrange(-10**60, 10**60))
                                   .scaleb(-9, decimal.Context(prec=80)) for _ in range(n)], pa.decimal256(70, 9)))
    columns.append(("dates", [datetime.date(1, 1, 1) + datetime.timedelta(rng.randrange(3652058)) for _ in range(n)],
                    pa.date32()))
    return columns


def times_of(rng, n):
    """(name, array, texts)."""
    for unit, utc in itertools.product(("ms", "us", "ns"), (False, True)):
        per = {"ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
        ticks = [rng.choice([0, -1, 1, rng.randrange(-9 * 10**9, 9 * 10**9) * per + rng.randrange(per)])
                 for _ in range(n)]
        yield ("stamp_%s_%s" % (unit, utc), pa.array(ticks, pa.timestamp(unit, "UTC" if utc else None)),
               [ticks_text(t, unit, utc) for t in ticks])
        day = [rng.randrange(86400 * per) for _ in range(n)]
        kind = pa.time32("ms") if unit == "ms" else pa.time64(unit)
        if not utc:
            yield "time_" + unit, pa.array(day, kind), [ticks_text(t, unit, False).split(" ")[1] for t in day]


def with_nulls(rng, pattern, values):
    n = len(values)
    keep = {"none": lambda i: True, "all": lambda i: False, "some": lambda i: rng.random() < 0.8,
            "many": lambda i: rng.random() < 0.1, "runs": lambda i: i // 50 % 2 == 0, "first": lambda i: i > 0,
            "last": lambda i: i < n - 1}[pattern]
    return [keep(i) for i in range(n)]


def make_table(rng, n, pattern, required):
    """A table, and the texts of its fields by column."""
    names, arrays, texts, fields = [], [], [], []

    def add(name, array, text, kind):
        mask = with_nulls(rng, pattern, text)
        if required:
            mask = [True] * n
        names.append(name)
        arrays.append(pa.array([v if m else None for v, m in zip(array.to_pylist(), mask)], kind)
                      if not isinstance(array, pa.Array) or not pa.types.is_temporal(kind)
                      else pa.array([v if m else None for v, m in zip(array.cast(
                          pa.int32() if kind.bit_width == 32 else pa.int64()).to_pylist(), mask)],
                          pa.int32() if kind.bit_width == 32 else pa.int64()).cast(kind))
        texts.append([t if m else "" for t, m in zip(text, mask)])
        fields.append(pa.field(name, kind, nullable=not required))

    for name, values, kind in columns_of(rng, n):
        array = pa.array(values, kind)
        shown = [v.decode() if isinstance(v, bytes) else v for v in values]
        add(name, array, [text_of(v, kind if not isinstance(v, str) else "") for v in shown], kind)
    for name, array, text in times_of(rng, n):
        add(name, array, text, array.type)
    return pa.table(arrays, schema=pa.schema(fields)), names, texts


def encodings_of(rng, table, which):
    """Column encodings for pyarrow's writer; None: dictionaries."""
    if which == "dictionary":
        return None
    out = {}
    for field in table.schema:
        kind = field.type
        if which == "delta" and pa.types.is_integer(kind):
            out[field.name] = "DELTA_BINARY_PACKED"
        elif which == "delta" and kind in (pa.string(), pa.large_string(), pa.binary()):
            out[field.name] = rng.choice(["DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY"])
        elif which == "delta" and pa.types.is_fixed_size_binary(kind) and not pa.types.is_decimal(kind):
            out[field.name] = "DELTA_BYTE_ARRAY"
        elif which == "delta" and pa.types.is_temporal(kind):
            out[field.name] = "DELTA_BINARY_PACKED"
        elif which == "split" and (pa.types.is_floating(kind) or pa.types.is_integer(kind)
                                   or pa.types.is_fixed_size_binary(kind) and not pa.types.is_decimal(kind)):
            out[field.name] = "BYTE_STREAM_SPLIT"
        elif which == "split" and pa.types.is_boolean(kind):
            out[field.name] = "RLE"
        else:
            out[field.name] = "PLAIN"
    return out


def compare(tool, path, names, texts, what):
    for keep in ([], ["--keep", "1"]):
        done = subprocess.run([tool] + keep + [path], capture_output=True)
        got = done.stdout.decode("utf-8").split("\n")
        if done.returncode or got[-2] != "ok":
            sys.exit("%s: %s" % (what, got[-2]))
        rows = [json.loads(line) for line in got[:-2]]
        if rows[0] != names:
            sys.exit("%s: columns %s, not %s" % (what, rows[0], names))
        if len(rows) - 1 != len(texts[0]):
            sys.exit("%s: %d rows, not %d" % (what, len(rows) - 1, len(texts[0])))
        for row, fields in enumerate(rows[1:]):
            for name, have, column in zip(names, fields, texts):
                if have != column[row]:
                    sys.exit("%s: row %d, %s: %r, not %r" % (what, row, name, have, column[row]))
    return len(texts[0]) * len(names)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("build", nargs="?", default="build")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=1)
    asked = parser.parse_args()
    tool = os.path.join(asked.build, "bench", "table_rows")
    rng, files, fields = random.Random(asked.seed), 0, 0
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "t.parquet")
        cases = itertools.product(CODECS, ("1.0", "2.0"), ("dictionary", "plain", "delta", "split"),
                                  ("none", "all", "some", "many", "runs", "first", "last", "required"))
        for codec, page, which, pattern in itertools.chain(*[list(cases)] * asked.rounds):
            rows = rng.choice([1, 7, 8, 9, 63, 64, 65, 200, 1000])
            group = rng.choice([1, 3, 64, 100, rows]) if rows < 200 else rng.choice([64, 100, 333, rows])
            table, names, texts = make_table(rng, rows, "none" if pattern == "required" else pattern,
                                             pattern == "required")
            options = dict(compression=codec, data_page_version=page, row_group_size=group,
                           data_page_size=rng.choice([64, 512, 4096, 1 << 20]), write_page_checksum=rng.random() < 0.5,
                           write_batch_size=rng.choice([1, 16, 1024]), version=rng.choice(["1.0", "2.4", "2.6"]),
                           store_schema=rng.random() < 0.5)
            if options["version"] != "2.6":  # older forms have no nanoseconds, and 1.0 no unsigned 32 bits
                drop = [i for i, name in enumerate(names) if "_ns" in name]
                table = table.drop_columns([names[i] for i in drop])
                names, texts = ([v for i, v in enumerate(x) if i not in drop] for x in (names, texts))
            encodings = encodings_of(rng, table, which)
            if encodings is None:
                options["use_dictionary"] = True
                options["dictionary_pagesize_limit"] = rng.choice([32, 1000, 1 << 20])
            else:
                options["use_dictionary"] = False
                options["column_encoding"] = encodings
            if rng.random() < 0.3:
                options["store_decimal_as_integer"] = True
            pq.write_table(table, path, **options)
            what = "%s, pages %s, %s, nulls %s, %d rows in groups of %d, %s" % (codec, page, which, pattern, rows,
                                                                               group, options)
            fields += compare(tool, path, names, texts, what)
            files += 1
        stamps = [rng.randrange(-9 * 10**18, 9 * 10**18) for _ in range(500)] + [0, -1]
        table = pa.table({"old": pa.array(stamps, pa.timestamp("ns"))})
        pq.write_table(table, path, use_deprecated_int96_timestamps=True)
        fields += compare(tool, path, ["old"], [[ticks_text(s, "ns", False) for s in stamps]], "INT96")
        ids = [uuid.UUID(int=rng.getrandbits(128)) for _ in range(50)]
        pq.write_table(pa.table({"id": pa.array([i.bytes for i in ids], pa.uuid())}), path)
        fields += compare(tool, path, ["id"], [[str(i) for i in ids]], "UUID")
    print("parquet: %d files and %d fields are equal to pyarrow's, each read in two ways" % (files + 2, fields))


if __name__ == "__main__":
    main()
