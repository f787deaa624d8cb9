"""The Arrow C data interface in ctypes: streams of others taken over, and streams of our own columns.

https://arrow.apache.org/docs/format/CDataInterface.html and .../CStreamInterface.html, the structures of
include/trident_table.h. Streams of others come as PyCapsules of __arrow_c_stream__ or __arrow_c_array__. Values are not
copied in either direction: what an array points to is held until its consumer releases it."""
from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable
from ctypes import POINTER, c_char_p, c_int, c_int64, c_void_p, sizeof

from .errors import DataError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Optional


class ArrowSchema(ctypes.Structure):
    """struct ArrowSchema."""


ArrowSchema._fields_ = [
    ("format", c_char_p), ("name", c_char_p), ("metadata", c_void_p), ("flags", c_int64), ("n_children", c_int64),
    ("children", POINTER(POINTER(ArrowSchema))), ("dictionary", POINTER(ArrowSchema)), ("release", c_void_p),
    ("private_data", c_void_p)]


class ArrowArray(ctypes.Structure):
    """struct ArrowArray."""


ArrowArray._fields_ = [
    ("length", c_int64), ("null_count", c_int64), ("offset", c_int64), ("n_buffers", c_int64), ("n_children", c_int64),
    ("buffers", POINTER(c_void_p)), ("children", POINTER(POINTER(ArrowArray))), ("dictionary", POINTER(ArrowArray)),
    ("release", c_void_p), ("private_data", c_void_p)]


class ArrowArrayStream(ctypes.Structure):
    """struct ArrowArrayStream."""

    _fields_ = [("get_schema", c_void_p), ("get_next", c_void_p), ("get_last_error", c_void_p), ("release", c_void_p),
                ("private_data", c_void_p)]


GET = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p)  # get_schema, get_next
WORDS = ctypes.CFUNCTYPE(c_void_p, c_void_p)       # get_last_error
RELEASE = ctypes.CFUNCTYPE(None, c_void_p)
NULLABLE = 2                                       # ARROW_FLAG_NULLABLE


class _Buffer(ctypes.Structure):
    """Py_buffer."""

    _fields_ = [("buf", c_void_p), ("obj", ctypes.py_object), ("len", ctypes.c_ssize_t),
                ("itemsize", ctypes.c_ssize_t), ("readonly", c_int), ("ndim", c_int), ("format", c_char_p),
                ("shape", c_void_p), ("strides", c_void_p), ("suboffsets", c_void_p), ("internal", c_void_p)]


_pin = ctypes.pythonapi.PyObject_GetBuffer
_pin.restype, _pin.argtypes = c_int, [ctypes.py_object, POINTER(_Buffer), c_int]
_unpin = ctypes.pythonapi.PyBuffer_Release
_unpin.restype, _unpin.argtypes = None, [POINTER(_Buffer)]
_capsule = ctypes.pythonapi.PyCapsule_GetPointer
_capsule.restype, _capsule.argtypes = c_void_p, [ctypes.py_object, c_char_p]
_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype, _new_capsule.argtypes = ctypes.py_object, [c_void_p, c_char_p, c_void_p]


class Pinned:
    """The memory of an object with the buffer protocol, which stays where it is as long as this is held."""

    def __init__(self, held: Any) -> None:
        self._view = _Buffer()
        self._is_pinned = False
        _pin(held, ctypes.byref(self._view), 0)
        self._is_pinned = True
        self.address: int = self._view.buf or 0

    def __del__(self) -> None:
        if self._is_pinned:
            _unpin(ctypes.byref(self._view))


class Column:
    """Values of one column: an Arrow format, and for each buffer an object with the buffer protocol, or None."""

    def __init__(self, name: str, layout: str, length: int, buffers: list[Any], null_count: int = 0,
                 children: Optional[list[Column]] = None) -> None:
        self.name, self.format, self.length = name, layout, length
        self.buffers, self.null_count, self.children = buffers, null_count, children or []


# ---- What is given away: structures that their consumers release, with what they point to ----

_keys = itertools.count(1)
_held: dict[int, Any] = {}
_KEPT = "an exported structure was asked for twice"


def _hold(what: Any) -> int:
    key = next(_keys)
    _held[key] = what
    return key


def _release(structure: Any) -> None:
    for i in range(structure.n_children):
        child = structure.children[i].contents
        if child.release:
            RELEASE(child.release)(ctypes.addressof(child))
    key = structure.private_data
    structure.release = None
    _held.pop(key, None)  # with it the memory of the structure may go


def _release_schema(address: int) -> None:
    _release(ArrowSchema.from_address(address))


def _release_array(address: int) -> None:
    _release(ArrowArray.from_address(address))


_callbacks: dict[Any, tuple[Any, int]] = {}


def _address(function: Callable[..., Any], prototype: Any) -> int:
    """Where C calls a function of ours; the callback stays."""
    if function not in _callbacks:
        callback = prototype(function)
        _callbacks[function] = callback, ctypes.cast(callback, c_void_p).value or 0
    return _callbacks[function][1]


def fill_schema(out: ArrowSchema, column: Column) -> None:
    """The type of a column, into a structure that its consumer releases."""
    children = (ArrowSchema * len(column.children))()
    pointers = (POINTER(ArrowSchema) * len(column.children))(*[ctypes.pointer(child) for child in children])
    for child, of in zip(children, column.children):
        fill_schema(child, of)
    words = (column.format.encode(), column.name.encode("utf-8", "surrogateescape"))
    out.format, out.name = words
    out.metadata, out.flags, out.n_children = None, NULLABLE, len(column.children)
    out.children = ctypes.cast(pointers, POINTER(POINTER(ArrowSchema)))
    out.dictionary = None
    out.release = _address(_release_schema, RELEASE)
    out.private_data = _hold((words, children, pointers))


def fill_array(out: ArrowArray, column: Column) -> None:
    """The values of a column, likewise."""
    children = (ArrowArray * len(column.children))()
    pointers = (POINTER(ArrowArray) * len(column.children))(*[ctypes.pointer(child) for child in children])
    for child, of in zip(children, column.children):
        fill_array(child, of)
    pinned = [None if held is None else Pinned(held) for held in column.buffers]
    buffers = (c_void_p * len(pinned))(*[None if each is None else each.address for each in pinned])
    out.length, out.null_count, out.offset = column.length, column.null_count, 0
    out.n_buffers, out.n_children = len(pinned), len(column.children)
    out.buffers = ctypes.cast(buffers, POINTER(c_void_p))
    out.children = ctypes.cast(pointers, POINTER(POINTER(ArrowArray)))
    out.dictionary = None
    out.release = _address(_release_array, RELEASE)
    out.private_data = _hold((pinned, buffers, children, pointers))


class _Source:
    """One batch of a stream of ours: a column, or structures that another library's __arrow_c_array__ made."""

    def __init__(self, column: Optional[Column], capsules: Any = None) -> None:
        self.column, self.capsules, self.is_read = column, capsules, False
        self.words = ctypes.create_string_buffer(_KEPT.encode())

    def _move(self, which: int, name: bytes, out: int, kind: Any) -> int:
        address = _capsule(self.capsules[which], name)
        structure = kind.from_address(address)
        if not structure.release:
            return 22  # EINVAL
        ctypes.memmove(out, address, sizeof(kind))
        structure.release = None
        return 0

    def schema(self, out: int) -> int:
        if self.column is None:
            return self._move(0, b"arrow_schema", out, ArrowSchema)
        fill_schema(ArrowSchema.from_address(out), self.column)
        return 0

    def next(self, out: int) -> int:
        if self.is_read:
            ArrowArray.from_address(out).release = None  # the end of the stream
            return 0
        self.is_read = True
        if self.column is None:
            return self._move(1, b"arrow_array", out, ArrowArray)
        fill_array(ArrowArray.from_address(out), self.column)
        return 0


def _source(address: int) -> _Source:
    source: _Source = _held[ArrowArrayStream.from_address(address).private_data]
    return source


def _get_schema(address: int, out: int) -> int:
    try:
        return _source(address).schema(out)
    except BaseException:  # nothing may leave a callback
        return 5  # EIO


def _get_next(address: int, out: int) -> int:
    try:
        return _source(address).next(out)
    except BaseException:
        return 5


def _get_last_error(address: int) -> int:
    return ctypes.addressof(_source(address).words)


def _release_stream(address: int) -> None:
    stream = ArrowArrayStream.from_address(address)
    _held.pop(stream.private_data, None)
    stream.release = None


class Stream:
    """A stream that `tri_tables_add` takes over: its address, the names of its columns, and their formats.

    names is None where it is of bare values, which have one format."""

    def __init__(self, address: int, owner: Any, names: Optional[list[str]], formats: list[str]) -> None:
        self.address, self.owner, self.names, self.formats = address, owner, names, formats

    def __del__(self) -> None:
        if self.owner is not None and isinstance(self.owner, ArrowArrayStream) and self.owner.release:
            RELEASE(self.owner.release)(self.address)  # nobody has taken it


def _value_format(schema: ArrowSchema) -> str:
    of = schema.dictionary.contents if schema.dictionary else schema
    return (of.format or b"").decode()


def _read_schema(schema: ArrowSchema) -> tuple[Optional[list[str]], list[str]]:
    if schema.format != b"+s":
        return None, [_value_format(schema)]
    children = [schema.children[i].contents for i in range(schema.n_children)]
    names = [(child.name or b"").decode("utf-8", "surrogateescape") for child in children]
    return names, [_value_format(child) for child in children]


def _of_capsule(capsule: Any) -> Stream:
    address = _capsule(capsule, b"arrow_array_stream")
    stream = ArrowArrayStream.from_address(address)
    if not stream.release:
        raise UsageError("this Arrow stream has been read already; give the table itself")
    schema = ArrowSchema()
    if GET(stream.get_schema)(address, ctypes.addressof(schema)):
        words = WORDS(stream.get_last_error)(address)
        raise DataError("an Arrow stream gives no schema: " +
                        (ctypes.string_at(words).decode("utf-8", "replace") if words else "no reason given"))
    try:
        names, formats = _read_schema(schema)
    finally:
        if schema.release:
            RELEASE(schema.release)(ctypes.addressof(schema))
    return Stream(address, capsule, names, formats)


def _export(source: _Source, names: Optional[list[str]], formats: list[str]) -> Stream:
    stream = ArrowArrayStream(_address(_get_schema, GET), _address(_get_next, GET), _address(_get_last_error, WORDS),
                              _address(_release_stream, RELEASE), _hold(source))
    return Stream(ctypes.addressof(stream), stream, names, formats)


def take(table: Any) -> Optional[Stream]:
    """The stream of an object of the Arrow PyCapsule interface; None: it is not one."""
    if hasattr(table, "__arrow_c_stream__"):
        return _of_capsule(table.__arrow_c_stream__())
    if not hasattr(table, "__arrow_c_array__"):
        return None
    capsules = table.__arrow_c_array__()
    schema = ArrowSchema.from_address(_capsule(capsules[0], b"arrow_schema"))
    names, formats = _read_schema(schema)
    return _export(_Source(None, capsules), names, formats)


def give(columns: list[Column]) -> Stream:
    """A stream of one batch with these columns, all of one length."""
    whole = Column("", "+s", columns[0].length if columns else 0, [None], children=columns)
    return _export(_Source(whole), [column.name for column in columns],
                   [column.format for column in columns])


def give_values(column: Column) -> Stream:
    """A stream of the bare values of one column."""
    return _export(_Source(column), None, [column.format])


# ---- Capsules of ours, for __arrow_c_array__ ----

_destructor = ctypes.PYFUNCTYPE(None, c_void_p)
_is_capsule = ctypes.PYFUNCTYPE(c_int, c_void_p, c_char_p)(("PyCapsule_IsValid", ctypes.pythonapi))
_raw_capsule = ctypes.PYFUNCTYPE(c_void_p, c_void_p, c_char_p)(("PyCapsule_GetPointer", ctypes.pythonapi))
_capsule_memory: dict[int, Any] = {}
_NAMES = {b"arrow_schema": ArrowSchema, b"arrow_array": ArrowArray}


def _end_capsule(capsule: int) -> None:
    for name, kind in _NAMES.items():
        if _is_capsule(capsule, name):
            address = _raw_capsule(capsule, name)
            structure = kind.from_address(address)
            if structure.release:
                RELEASE(structure.release)(address)
            _capsule_memory.pop(address, None)


def _wrap(structure: Any, name: bytes) -> Any:
    address = ctypes.addressof(structure)
    _capsule_memory[address] = structure
    return _new_capsule(address, name, _address(_end_capsule, _destructor))


def array_capsules(column: Column) -> tuple[Any, Any]:
    """What __arrow_c_array__ returns for a column."""
    schema, array = ArrowSchema(), ArrowArray()
    fill_schema(schema, column)
    fill_array(array, column)
    return _wrap(schema, b"arrow_schema"), _wrap(array, b"arrow_array")
