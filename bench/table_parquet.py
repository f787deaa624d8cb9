"""Parquet for bench/table.py: Trident's reading of every field beside pyarrow's reading of the same columns by one
thread, in turns, both in core time from opening the file. pyarrow.parquet.read_table makes Arrow columns: numbers stay
numbers, texts are not checked. Trident does what training does: numbers as doubles, 256 rows of a column at once, texts
field by field, checked as UTF-8.
"""
import os
import random
import statistics

PYARROW = """
import sys, time
try:
    import pyarrow, pyarrow.parquet
except ImportError:
    sys.exit(77)
pyarrow.set_cpu_count(1)
pyarrow.set_io_thread_count(1)
tiny = pyarrow.BufferOutputStream()  # what the first reading loads is not counted
pyarrow.parquet.write_table(pyarrow.table({"a": [1.5, 2], "b": ["a", "b"]}), tiny)
pyarrow.parquet.read_table(tiny.getvalue(), use_threads=False, pre_buffer=False)
start, cpu = time.perf_counter(), time.process_time()
table = pyarrow.parquet.read_table(sys.argv[1], use_threads=False, pre_buffer=False)
print(len(table), time.perf_counter() - start, time.process_time() - cpu)
"""
TEXT = ("Title", "Review Text")
FEW = ("Division Name", "Department Name", "Class Name")
NUMBERS = ("Clothing ID", "Age", "Rating", "Positive Feedback Count")
CASES = [("texts, snappy", TEXT, dict(compression="snappy", use_dictionary=False)),
         ("texts, as pyarrow writes them", TEXT, dict()),
         ("texts, zstd", TEXT, dict(compression="zstd", use_dictionary=False)),
         ("texts, uncompressed", TEXT, dict(compression="none", use_dictionary=False)),
         ("categories, dictionary, snappy", FEW, dict(compression="snappy")),
         ("integers, dictionary, snappy", NUMBERS, dict(compression="snappy")),
         ("integers, plain, snappy", NUMBERS, dict(compression="snappy", use_dictionary=False)),
         ("doubles, snappy", ("noise", "price"), dict(compression="snappy", use_dictionary=False)),
         ("doubles, zstd", ("noise", "price"), dict(compression="zstd", use_dictionary=False)),
         ("all columns, snappy", TEXT + FEW + NUMBERS + ("noise", "price"), dict(compression="snappy")),
         ("all columns, zstd", TEXT + FEW + NUMBERS + ("noise", "price"), dict(compression="zstd"))]


def make_table(reviews, rows):
    """The reviews repeated, each time with other words at the end, and two columns of doubles."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.csv
    table = pyarrow.csv.read_csv(reviews, parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True))
    parts, rng = [], random.Random(1)
    while sum(len(part) for part in parts) < rows:
        part = table
        for name in TEXT:
            texts = pc.binary_join_element_wise(part[name].cast("string"), str(len(parts)), " ")
            part = part.set_column(part.schema.get_field_index(name), name, texts)
        parts.append(part)
    table = pa.concat_tables(parts).slice(0, rows).combine_chunks()
    table = table.append_column("noise", pa.array([rng.gauss(0, 1) for _ in range(rows)]))
    return table.append_column("price", pa.array([rng.randrange(100000) / 100 for _ in range(rows)]))


def compare(reviews, folder, rows, rounds, trident, python):
    """A report of ratios by case. trident(path), python(program, path): one run each."""
    import pyarrow.parquet as pq
    table, report = make_table(reviews, rows), {}
    for what, columns, options in CASES:
        path = os.path.join(folder, "t.parquet")
        pq.write_table(table.select(columns), path, row_group_size=1 << 17, **options)
        ours, theirs = [], []
        for _ in range(rounds):
            ours.append(trident(path))
            theirs.append(python(PYARROW, path))
        mine = statistics.median(r["open_cpu"] + r["read_cpu"] for r in ours)
        theirs = statistics.median(r["cpu"] for r in theirs)
        report[what] = {"trident_ms": round(mine * 1e3, 1), "pyarrow_ms": round(theirs * 1e3, 1),
                        "ratio": round(theirs / mine, 2)}
        print(f"  {what}: Trident {mine * 1e3:.1f} ms, pyarrow {theirs * 1e3:.1f} ms ({theirs / mine:.2f} x)",
              flush=True)
    return report
