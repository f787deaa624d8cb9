"""Tables of pandas, polars, pyarrow, duckdb and numpy: the same model from each. Skipped where a package is missing."""
from __future__ import annotations

import importlib
import math
import sys
import unittest
from unittest import mock

import support  # noqa: F401
import trident
from support import Case, make_table, without_label
from trident import _arrow
from trident._tables import stream_of, values_of


def package(name):
    """A package, or a skipped test."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise unittest.SkipTest(f"{name} is not installed") from None


class Frames(Case):
    def setUp(self):
        super().setUp()
        self.table = make_table(96)
        self.rows = without_label(make_table(10, 100))
        self.expected = None

    def same(self, X, y, rows):
        """Trained on X, y the model predicts `rows` as one that was trained on a dict of columns."""
        if self.expected is None:
            self.expected = self.fitted().predict_proba(self.rows).tolist()
        model = self.classifier(max_steps=6).fit(X, y)
        self.assertEqual(model.predict_proba(rows).tolist(), self.expected)
        return model

    def test_pandas(self):
        pandas = package("pandas")
        frame = pandas.DataFrame(self.table)
        rows = pandas.DataFrame(self.rows)
        X = frame.drop(columns="label")
        model = self.same(X, frame["label"], rows)
        self.assertEqual(list(model.classes_), [0, 1])
        self.assertEqual(model.n_features_in_, 4)
        self.same(frame, "label", rows)
        self.same(frame[::-1][::-1].set_index(frame.index * 3 + 7), "label", rows)  # an index is not a column
        with mock.patch.dict(sys.modules, {"pyarrow": None}):
            self.same(X, frame["label"], rows)
            self.same(X, frame[["label"]], rows)

    def test_pandas_types(self):
        pandas = package("pandas")
        numpy = package("numpy")
        frame = pandas.DataFrame({
            "text": pandas.Series(["a", None, "ö"], dtype="object"), "kind": pandas.Categorical(["x", "y", "x"]),
            "n": pandas.array([1, None, 3], dtype="Int64"), "f": [1.5, math.nan, 2], "b": [True, False, True],
            "t": [pandas.Timestamp("2024-01-31"), pandas.NaT, pandas.Timestamp("2024-02-01 08:30")],
            "mixed": ["a", 1, None]})
        with mock.patch.dict(sys.modules, {"pyarrow": None}):
            stream = stream_of(frame)
            self.assertEqual(stream.names, list(frame.columns))
        found = trident.inspect(frame)
        filled = {column["name"]: column["filled"] for column in found["columns"]}
        self.assertEqual(filled, {"text": 2, "kind": 3, "n": 2, "f": 2, "b": 3, "t": 2, "mixed": 2})
        with mock.patch.dict(sys.modules, {"pyarrow": None}):
            again = {column["name"]: (column["filled"], column["example"])
                     for column in trident.inspect(frame)["columns"]}
        self.assertEqual({name: each[0] for name, each in again.items()}, filled)
        self.assertEqual(again["n"][1], "1")
        self.assertEqual(values_of("y", numpy.array([1, 0], dtype="int32")).formats, ["i"])

    def test_polars(self):
        polars = package("polars")
        frame = polars.DataFrame(self.table)
        self.same(frame.drop("label"), frame["label"], polars.DataFrame(self.rows))
        self.same(frame, "label", polars.DataFrame(self.rows))
        self.assertTrue(frame.equals(polars.DataFrame(self.table)))

    def test_pyarrow(self):
        pyarrow = package("pyarrow")
        table = pyarrow.table(self.table)
        rows = pyarrow.table(self.rows)
        self.same(table.drop_columns("label"), table["label"], rows)
        self.same(table.to_batches()[0], "label", rows)
        self.same(pyarrow.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=7)), "label",
                  rows)
        self.same(table.drop_columns("label"), pyarrow.array(self.table["label"]), rows)
        reader = table.to_reader()
        stream = stream_of(reader)
        del stream

    def test_duckdb(self):
        duckdb = package("duckdb")
        pyarrow = package("pyarrow")
        table, rows = pyarrow.table(self.table), pyarrow.table(self.rows)
        with duckdb.connect() as connection:
            connection.register("t", table)
            connection.register("r", rows)
            self.same(connection.sql("select * from t"), "label", connection.sql("select * from r"))

    def test_numpy(self):
        numpy = package("numpy")
        table = make_table(96)
        X = numpy.array([table["size"], table["weight"]]).T
        model = trident.Classifier(text="x0", numbers=["x1"], encoder=self.model, max_steps=3, progress=False)
        model.fit(X, numpy.array(table["label"], dtype="int32"))
        self.assertEqual((model.n_features_in_, hasattr(model, "feature_names_in_")), (2, False))
        found = model.predict_proba(X[:5])
        self.assertEqual((found.shape, found.dtype, found.flags.writeable), ((5, 2), numpy.float32, True))
        self.assertEqual((model.classes_.dtype, model.predict(X[:5]).dtype), (numpy.int32, numpy.int32))
        numpy.testing.assert_array_equal(model.predict_proba(numpy.asfortranarray(X[:5])), found)
        with self.raises(ValueError, "X has 1 features, but Classifier is expecting 2 features"):
            model.predict(X[:, :1])
        mixed = numpy.array([table["text"], table["size"]], dtype=object).T
        trident.Classifier(text="x0", encoder=self.model, max_steps=2, progress=False).fit(mixed, table["label"])

    def test_numbers_are_not_copied(self):
        numpy = package("numpy")
        from trident import _columns

        for kind in "int8 uint8 int16 uint16 int32 uint32 int64 uint64 float32 float64".split():
            values = numpy.arange(5, dtype=kind)
            made = _columns.column_of("a", values)
            self.assertEqual(_arrow.Pinned(made.buffers[1]).address, values.ctypes.data, kind)

    def test_probabilities_are_arrow(self):
        pyarrow = package("pyarrow")
        numpy = sys.modules.get("numpy")
        with mock.patch("trident._model.numpy", return_value=None):
            found = self.fitted().predict_proba(self.rows)
        as_arrow = pyarrow.array(found)
        self.assertEqual(as_arrow.type, pyarrow.list_(pyarrow.float32(), 2))
        self.assertEqual(as_arrow.to_pylist(), found.tolist())
        if numpy is not None:
            self.assertEqual(numpy.asarray(found).tolist(), found.tolist())


if __name__ == "__main__":
    unittest.main()
