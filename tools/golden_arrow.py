"""Makes the Arrow files of tests/golden/arrow and the inputs of fuzz/corpus/arrow, with pyarrow. The goldens' texts
stand in tests/unit/test_table_arrow.c; this makes the bytes anew, which may differ between versions of pyarrow.
    python tools/golden_arrow.py
"""
import csv
import datetime as dt
import decimal
import pathlib

import pyarrow as pa
import pyarrow.ipc as ipc

ROOT = pathlib.Path(__file__).resolve().parent.parent
GOLDEN, CORPUS = ROOT / "tests/golden/arrow", ROOT / "fuzz/corpus/arrow"
NONE = None


def every_type():
    long = "a text of more than twelve bytes"
    day, moment = dt.date(2024, 1, 31), dt.datetime(2024, 1, 31, 12, 0, 1, 5000)
    pair = lambda value, kind: pa.array([value, NONE, value], kind)
    columns = {
        "i8": pa.array([-128, NONE, 127], pa.int8()), "u8": pa.array([0, NONE, 255], pa.uint8()),
        "i16": pa.array([-32768, NONE, 1], pa.int16()), "u16": pa.array([65535, NONE, 0], pa.uint16()),
        "i32": pa.array([-2**31, NONE, 5], pa.int32()), "u32": pa.array([2**32 - 1, NONE, 5], pa.uint32()),
        "i64": pa.array([-2**63, NONE, 5], pa.int64()), "u64": pa.array([2**64 - 1, NONE, 5], pa.uint64()),
        "half": pa.array([0.1, NONE, -2], pa.float16()), "single": pa.array([0.1, NONE, 1e30], pa.float32()),
        "double": pa.array([0.1, NONE, float("nan")]), "bool": pa.array([True, NONE, False]),
        "day": pair(day, pa.date32()), "day64": pair(day, pa.date64()),
        "time": pair(moment.time(), pa.time32("ms")), "time64": pair(moment.time(), pa.time64("ns")),
        "stamp": pair(moment, pa.timestamp("s")), "zoned": pair(moment, pa.timestamp("us", "Europe/Paris")),
        "decimal": pair(decimal.Decimal("-1.50"), pa.decimal128(10, 2)),
        "decimal256": pair(decimal.Decimal("123456789012345678901234567890.5"), pa.decimal256(60, 4)),
        "text": pa.array(["é,\"\n", NONE, ""]), "large": pa.array([long, NONE, "x"], pa.large_string()),
        "view": pa.array([long, NONE, "short"], pa.string_view()), "bytes": pa.array([b"ab", NONE, b""], pa.binary()),
        "fixed": pa.array([b"abc", NONE, b"xyz"], pa.binary(3)), "null": pa.nulls(3),
        "encoded": pa.array(["x", NONE, "y"]).dictionary_encode(),
        "list": pa.array([[1, 2], NONE, []]), "struct": pa.array([{"a": 1, "b": "x"}, NONE, {"a": 2, "b": NONE}]),
        "last": pa.array(["1", NONE, "3"]),
    }
    return pa.table(columns)


def write(folder, name, table, stream=False, rows=NONE, **options):
    folder.mkdir(parents=True, exist_ok=True)
    make = ipc.new_stream if stream else ipc.new_file
    with make(str(folder / name), table.schema, options=ipc.IpcWriteOptions(**options)) as writer:
        for batch in table.to_batches(max_chunksize=rows):
            writer.write_batch(batch)


def batches_of(values):
    """A stream whose dictionary grows: batches of one dictionary column each, given as (dictionary, indices)."""
    return [pa.record_batch({"d": pa.DictionaryArray.from_arrays(pa.array(indices, pa.int8()), pa.array(words))})
            for words, indices in values]


def dictionaries(folder, name, stream, deltas):
    folder.mkdir(parents=True, exist_ok=True)
    batches = batches_of([(["a", "b"], [0, NONE, 1]), (["a", "b", "c"], [2, 0]),
                          (["a", "b", "c", "dd"] if not stream or deltas else ["z"], [0, 0])])
    make = ipc.new_stream if stream else ipc.new_file
    with make(str(folder / name), batches[0].schema,
              options=ipc.IpcWriteOptions(emit_dictionary_deltas=deltas)) as writer:
        for batch in batches:
            writer.write_batch(batch)


def example():
    """The table of tests/cli/cli_tables.sh: as CSV, and the same as Arrow, in parts, and with zstd."""
    words = ["the box is late", "a good, \"small\" box", "it came back\ntwice", "", "fine", NONE]
    rows = range(48)
    table = pa.table({
        "text": pa.array([words[i % 6] if i % 6 < 4 else f"box {i}" for i in rows]).dictionary_encode(),
        "track": pa.array([NONE if i % 7 == 3 else "out back" if i % 3 else "in é out" for i in rows]),
        "size": pa.array([NONE if i % 11 == 5 else i * i for i in rows], pa.int32()),
        "weight": pa.array([i / 8 - 1 for i in rows], pa.float64()),
        "label": pa.array([i % 3 != 0 for i in rows]).cast(pa.int8()),
        "tags": pa.array([["x"] * (i % 3) for i in rows]),
    })
    write(GOLDEN, "table.arrow", table)
    write(GOLDEN, "table-00000-of-00002.arrow", table.slice(0, 20), stream=True, compression="zstd", rows=9)
    write(GOLDEN, "table-00001-of-00002.arrow", table.slice(20), compression="lz4")
    with open(GOLDEN / "table.csv", "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(table.column_names[:-1])
        writer.writerows(zip(*[column.to_pylist() for column in table.columns[:-1]]))
    text = (GOLDEN / "table.csv").read_bytes()
    pack = pa.Codec("zstd").compress
    (GOLDEN / "table.csv.zst").write_bytes(pack(text[:700], asbytes=True) + pack(text[700:], asbytes=True))


def main():
    example()
    table = every_type()
    write(GOLDEN, "types.arrow", table)
    write(GOLDEN, "stream.arrow", table, stream=True, rows=2)
    write(GOLDEN, "lz4.feather", table, compression="lz4")
    write(GOLDEN, "zstd.arrow", table, stream=True, compression="zstd")
    dictionaries(GOLDEN, "replaced.arrow", stream=True, deltas=False)
    dictionaries(GOLDEN, "deltas.arrow", stream=True, deltas=True)
    dictionaries(GOLDEN, "deltas_file.arrow", stream=False, deltas=True)
    small = pa.table({"t": ["one", NONE, "three"], "n": [1, 2, NONE]})
    write(CORPUS, "file", small)
    write(CORPUS, "stream", small, stream=True, rows=1)
    write(CORPUS, "lz4", small, stream=True, compression="lz4")
    write(CORPUS, "zstd", small, stream=True, compression="zstd")
    write(CORPUS, "views", table.select(["view", "last"]), stream=True)
    write(CORPUS, "nested", table.select(["list", "struct", "last"]), stream=True)
    write(CORPUS, "numbers", table.select(["i8", "half", "bool", "day64", "zoned", "decimal256"]), stream=True)
    write(CORPUS, "types", table, stream=True)
    dictionaries(CORPUS, "deltas", stream=True, deltas=True)
    write(CORPUS, "encoded", table.select(["encoded", "fixed", "null"]))


if __name__ == "__main__":
    main()
