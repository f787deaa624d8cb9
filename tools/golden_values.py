#!/usr/bin/env python3
"""Makes tests/golden/values: one table of booleans and whole numbers that are categories, as Parquet (typed) and as the
CSV, semicolon CSV and JSON lines that programs write for it.

    python3 tools/golden_values.py

The Parquet file is written here, plain and uncompressed, so that the tool needs nothing but Python.
tests/cli/cli_values.sh trains on one of the files and expects the same figures and answers from all of them.
"""
import json
import os
import struct

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "golden", "values")
ROWS = 64
BOOLEAN, INT32, INT64, DOUBLE, BYTES = 0, 1, 2, 5, 6


def rows():
    """flag, shop and grade decide the label; the text does not."""
    for i in range(ROWS):
        flag, shop, grade = i % 3 == 0, None if i % 13 == 5 else 100 + i % 4, (i * 7) % 5 * 0.5
        yield {"text": "the box was " + ("good" if i % 2 else "bad"), "flag": flag, "shop": shop, "grade": grade,
               "weight": i % 11 / 4, "label": 1 + (flag != (shop in (101, 103)))}


# ---- Thrift's compact protocol: what Parquet's footer is written in ----

def varint(n):
    out = b""
    while n > 127:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


def zigzag(n):
    return varint(n << 1 ^ n >> 63)


def value(v):
    """Its type and bytes; an int is (bits, number), a struct {field: value}."""
    if isinstance(v, tuple):
        return {32: 5, 64: 6}[v[0]], zigzag(v[1])
    if isinstance(v, str):
        return 8, varint(len(v)) + v.encode()
    if isinstance(v, list):
        kind = value(v[0])[0]
        return 9, bytes([len(v) << 4 | kind]) + b"".join(value(x)[1] for x in v)
    out, last = b"", 0
    for field, x in sorted(v.items()):
        kind, data = value(x)
        out, last = out + bytes([field - last << 4 | kind]) + data, field
    return 12, out + b"\0"


def i32(n):
    return 32, n


def i64(n):
    return 64, n


# ---- Parquet ----

def bits(flags):
    return bytes(sum(f << k for k, f in enumerate(flags[i:i + 8])) for i in range(0, len(flags), 8))


def page(kind, values):
    """A data page: definition levels (a bit a row, packed), then the values that are there."""
    there = [v for v in values if v is not None]
    levels = varint((len(values) + 7) // 8 << 1 | 1) + bits([v is not None for v in values])
    plain = {BOOLEAN: bits, INT32: lambda v: struct.pack(f"<{len(v)}i", *v), INT64: lambda v: struct.pack(
        f"<{len(v)}q", *v), DOUBLE: lambda v: struct.pack(f"<{len(v)}d", *v),
             BYTES: lambda v: b"".join(struct.pack("<I", len(x)) + x.encode() for x in v)}[kind](there)
    body = struct.pack("<I", len(levels)) + levels + plain
    header = value({1: i32(0), 2: i32(len(body)), 3: i32(len(body)),
                    5: {1: i32(len(values)), 2: i32(0), 3: i32(3), 4: i32(3)}})[1]
    return header + body


def parquet(path, table, columns):
    out, chunks = b"PAR1", []
    schema = [{4: "table", 5: i32(len(columns))}]
    for name, (kind, more, convert) in columns.items():
        data = page(kind, [None if row[name] is None else convert(row[name]) for row in table])
        chunks.append({2: i64(len(out)), 3: {1: i32(kind), 2: [i32(0), i32(3)], 3: [name], 4: i32(0),
                                             5: i64(len(table)), 6: i64(len(data)), 7: i64(len(data)),
                                             9: i64(len(out))}})
        schema.append({1: i32(kind), 3: i32(1), 4: name, **more})
        out += data
    footer = value({1: i32(1), 2: schema, 3: i64(len(table)),
                    4: [{1: chunks, 2: i64(len(out)), 3: i64(len(table))}]})[1]
    with open(path, "wb") as file:
        file.write(out + footer + struct.pack("<I", len(footer)) + b"PAR1")


# ---- texts ----

def pandas(v):
    return "" if v is None else str(float(v)) if isinstance(v, int) and not isinstance(v, bool) else str(v)


def spreadsheet(v):
    return "" if v is None else str(v).upper() if isinstance(v, bool) else f"{v:.2f}".replace(".", ",") \
        if isinstance(v, float) else str(v)


def text(path, table, separator, spell):
    with open(path, "w", encoding="utf-8") as file:
        print(*table[0], sep=separator, file=file)
        for row in table:
            print(*map(spell, row.values()), sep=separator, file=file)


def main():
    table = list(rows())
    os.makedirs(OUT, exist_ok=True)
    parquet(os.path.join(OUT, "table.parquet"), table, {
        "text": (BYTES, {6: i32(0)}, str), "flag": (BOOLEAN, {}, bool), "shop": (INT64, {}, int),
        "grade": (INT32, {6: i32(5), 7: i32(2), 8: i32(9)}, lambda x: round(100 * x)),  # a decimal: 0.50
        "weight": (DOUBLE, {}, float), "label": (INT64, {}, int)})
    text(os.path.join(OUT, "table.csv"), table, ",", pandas)
    text(os.path.join(OUT, "commas.csv"), table, ";", spreadsheet)
    with open(os.path.join(OUT, "table.jsonl"), "w", encoding="utf-8") as file:
        for row in table:
            print(json.dumps(row), file=file)


if __name__ == "__main__":
    main()
