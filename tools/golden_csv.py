#!/usr/bin/env python3
"""Writes tests/golden/csv_*.json: hostile tables, and how Python's csv and json modules read them.

csv_python.json   tables that csv.writer wrote, and the rows that csv.reader reads
csv_hostile.json  random bytes of CSV and TSV: the good rows, and each bad row with its position and reason. `records`
                  below defines what is good; if a whole table is good, csv.reader must agree
csv_jsonl.json    lines of JSON, good and bad: the rows that the json module reads
"""
import csv
import io
import json
import os
import random

import golden_json

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PARTS = ["a", "b", " ", ",", '"', '""', "\n", "\r\n", "'", ";", "\t", "0", "-1.5", "é", "中", "\u2028", "😀", "x,y",
         '"q"', "\n\n"]


def save(name, cases):
    golden_json.write(os.path.join(ROOT, "tests", "golden", name),
                      {"made_by": "tools/golden_csv.py", "cases": list(cases)})


def field(rng):
    return "".join(rng.choice(PARTS) for _ in range(rng.choice([0, 0, 1, 1, 2, 3, 6])))


def table(rng):
    columns, rows = rng.randint(2, 5), rng.randint(0, 6)
    made = [[f"c{i}" + rng.choice(["", " ", ",", '"', "\n"]) for i in range(columns)]]
    made += [[field(rng) for _ in range(columns)] for _ in range(rows)]
    out = io.StringIO()
    quoting = rng.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC])
    csv.writer(out, quoting=quoting, lineterminator=rng.choice(["\n", "\r\n"])).writerows(made)
    text = out.getvalue()
    if rng.random() < 0.3:
        text = text[:-2] if text.endswith("\r\n") else text[:-1]
    return rng.choice(["", "", "\ufeff"]) + text


def python_cases():
    rng = random.Random(7)
    for _ in range(80):
        text = table(rng)
        yield {"text": text, "rows": list(csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline=""),
                                                     strict=True))}


def character_end(data, at):
    """The index after the UTF-8 character at data[at]; None if there is none."""
    for size in range(1, 5):
        try:
            data[at : at + size].decode()
            return at + size
        except UnicodeDecodeError:
            pass
    return None


def records(data, delimiter):
    """(start, fields, fault or None) of each record; a fault is (position, first words of the reason)."""
    at = 0
    while at < len(data):
        start, fields, fault, state, begin, quote, known = at, [], None, "start", at, 0, at

        def blame(place, why):
            nonlocal fault
            fault = fault or (place, why)

        def take(end):
            raw = data[begin:end]
            fields.append(raw[1:-1].replace(b'""', b'"') if raw[:1] == b'"' and len(raw) > 1 else raw)

        done = False
        while at < len(data) and not done:
            byte = data[at : at + 1]
            if byte == b"\0":
                blame(at, "NUL byte")
            elif at >= known:
                known = character_end(data, at) or at + 1
                if known == at + 1 and byte >= b"\x80":
                    blame(at, "invalid UTF-8")
            if state == "quoted":
                state = "closed" if byte == b'"' else state
            elif byte == b'"' and state in ("start", "closed"):
                quote = at if state == "start" else quote
                state = "quoted"
            elif byte == delimiter:
                take(at)
                state, begin = "start", at + 1
            elif byte == b"\n" or data[at : at + 2] == b"\r\n":
                take(at)
                at += byte == b"\r"
                done = True
            elif byte == b"\r":
                blame(at, "carriage return without")
                state = "text"
            else:
                if state == "closed":
                    blame(at, "characters after")
                state = "text"
            at += 1
        if not done:
            if state == "quoted":
                blame(quote, "quoted field is never closed")
            take(at)
        yield start, fields, fault


def place(data, at):
    return data.count(b"\n", 0, at) + 1, at - (data.rfind(b"\n", 0, at) + 1) + 1


def hostile_case(rng, kind):
    delimiter = b"," if kind == "csv" else b"\t"
    columns = rng.choice([1, 2, 2, 3, 3, 4])
    parts = [delimiter] * 3 + [b'"'] * rng.choice([0, 2, 4]) + [b'""', b"\n", b"\n", b"\r\n", b"x", b"yz", b"5'8\"",
                                                                b" ", "é中😀".encode()]
    parts += [delimiter + b'"', b'"' + delimiter, b'"\n'] * rng.choice([0, 2])
    if rng.random() < 0.5:
        parts += [b"\r", b"\xc3", b"\xff", b"\xed\xa0\x80", b"\0", b"\xe4\xb8", b"\x80"]
    data = delimiter.join(b"c%d" % i for i in range(columns)) + rng.choice([b"\n", b"\r\n"])
    for _ in range(rng.randint(0, 14)):
        if rng.random() < 0.4:
            data += delimiter.join(rng.choice([b"1", b"", b'"q, ""r"" \n"', b'"a\tb"', "é".encode()])
                                   for _ in range(columns)) + b"\n"
        else:
            data += b"".join(rng.choice(parts) for _ in range(rng.randint(0, 12)))
    body = data
    if columns > 1:  # line ends at the end count for nothing
        while body.endswith(b"\n"):
            body = body[:-2] if body.endswith(b"\r\n") else body[:-1]
    found = list(records(body, delimiter))
    rows, bad = [], []
    for start, fields, fault in found[1:]:
        if not fault and len(fields) != columns:
            fault = (start, f"row has {len(fields)} field")
        if fault:
            bad.append([*place(data, fault[0]), fault[1]])
        else:
            rows.append([value.decode() for value in fields])
    if not any(fault for _, _, fault in found):
        dialect = "excel" if kind == "csv" else "excel-tab"
        read = list(csv.reader(io.StringIO(body.decode(), newline=""), dialect, strict=True))
        assert [row or [""] for row in read] == [[value.decode() for value in fields] for _, fields, _ in found], data
    return {"kind": kind, "hex": data.hex(), "columns": columns, "rows": rows, "bad": bad}


def hostile_cases():
    rng = random.Random(11)
    return [hostile_case(rng, rng.choice(["csv", "csv", "tsv"])) for _ in range(400)]


class Refused(Exception):
    pass


def refuse(text):
    raise Refused(text)


def pairs(members):
    return ("object", members)


def read_line(text):
    """The members of a flat object, or None: what our reader refuses and Python may not."""
    try:
        value = json.loads(text, parse_float=lambda t: ("number", t), parse_int=lambda t: ("number", t),
                           parse_constant=refuse,
                           object_pairs_hook=pairs)
        if not isinstance(value, tuple) or value[0] != "object":
            return None
        members = value[1]
        if len({key for key, _ in members}) != len(members):
            return None
        out = []
        for key, member in members:
            if isinstance(member, list) or (isinstance(member, tuple) and member[0] == "object"):
                return None
            named = isinstance(member, (bool, type(None)))
            shown = {True: "true", False: "false", None: ""}.get(member) if named else member
            shown = shown[1] if isinstance(shown, tuple) else shown
            key.encode(), shown.encode()
            if not key or "\0" in key or "\0" in shown:
                return None
            out.append((key, shown))
        return out
    except (Refused, ValueError, UnicodeEncodeError):
        return None


def json_value(rng):
    text = "".join(rng.choice(["a", '"', "\\", "/", "\b\f\n\r\t", "é", "中", "😀", "\x7f", "\u2028", "{", "}", ",", ":",
                               "\x01"]) for _ in range(rng.randint(0, 8)))
    return rng.choice([text, text, text, rng.randint(-(10**20), 10**20), rng.random() * 10 ** rng.randint(-30, 30),
                       True, False, None])


def json_text(rng):
    keys = rng.sample(["a", "b", "c", "text", "é\n", "label", "x\"y", "😀"], rng.randint(0, 5))
    blank = lambda: rng.choice(["", "", "", " ", "\t", "  "])
    members = [json.dumps(key, ensure_ascii=rng.random() < 0.5) + blank() + ":" + blank() +
               json.dumps(json_value(rng), ensure_ascii=rng.random() < 0.5) + blank() for key in keys]
    line = blank() + "{" + blank() + ("," + blank()).join(members) + "}" + blank()
    if rng.random() < 0.4 and line:
        at = rng.randrange(len(line))
        extra = rng.choice(["", "", '"', "\\", "\\u12", "\\ud83d", "\\u0000", "[1]", "{}", "NaN", "01", "1.", ".5",
                            "1e", "+1",
                            "-", ",", "}", "\x02", "a", "tru"])
        line = line[:at] + extra + line[at + rng.randint(0, 2) :]
    return line.replace("\n", " ")


def jsonl_cases():
    rng = random.Random(13)
    for _ in range(120):
        lines = [json_text(rng) for _ in range(rng.randint(1, 12))]
        names, rows, bad = [], [], []
        while lines and not lines[-1].strip("\r"):
            lines.pop()
        for number, line in enumerate(lines, 1):
            members = read_line(line)
            if members is None:
                bad.append(number)
                continue
            names += [key for key, _ in members if key not in names]
            rows.append(dict(members))
        if lines:
            text = rng.choice(["\n", "\r\n"]).join(lines) + rng.choice(["", "\n", "\r\n\n"])
            yield {"hex": text.encode().hex(), "names": names, "rows": [[row.get(name, "") for name in names]
                                                                        for row in rows], "bad": bad}


def main():
    save("csv_python.json", python_cases())
    save("csv_hostile.json", hostile_cases())
    save("csv_jsonl.json", jsonl_cases())


if __name__ == "__main__":
    main()
