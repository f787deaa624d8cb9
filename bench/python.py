"""What the Python package adds: its import, a row's prediction above the C call, the hand-over of a table.

    python3 bench/python.py [BUILD] [--rows 1000000] [--rounds 5]

Prints one JSON object for each case, with its target; exit 1 where one is missed.

import     milliseconds of `import trident` in a fresh interpreter, until Classifier is there, and of processor time
           until then, medians; the interpreter's own start is not counted
row        microseconds of predict_proba([{...}]) minus those of tri_model_predict with the same row, medians of
           alternating calls; without numpy, and with it where it is installed
hand-over  a pandas DataFrame of two texts, two numbers and a label: seconds to hand it over to the library (texts that
           Arrow backs, and texts that are Python's strings) against pandas' to_csv, on a file in memory; needs pandas
           and pyarrow"""
import argparse
import ctypes
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import warnings

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path.insert(0, os.path.join(ROOT, "python", "tests"))


def case(name, target, met, **facts):
    print(json.dumps({"case": name, "target": target, "met": bool(met), **facts}), flush=True)
    return bool(met)


def time_import(rounds):
    """Milliseconds, by the interpreter's own clock around the import, and around the first use of Classifier."""
    code = ("import time; t, c = time.perf_counter(), time.process_time(); import trident; "
            "print(time.perf_counter() - t); "
            "trident.Classifier; print(time.perf_counter() - t, time.process_time() - c)")
    with tempfile.TemporaryDirectory() as compiled:  # the first one compiles, as pip does
        env = {**os.environ, "PYTHONPATH": os.path.join(ROOT, "python"), "PYTHONPYCACHEPREFIX": compiled}
        env.pop("PYTHONDONTWRITEBYTECODE", None)
        found = [[float(seconds) * 1e3 for seconds in subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env).stdout.split()]
            for _ in range(4 * rounds)]
    ms, whole, processor = (statistics.median(column) for column in zip(*found[1:]))
    return case("import", "30 ms", ms <= 30, ms=round(ms, 1), with_classifier_ms=round(whole, 1),
                processor_ms=round(processor, 1))


def time_row(calls):
    """The same row by the package, and by the C function with structures that are made before."""
    import support
    import trident
    from trident import _library, _model

    with tempfile.TemporaryDirectory() as work:
        config = support.config(support.make_model(os.path.join(work, "model")))
        table = support.make_table(64)
        model = trident.Classifier(config=config, max_steps=2, progress=False).fit(table, "label")
        row = support.rows_of(support.without_label(table))[0]
        model.predict_proba([row])
        library, handle = _library.library(), model._fit_model._handle
        values = (_library.ColumnValue * len(row))()
        kept = []
        for at, (name, value) in zip(values, row.items()):
            text = str(value).encode()
            kept.append(text)
            at.column, at.value, at.length = name.encode(), text, len(text)
            at.number = not isinstance(value, str)
        rows, out = (_library.Row * 1)(_library.Row(values, len(row))), (ctypes.c_float * 2)()
        pointer = ctypes.cast(out, _model.FLOATS)

        def measure():
            theirs, ours = [], []
            for _ in range(calls):
                begin = time.perf_counter()
                library.tri_model_predict(handle, rows, 1, pointer)
                middle = time.perf_counter()
                model.predict_proba([row])
                theirs.append(middle - begin)
                ours.append(time.perf_counter() - middle)
            above = (statistics.median(ours) - statistics.median(theirs)) * 1e6
            return case("row", "60 us above the C call", above <= 60, above_us=round(above, 1),
                        c_us=round(statistics.median(theirs) * 1e6, 1), calls=calls, numpy="numpy" in sys.modules)

        met = measure()
        try:
            import numpy  # noqa: F401
        except ImportError:
            return met
        return measure() and met


def time_hand_over(rows, rounds):
    """Seconds to add the table to tri_tables, and to write it as CSV."""
    try:
        import pandas
        import pyarrow
    except ImportError as error:
        print(json.dumps({"case": "hand-over", "skipped": str(error)}))
        return True
    from trident._tables import Tables, stream_of

    words = "lovely dress that I wore to work and would buy again in another colour if it were there".split()
    texts = [" ".join(words[(i * 7 + j) % len(words)] for j in range(20 + i % 30)) for i in range(1000)]
    titles = [" ".join(words[(i * 3 + j) % len(words)] for j in range(3 + i % 5)) for i in range(997)]
    made = {"title": [titles[i % 997] for i in range(rows)], "text": [texts[i % 1000] for i in range(rows)],
            "age": [18 + i % 60 for i in range(rows)], "price": [i % 1000 / 10 for i in range(rows)],
            "label": [i % 2 for i in range(rows)]}
    strings = pandas.DataFrame({name: pandas.Series(values, dtype=object if isinstance(values[0], str) else None)
                                for name, values in made.items()})
    arrow = pandas.DataFrame({name: pandas.Series(values, dtype=pandas.ArrowDtype(pyarrow.large_string())
                                                  if isinstance(values[0], str) else None)
                              for name, values in made.items()})
    del made

    def resident():
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def seconds(frame):
        """And the bytes of memory that the process has more of while the library holds the table."""
        best, grown = [], []
        for _ in range(rounds):
            with Tables() as tables:
                before, begin = resident(), time.perf_counter()
                tables.add("train", stream_of(frame))
                best.append(time.perf_counter() - begin)
                grown.append(resident() - before)
                assert tables.rows("train") == rows
        return statistics.median(best), statistics.median(grown)

    csv = []
    with tempfile.TemporaryDirectory(dir="/dev/shm") as work:
        for _ in range(max(1, rounds // 2)):
            begin = time.perf_counter()
            arrow.to_csv(os.path.join(work, "table.csv"), index=False)
            csv.append(time.perf_counter() - begin)
    written, (of_arrow, grown), (of_strings, _) = statistics.median(csv), seconds(arrow), seconds(strings)
    texts = sum(arrow[name].array.nbytes for name in ("title", "text"))
    return case("hand-over", "50 times as fast as to_csv", written / of_arrow >= 50, rows=rows,
                to_csv_s=round(written, 2), arrow_s=round(of_arrow, 4), arrow_times=round(written / of_arrow, 1),
                texts_mb=round(texts / 1e6, 1), arrow_grown_mb=round(grown / 1e6, 1), strings_s=round(of_strings, 3),
                strings_times=round(written / of_strings, 1), pandas=pandas.__version__)


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("build", nargs="?", default=os.path.join(ROOT, "build"))
    options.add_argument("--rows", type=int, default=1000000)
    options.add_argument("--rounds", type=int, default=5)
    asked = options.parse_args()
    os.environ["TRI_BUILD"] = os.path.abspath(asked.build)
    warnings.simplefilter("ignore")
    results = [time_import(asked.rounds), time_row(2000), time_hand_over(asked.rows, asked.rounds)]
    return int(not all(results))


if __name__ == "__main__":
    sys.exit(main())
