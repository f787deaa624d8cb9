# keys.awk - the paths of all members of JSON texts, each once: a.b, and a[].b for members of objects in an array.
# -v prefix=WORD begins every line; -v by=KEY adds the value of that member, as of "event" in metrics.jsonl.
function opens(is_array) {
    depth++
    array[depth] = is_array
    here[depth] = is_array ? here[depth - 1] "[]" : ""
    before[depth] = here[depth - 1] == "" ? "" : here[depth - 1] "."
    if (depth == 1) { found = 0; kind = "" }
}
function closes() { # after a whole text the value of `by` is known
    if (--depth == 0) for (; found > 0; found--) seen[prefix kind " " path[found]] = 1
}
function string(    word, c) { # from its opening quote; i is left at the closing one
    for (i++; (c = substr(text, i, 1)) != "\"" && c != ""; i++) {
        if (c == "\\") { word = word c; c = substr(text, ++i, 1) }
        word = word c
    }
    return word
}
{ text = text $0 "\n" }
END {
    n = length(text)
    for (i = 1; i <= n; i++) {
        c = substr(text, i, 1)
        if (c == "{" || c == "[") { opens(c == "["); name = c == "{" }
        else if (c == "}" || c == "]") closes()
        else if (c == ",") name = !array[depth]
        else if (c == ":") name = 0
        else if (c == "\"") {
            word = string()
            if (name) { path[++found] = here[depth] = before[depth] word }
            else if (depth == 1 && here[1] == by) kind = " " word
        }
    }
    for (line in seen) print line
}
