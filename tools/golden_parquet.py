#!/usr/bin/env python3
"""Makes tests/golden/parquet: tiny Parquet files by pyarrow, and the same tables as CSV; and the first inputs of the
fuzzer, fuzz/corpus/parquet.

    .venv/bin/python tools/golden_parquet.py

Each file has few rows in two row groups, and between them they have every encoding, codec, page version and type that
is read. tests/unit/test_table_parquet.c expects the same fields of both. Files that are refused have no CSV beside
them. """
import csv
import datetime
import decimal
import os
import random
import shutil

import pyarrow as pa
import pyarrow.parquet as pq

from parity_parquet import text_of, ticks_text

HERE = os.path.dirname(os.path.abspath(__file__))
OUT = os.path.join(HERE, "..", "tests", "golden", "parquet")
CORPUS = os.path.join(HERE, "..", "fuzz", "corpus", "parquet")
PLAIN = dict(store_schema=False, write_statistics=False, row_group_size=5)


def write(name, table, texts=None, **options):
    path = os.path.join(OUT, name + ".parquet")
    pq.write_table(table, path, **{**PLAIN, **options})
    shutil.copy(path, os.path.join(CORPUS, name))
    if texts is None:
        return
    with open(os.path.join(OUT, name + ".csv"), "w", newline="", encoding="utf-8") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(texts)
        writer.writerows(zip(*texts.values()))


def texts_of(table):
    return {name: [text_of(v.decode() if isinstance(v, bytes) else v,
                           "" if isinstance(v, (bytes, str)) else table.schema.field(name).type)
                   for v in table[name].to_pylist()] for name in table.column_names}


def texts_table():
    return pa.table({"review": ["good", "bad, or not", None, "日本語 😀", "", 'say "hi"', "good", "good", None],
                     "code": pa.array([b"a1", b"b2", b"b2", None, b"c3", b"a1", b"zz", b"zz", b"zz"], pa.binary(2))})


def numbers_table():
    return pa.table({
        "i8": pa.array([1, -128, 127, None, 0, 5, 5, 5, 6], pa.int8()),
        "i32": pa.array([-2147483648, 2147483647, 0, 1, None, 3, -4, 5, 6], pa.int32()),
        "u32": pa.array([0, 4294967295, 1, 2, 3, 4, None, 6, 7], pa.uint32()),
        "i64": pa.array([-9223372036854775808, 9223372036854775807, 0, 1, 2, 3, 4, 5, None], pa.int64()),
        "u64": pa.array([18446744073709551615, 0, 1, 2, None, 3, 4, 5, 6], pa.uint64()),
        "f32": pa.array([0.1, -1.5, None, 1e20, 3, float("nan"), 0, -0.0, 1], pa.float32()),
        "f64": pa.array([0.1, 1e-5, 1e16, 5e-324, None, float("inf"), 0, 123456.75, 2 / 3], pa.float64())})


def times():
    stamps = {"ms": [0, -1, None, 1700000000123, 1, 2, 3, 4, 5], "us": [0, -1, 1700000000123456, None, 1, 2, 3, 4, 5],
              "ns": [0, -1, 1700000000123456789, 1, None, 2, 3, 4, 5]}
    days = [datetime.date(2024, 2, 29), datetime.date(1, 1, 1), None, datetime.date(9999, 12, 31)] + [None] * 5
    table = {"day": pa.array(days, pa.date32())}
    texts = {"day": ["" if d is None else d.isoformat() for d in days]}
    for (unit, ticks), zone in zip(stamps.items(), ("UTC", None, "UTC")):
        table[unit] = pa.array(ticks, pa.timestamp(unit, zone))
        texts[unit] = ["" if t is None else ticks_text(t, unit, zone) for t in ticks]
    clock = [0, 86399999, None, 1500, 3600000, 1, 2, 3, 4]
    table["clock"] = pa.array(clock, pa.time32("ms"))
    texts["clock"] = ["" if t is None else ticks_text(t, "ms", None).split(" ")[1] for t in clock]
    return pa.table(table), texts


def decimals_table():
    values = [decimal.Decimal(v) if v else None for v in "1.50 -0.01 0.00 99999.99 None 7.00 7.00 0.10 -3.33".replace(
        "None", "").split(" ")]
    return pa.table({name: pa.array(values, kind) for name, kind in
                     (("short", pa.decimal128(7, 2)), ("long", pa.decimal128(30, 2)), ("huge", pa.decimal256(60, 2)))})


def example():
    """The table of tests/cli/cli_tables.sh, whose Arrow file golden_arrow.py makes: whole, and in two parts."""
    table = pa.ipc.open_file(os.path.join(OUT, "..", "arrow", "table.arrow")).read_all()
    for name, part, options in (
            ("table", table, dict(compression="snappy", row_group_size=20)),
            ("table-00000-of-00002", table.slice(0, 30), dict(compression="none", data_page_version="2.0")),
            ("table-00001-of-00002", table.slice(30), dict(compression="snappy", use_dictionary=False))):
        pq.write_table(part, os.path.join(OUT, name + ".parquet"), **{**PLAIN, "row_group_size": 7, **options})


def main():
    for folder in (OUT, CORPUS):
        os.makedirs(folder, exist_ok=True)
    texts, numbers, decimals = texts_table(), numbers_table(), decimals_table()
    stamps, stamp_texts = times()
    yes = pa.table({"yes": [True, False, None, True, True, True, True, True, False]})
    half = pa.table({"half": pa.array([0.1, 1.0, None, 65504, -2, 3, 4, 5, 6], pa.float16())})
    write("texts_dictionary_snappy", texts, texts_of(texts), compression="snappy")
    write("texts_plain", texts, texts_of(texts), compression="none", use_dictionary=False, write_page_checksum=True)
    write("texts_delta_gzip_v2", texts, texts_of(texts), compression="gzip", use_dictionary=False,
          data_page_version="2.0", column_encoding={"review": "DELTA_LENGTH_BYTE_ARRAY", "code": "DELTA_BYTE_ARRAY"})
    write("texts_front_zstd", texts, texts_of(texts), compression="zstd", use_dictionary=False,
          column_encoding={"review": "DELTA_BYTE_ARRAY", "code": "BYTE_STREAM_SPLIT"})
    write("numbers_dictionary_zstd_v2", numbers, texts_of(numbers), compression="zstd", data_page_version="2.0")
    write("numbers_plain_snappy", numbers, texts_of(numbers), compression="snappy", use_dictionary=False)
    delta = {n: "DELTA_BINARY_PACKED" if n[0] in "iu" else "BYTE_STREAM_SPLIT" for n in numbers.column_names}
    write("numbers_delta_lz4", numbers, texts_of(numbers), compression="lz4", use_dictionary=False,
          column_encoding=delta)
    write("times", stamps, stamp_texts, compression="none")
    write("times_int96", stamps.select(["ns"]), {"ns": [t.rstrip("Z") for t in stamp_texts["ns"]]},
          compression="none", use_deprecated_int96_timestamps=True)
    write("decimals", decimals, texts_of(decimals), compression="none", use_dictionary=False)
    write("decimals_integers", decimals.select(["short"]), texts_of(decimals.select(["short"])), compression="none",
          store_decimal_as_integer=True)
    write("booleans_v1", yes, texts_of(yes), compression="none")
    write("booleans_v2", yes, texts_of(yes), compression="snappy", data_page_version="2.0",
          column_encoding={"yes": "RLE"}, use_dictionary=False)
    write("half", half, texts_of(half), compression="none")
    nothing = pa.table({"none": pa.array([None] * 9, pa.null()), "text": ["x"] * 9})
    write("nothing", nothing, texts_of(nothing), compression="none")
    required = pa.table({"text": ["a", "b", "c", "d", "e", "f", "g", "h", "i"]},
                        schema=pa.schema([pa.field("text", pa.string(), nullable=False)]))
    write("required", required, texts_of(required), compression="snappy", data_page_version="2.0")
    write("empty", required.slice(0, 0), texts_of(required.slice(0, 0)), compression="none")
    write("nested", pa.table({"flat": ["a", "b"], "list": [[1, 2], []], "group": [{"x": 1, "y": "z"}, None],
                              "after": [1, 2]}), compression="none")
    write("brotli", required, texts_of(required), compression="brotli")
    write("texts_brotli_v2", texts, texts_of(texts), compression="brotli", use_dictionary=False,
          data_page_version="2.0")
    example()
    rng = random.Random(1)  # more than a page, so that dictionaries are left for plain values
    many = pa.table({"text": ["%x" % rng.getrandbits(40) for _ in range(60)]})
    write("fallback", many, texts_of(many), compression="none", dictionary_pagesize_limit=64, data_page_size=64,
          write_batch_size=8, row_group_size=60)


if __name__ == "__main__":
    main()
