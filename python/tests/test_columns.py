"""Columns of Python values as Arrow, read back through the C data interface by a consumer of a few lines."""
from __future__ import annotations

import array
import ctypes
import datetime
import decimal
import gc
import math
import struct
import unittest

import support  # noqa: F401
from trident import _arrow, _columns
from trident.errors import DataError, UsageError

SIZES = {"c": 1, "C": 1, "s": 2, "S": 2, "i": 4, "I": 4, "l": 8, "L": 8, "f": 4, "g": 8}
CODES = {"c": "b", "C": "B", "s": "h", "S": "H", "i": "i", "I": "I", "l": "q", "L": "Q", "f": "f", "g": "d"}


def bit(address, i):
    return bool(ctypes.string_at(address + i // 8, 1)[0] >> i % 8 & 1)


def values_of(schema, array_):
    """Python's values of an array."""
    layout, found = schema.format.decode(), []
    buffers = [array_.buffers[i] for i in range(array_.n_buffers)]
    for i in range(array_.length):
        if layout == "n" or (buffers[0] and not bit(buffers[0], i)):
            found.append(None)
        elif layout == "b":
            found.append(bit(buffers[1], i))
        elif layout == "U":
            begin, end = struct.unpack("qq", ctypes.string_at(buffers[1] + 8 * i, 16))
            found.append(ctypes.string_at(buffers[2] + begin, end - begin).decode())
        else:
            size = SIZES[layout]
            found.append(struct.unpack(CODES[layout], ctypes.string_at(buffers[1] + size * i, size))[0])
    return found


def consume(stream):
    """Reads a stream to its end, releases it, and returns its columns."""
    held = _arrow.ArrowArrayStream.from_address(stream.address)
    schema, columns = _arrow.ArrowSchema(), {}
    assert _arrow.GET(held.get_schema)(stream.address, ctypes.addressof(schema)) == 0
    while True:
        batch = _arrow.ArrowArray()
        assert _arrow.GET(held.get_next)(stream.address, ctypes.addressof(batch)) == 0
        if not batch.release:
            break
        if schema.format == b"+s":
            for i in range(schema.n_children):
                child = schema.children[i].contents
                columns[child.name.decode()] = values_of(child, batch.children[i].contents)
        else:
            columns[""] = values_of(schema, batch)
        _arrow.RELEASE(batch.release)(ctypes.addressof(batch))
        assert not batch.release
    _arrow.RELEASE(schema.release)(ctypes.addressof(schema))
    _arrow.RELEASE(held.release)(stream.address)
    return columns


class Columns(unittest.TestCase):
    def column(self, values):
        made = _columns.column_of("a", values)
        return made.format, consume(_arrow.give([made]))["a"]

    def test_narrowest_type(self):
        self.assertEqual(self.column([True, False, True]), ("b", [True, False, True]))
        self.assertEqual(self.column([1, -2, 3]), ("l", [1, -2, 3]))
        self.assertEqual(self.column([1, 2.5]), ("g", [1.0, 2.5]))
        self.assertEqual(self.column(["a", "", "öß"]), ("U", ["a", "", "öß"]))
        self.assertEqual(self.column([None, None]), ("n", [None, None]))
        self.assertEqual(self.column([]), ("n", []))

    def test_missing(self):
        self.assertEqual(self.column([1, None, 3]), ("l", [1, None, 3]))
        self.assertEqual(self.column(["a", None, math.nan]), ("U", ["a", None, None]))
        self.assertEqual(self.column([True, None]), ("b", [True, None]))
        layout, values = self.column([1.5, math.nan])
        self.assertEqual((layout, values[0], math.isnan(values[1])), ("g", 1.5, True))

    def test_other_values_are_texts(self):
        self.assertEqual(self.column([1, "a", True, None, 2.5]), ("U", ["1", "a", "true", None, "2.5"]))
        self.assertEqual(self.column([2**70, 1]), ("U", [str(2**70), "1"]))
        self.assertEqual(self.column([datetime.date(2024, 1, 31)]), ("U", ["2024-01-31"]))
        self.assertEqual(self.column([datetime.datetime(2024, 1, 31, 8, 30)]), ("U", ["2024-01-31 08:30:00"]))
        self.assertEqual(self.column([decimal.Decimal("1.50"), b"x"]), ("U", ["1.50", "x"]))
        with self.assertRaisesRegex(DataError, "list"):
            self.column([[1], [2]])
        with self.assertRaisesRegex(DataError, "surrogate"):
            self.column(["\ud800"])

    def test_buffers_are_not_copied(self):
        numbers = array.array("d", [1.0, 2.0])
        made = _columns.column_of("a", numbers)
        self.assertEqual(_arrow.Pinned(made.buffers[1]).address, numbers.buffer_info()[0])
        self.assertEqual(self.column(array.array("h", [1, 2])), ("s", [1, 2]))
        self.assertEqual(self.column(memoryview(b"ab")), ("C", [97, 98]))

    def test_many_bits(self):
        there = [i % 7 != 0 for i in range(1000)]
        values = [i if is_there else None for i, is_there in enumerate(there)]
        self.assertEqual(self.column(values), ("l", values))

    def test_tables(self):
        rows = [{"a": 1, "b": "x"}, {"a": 2, "c": True}]
        self.assertEqual(consume(_arrow.give(_columns.of_records(rows))),
                         {"a": [1, 2], "b": ["x", None], "c": [None, True]})
        self.assertEqual(consume(_arrow.give(_columns.of_mapping({"a": [1, 2], 3: (True, None)}))),
                         {"a": [1, 2], "3": [True, None]})
        self.assertEqual(consume(_arrow.give(_columns.of_sequence(["a", "b"]))), {"text": ["a", "b"]})
        self.assertEqual(consume(_arrow.give(_columns.of_sequence([[1, "a"], [2, "b"]]))),
                         {"x0": [1, 2], "x1": ["a", "b"]})
        with self.assertRaisesRegex(DataError, 'different numbers of values: "a" 1, "b" 2'):
            _columns.of_mapping({"a": [1], "b": [1, 2]})
        with self.assertRaisesRegex(UsageError, "one text"):
            _columns.of_mapping({"a": "abc"})

    def test_bare_values(self):
        self.assertEqual(consume(_arrow.give_values(_columns.column_of("y", [1, 0]))), {"": [1, 0]})

    def test_nothing_is_held_after_release(self):
        consume(_arrow.give(_columns.of_mapping({"a": ["x"] * 10, "b": [1] * 10})))
        stream = _arrow.give([_columns.column_of("a", [1])])
        del stream  # nobody took it
        gc.collect()
        self.assertEqual(_arrow._held, {})

    def test_streams_of_others(self):
        class Table:
            def __arrow_c_array__(self, requested_schema=None):
                return _arrow.array_capsules(_columns_struct({"a": [1, 2], "b": ["x", None]}))

        stream = _arrow.take(Table())
        self.assertEqual((stream.names, stream.formats), (["a", "b"], ["l", "U"]))
        self.assertEqual(consume(stream), {"a": [1, 2], "b": ["x", None]})
        self.assertIsNone(_arrow.take([1]))
        unread = _arrow.take(Table())
        del unread
        gc.collect()
        self.assertEqual((_arrow._held, _arrow._capsule_memory), ({}, {}))


def _columns_struct(table):
    columns = _columns.of_mapping(table)
    return _arrow.Column("", "+s", columns[0].length, [None], children=columns)


if __name__ == "__main__":
    unittest.main()
