"""How golden JSON is written: a member of the document on a line, and each element of a list of objects or lists on a
line of its own, so that a case is one line of a diff."""
import json


def write(path, document):
    def member(key, value):
        if isinstance(value, list) and any(isinstance(one, (dict, list)) for one in value):
            text = "[\n" + ",\n".join(json.dumps(one) for one in value) + "\n]"
        else:
            text = json.dumps(value)
        return f"{json.dumps(key)}: {text}"
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        file.write("{\n" + ",\n".join(member(key, value) for key, value in document.items()) + "\n}\n")
