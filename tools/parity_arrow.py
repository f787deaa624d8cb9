"""Compares the reader of Arrow tables with pyarrow, over random files: types, nulls, dictionaries, nested columns
between the others, slices, batches of any size, files and streams, compression; and over damaged copies of them, which
must be refused with exit 65 or read as rows, never anything else.
    make build/bench/table_rows
    .venv/bin/python tools/parity_arrow.py [--files 300] [--damaged 20] [--seed 1] [BUILD]
"""
import argparse
import datetime as dt
import decimal
import json
import math
import pathlib
import random
import subprocess
import tempfile

import numpy as np
import pyarrow as pa
import pyarrow.ipc as ipc

WORDS = ["", "a", "naïve", "日本語", "a text of more than twelve bytes", 'quo"te', "line\nend", "tab\t", "\x01", "😀" * 9]
UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}


def text_of(kind, value):
    """A value as the same table has it as CSV."""
    if value is None:
        return ""
    if pa.types.is_boolean(kind):
        return "true" if value else "false"
    if pa.types.is_floating(kind):
        if math.isnan(value):
            return ""
        number = {16: np.float16, 32: np.float32, 64: np.float64}[kind.bit_width](value)
        shortest = np.format_float_scientific(number, unique=True, trim="-")
        if not np.isfinite(number):
            return repr(float(number))
        mantissa, exponent = shortest.split("e")
        exponent = int(exponent)
        if -4 <= exponent < 16:
            return np.format_float_positional(number, unique=True, trim="0")
        return f"{mantissa}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"
    if pa.types.is_decimal(kind):
        return f"{value:f}"
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return value.decode()
    return str(value)


def clock(value, unit):
    """Seconds of a day, with all digits of the unit."""
    whole, part = divmod(value, UNITS[unit])
    text = f"{whole // 3600:02d}:{whole // 60 % 60:02d}:{whole % 60:02d}"
    return f"{text}.{part:0{DIGITS[unit]}d}" if DIGITS[unit] else text


def column(random, rows):
    """(array, texts) of a random type; texts None: a nested column, which is not read."""
    nulls = random.choice([0, 0, 0.2, 1])
    null = lambda value: None if random.random() < nulls else value
    some = lambda make: [null(make()) for _ in range(rows)]
    kind = random.randrange(14)
    if kind < 2:
        t = random.choice([pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(),
                           pa.uint64()])
        low = 0 if pa.types.is_unsigned_integer(t) else -2 ** (t.bit_width - 1)
        high = low + 2**t.bit_width - 1
        values = some(lambda: random.choice([low, high, random.randint(low, high)]))
    elif kind == 2:
        t = random.choice([pa.float16(), pa.float32(), pa.float64()])
        type_of = {16: np.float16, 32: np.float32, 64: np.float64}[t.bit_width]
        bits = {16: np.uint16, 32: np.uint32, 64: np.uint64}[t.bit_width]
        values = some(lambda: random.choice([0.0, -0.0, 1.0, 0.1, float("inf"),
                                             bits(random.getrandbits(t.bit_width)).view(type_of)]))
        values = [None if v is None else type_of(v) for v in values]
    elif kind == 3:
        t, values = pa.bool_(), some(lambda: random.random() < 0.5)
    elif kind == 4:
        t, values = pa.date32(), some(lambda: dt.date(1, 1, 1) + dt.timedelta(random.randrange(3650000)))
        if random.random() < 0.5:
            t = pa.date64()
    elif kind == 5:
        unit = random.choice(list(UNITS))
        t = pa.timestamp(unit, random.choice([None, "UTC", "Europe/Paris"]))
        low, high = [-10**9, 4 * 10**9] if unit != "ns" else [-10**9, 9 * 10**9]
        values = some(lambda: random.randint(low, high) * UNITS[unit] + random.randrange(UNITS[unit]))
        texts = []
        for v in values:
            if v is None:
                texts.append("")
                continue
            day, rest = divmod(v, 86400 * UNITS[unit])
            texts.append(f"{dt.date(1970, 1, 1) + dt.timedelta(day)} {clock(rest, unit)}{'Z' if t.tz else ''}")
        return pa.array(values, pa.int64()).cast(t), texts
    elif kind == 6:
        unit = random.choice(list(UNITS))
        t = pa.time32(unit) if unit in ("s", "ms") else pa.time64(unit)
        values = some(lambda: random.randrange(86400 * UNITS[unit]))
        raw = pa.array(values, pa.int32() if t.bit_width == 32 else pa.int64())
        return raw.cast(t), ["" if v is None else clock(v, unit) for v in values]
    elif kind == 7:
        digits = random.randint(1, 76)
        t = (pa.decimal128 if digits <= 38 else pa.decimal256)(digits, random.randint(0, digits))
        with decimal.localcontext() as context:
            context.prec = 80
            values = some(lambda: decimal.Decimal(random.randint(-10**digits + 1, 10**digits - 1)).scaleb(-t.scale))
    elif kind < 11:
        t = random.choice([pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary()])
        values = some(lambda: "".join(random.choices(WORDS, k=random.randrange(3))))
        if pa.types.is_binary(t) or pa.types.is_large_binary(t):
            values = [None if v is None else v.encode() for v in values]
    elif kind == 11:
        t, values = pa.binary(3), some(lambda: random.choice([b"abc", "né".encode(), b"   "]))
    elif kind == 12:
        t, values = pa.null(), [None] * rows
    else:
        inner = some(lambda: random.randrange(9))
        nested = random.choice([
            pa.array([None if v is None else [v] * (v % 3) for v in inner], pa.list_(pa.int16())),
            pa.array([None if v is None else {"a": v, "b": {"c": str(v)}} for v in inner],
                     pa.struct({"a": pa.int8(), "b": pa.struct({"c": pa.string()})})),
            pa.array([None if v is None else [(str(v), v)] for v in inner], pa.map_(pa.string(), pa.int32())),
            pa.array([None if v is None else [v, v] for v in inner], pa.list_(pa.int16(), 2)),
            pa.array([None if v is None else [str(v)] for v in inner], pa.large_list(pa.string_view())),
            pa.array(inner, pa.duration("s")),
        ])
        return nested, None
    array = pa.array(values, t)
    texts = [text_of(t, v) for v in (values if pa.types.is_floating(t) else array.to_pylist())]
    if pa.types.is_string(t) or pa.types.is_integer(t):
        if random.random() < 0.3:
            array = array.dictionary_encode()
            if len(array.dictionary) < 100:
                array = array.cast(pa.dictionary(random.choice([pa.int8(), pa.uint16(), pa.int64()]), t))
    return array, texts


def make(random, path):
    """Writes a random file; returns its names and rows."""
    rows = random.choice([0, 1, 7, 8, 9, 100, 1000, 5000])
    columns = {}
    for i in range(random.randint(1, 8)):
        columns[f"c{i}"] = column(random, rows)
    columns["last"] = (pa.array([str(i) for i in range(rows)], pa.string()), [str(i) for i in range(rows)])
    table = pa.table({name: array for name, (array, _) in columns.items()})
    begin = random.randrange(rows + 1) if random.random() < 0.3 else 0
    table = table.slice(begin)
    options = ipc.IpcWriteOptions(compression=random.choice([None, None, "lz4", "zstd"]),
                                  metadata_version=random.choice([ipc.MetadataVersion.V5, ipc.MetadataVersion.V5,
                                                                  ipc.MetadataVersion.V4]),
                                  use_legacy_format=random.random() < 0.1)
    writer = random.choice([ipc.new_stream, ipc.new_file])
    with writer(str(path), table.schema, options=options) as out:
        for batch in table.to_batches(max_chunksize=random.choice([1, 3, 64, 4097, None]) if rows < 200 else
                                      random.choice([100, 4097, None])):
            out.write_batch(batch)
    names = [None if texts is None else name for name, (_, texts) in columns.items()]
    lists = [[None] * rows if texts is None else texts for _, texts in columns.values()]
    return names, [list(row) for row in zip(*lists)][begin:] if rows else []


def read(program, path, *options):
    done = subprocess.run([program, *options, path], capture_output=True)
    if done.returncode:
        raise SystemExit(f"{path}: exit {done.returncode} {done.stderr.decode()}")
    lines = done.stdout.decode().split("\n")[:-1]
    return [json.loads(line) for line in lines[:-1]], lines[-1]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--files", type=int, default=300)
    parser.add_argument("--damaged", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("build", nargs="?", default="build")
    args = parser.parse_args()
    program = pathlib.Path(args.build) / "bench/table_rows"
    refused = fields = 0
    with tempfile.TemporaryDirectory() as folder:
        for number in range(args.files):
            source = random.Random(args.seed * 1000003 + number)
            path = pathlib.Path(folder) / "t.arrow"
            names, rows = make(source, path)
            got, end = read(program, path, "--keep", source.choice(["1", "100000000"]))
            if end != "ok" or got != [names] + rows:
                for want, have in zip([names] + rows, got):
                    if want != have:
                        print("want", want, "\nhave", have)
                        break
                pathlib.Path("/tmp/parity_arrow.arrow").write_bytes(path.read_bytes())
                raise SystemExit(f"file {number} of seed {args.seed}: {end}; it is in /tmp/parity_arrow.arrow")
            fields += len(rows) * len(names)
            whole = path.read_bytes()
            for _ in range(args.damaged if len(whole) < 20000 else 0):
                bytes_ = bytearray(whole)
                for _ in range(source.randint(1, 4)):
                    at = source.randrange(len(bytes_))
                    bytes_[at] = source.choice([0, 255, bytes_[at] ^ 1 << source.randrange(8)])
                if source.random() < 0.2:
                    bytes_ = bytes_[:source.randrange(len(bytes_))]
                path.write_bytes(bytes_)
                _, end = read(program, path, "--rows", "10000")
                if end != "ok" and not end.startswith("65 "):
                    raise SystemExit(f"file {number}, damaged: {end}")
                refused += end != "ok"
    print(f"{args.files} files equal, {fields} fields; {refused} damaged copies refused")


if __name__ == "__main__":
    main()
