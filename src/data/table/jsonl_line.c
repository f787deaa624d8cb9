/* jsonl_line.c - a flat JSON object, validated strictly against RFC 8259 in one pass without recursion: a nested value
 * is a fault at its first byte. Further faults: half a surrogate pair, U+0000, a string of more than 1 MiB. */
#include "base/base.h"
#include "data/table/jsonl.h"
#include "data/text/utf8.h"

void tri__jsonl_blame(tri_jsonl_line *line, size_t at, const char *format, ...) {
    if (line->why[0]) return;
    line->wrong = at;
    TRI_FORMAT(line->why, sizeof line->why, format);
}

int tri__jsonl_shown(const tri_jsonl_line *line, const tri_jsonl_member *member) {
    enum { SHOWN = 60 };
    uint32_t length = member->key_end - member->key_begin;
    if (length <= SHOWN) return (int)length;
    length = SHOWN;
    while (length && ((unsigned char)line->text[member->key_begin + length] & 0xC0) == 0x80) length--;
    return (int)length;
}

/* The current byte; -1 at the end. */
static int peek(const tri_jsonl_line *line) { return line->at < line->size ? (unsigned char)line->text[line->at] : -1; }

static void blanks(tri_jsonl_line *line) {
    while (peek(line) == ' ' || peek(line) == '\t' || peek(line) == '\r') line->at++;
}

/* Records the current byte as unexpected. */
static void unexpected(tri_jsonl_line *line, const char *expected) {
    int byte = peek(line);
    if (byte < 0) tri__jsonl_blame(line, line->at, "the line ends where %s was expected", expected);
    else if (byte == 0)
        tri__jsonl_blame(line, line->at, "NUL byte at byte offset %llu; is this a text file?",
                         (unsigned long long)(line->base + line->at));
    else if (byte > 32 && byte < 127) tri__jsonl_blame(line, line->at, "'%c' where %s was expected", byte, expected);
    else tri__jsonl_blame(line, line->at, "byte 0x%02x where %s was expected", byte, expected);
}

/* Reads the escape at the current backslash. 0: a fault. */
static int escape(tri_jsonl_line *line) {
    const char *text = line->text + line->at;
    size_t left = line->size - line->at;
    if (left > 1 && text[1] && strchr("\"\\/bfnrt", text[1])) {
        line->at += 2;
        return 1;
    }
    int code = left > 1 && text[1] == 'u' ? tri__text_hex4(text + 2, left - 2) : -1;
    if (code < 0) {
        tri__jsonl_blame(line, line->at, "unknown escape after a backslash");
    } else if (code == 0) {
        tri__jsonl_blame(line, line->at, "the character U+0000, which no text may hold");
    } else if (code >= 0xD800 && code <= 0xDFFF) {
        int pair = code < 0xDC00 && left > 7 && text[6] == '\\' && text[7] == 'u';
        int low = pair ? tri__text_hex4(text + 8, left - 8) : -1;
        if (low < 0xDC00 || low > 0xDFFF) tri__jsonl_blame(line, line->at, "half of a surrogate pair");
        line->at += 6;
    }
    line->at += 6;
    return !line->why[0];
}

/* The position of the next quote, backslash or control character, or the end. Eight bytes at a time. */
static size_t plain_run(const char *text, size_t at, size_t size) {
    const uint64_t ones = 0x0101010101010101u, tops = 0x8080808080808080u;
    for (; size - at >= 8; at += 8) {
        uint64_t word;
        memcpy(&word, text + at, 8);
        uint64_t quote = word ^ ones * '"', slash = word ^ ones * '\\';
        uint64_t hit = ((quote - ones) & ~quote) | ((slash - ones) & ~slash) | ((word - ones * 32) & ~word);
        if (hit & tops) break;
    }
    while (at < size && text[at] != '"' && text[at] != '\\' && (unsigned char)text[at] >= 32) at++;
    return at;
}

/* Reads the string at the current quote. 0: a fault. */
static int string(tri_jsonl_line *line) {
    size_t begin = line->at++;
    for (;;) {
        line->at = plain_run(line->text, line->at, line->size);
        if (line->at - begin - 1 > TRI_LIMIT_STRING) {
            tri__jsonl_blame(line, begin, "string of more than %d MiB", TRI_LIMIT_STRING >> 20);
            return 0;
        }
        int byte = peek(line);
        if (byte == '"') {
            line->at++;
            return 1;
        }
        if (byte == '\\') {
            if (!escape(line)) return 0;
        } else {
            if (byte > 0)
                tri__jsonl_blame(line, line->at, "control character 0x%02x in a string; write \\u%04x", byte, byte);
            else if (byte < 0) tri__jsonl_blame(line, begin, "string is never closed; it begins here");
            else unexpected(line, "a character");
            return 0;
        }
    }
}

static size_t digits(tri_jsonl_line *line) {
    size_t from = line->at;
    while (line->at < line->size && line->text[line->at] >= '0' && line->text[line->at] <= '9') line->at++;
    return line->at - from;
}

/* Reads the number here. 0: a fault. */
static int number(tri_jsonl_line *line) {
    size_t begin = line->at;
    if (peek(line) == '-') line->at++;
    size_t whole = line->at;
    int good = digits(line) > 0 && (line->text[whole] != '0' || line->at == whole + 1);
    if (good && peek(line) == '.') line->at++, good = digits(line) > 0;
    if (good && (peek(line) | 0x20) == 'e') {
        line->at++;
        if (peek(line) == '+' || peek(line) == '-') line->at++;
        good = digits(line) > 0;
    }
    if (!good) tri__jsonl_blame(line, begin, "a number that JSON does not know");
    return good;
}

/* Reads the value here; m has its key. 0: a fault. */
static int value(tri_jsonl_line *line, tri_jsonl_member *m) {
    static const char *const words[] = {"true", "false", "null"};
    size_t begin = line->at;
    int byte = peek(line);
    m->begin = (uint32_t)begin;
    if (byte == '"') {
        if (!string(line)) return 0;
    } else if (byte == '-' || (byte >= '0' && byte <= '9')) {
        if (!number(line)) return 0;
    } else if (byte == '{' || byte == '[') {
        tri__jsonl_blame(line, begin,
                         "the value of \"%.*s\" is %s; only strings, numbers, true, false and null make a table%s",
                         tri__jsonl_shown(line, m), line->text + m->key_begin, byte == '{' ? "an object" : "a list",
                         byte == '{' ? "" : " (several labels of a row are one string, as \"a;b\")");
        return 0;
    } else {
        for (int i = 0; i < 3 && line->at == begin; i++)
            if (line->size - begin >= strlen(words[i]) && !memcmp(line->text + begin, words[i], strlen(words[i])))
                line->at += strlen(words[i]);
        if (line->at == begin) {
            int other = byte == 'N' || byte == 'I';
            unexpected(line, other ? "a value (NaN and Infinity are not JSON; write null)" : "a value");
            return 0;
        }
    }
    m->end = (uint32_t)line->at;
    if (byte == 'n') m->begin = m->end = 0;
    return 1;
}

/* "key": value. 0: a fault. */
static int member(tri_jsonl_line *line, tri_jsonl_member *m) {
    if (peek(line) != '"') {
        unexpected(line, "a key in double quotes");
        return 0;
    }
    m->key_begin = (uint32_t)line->at + 1;
    if (!string(line)) return 0;
    m->key_end = (uint32_t)line->at - 1;
    if (m->key_end == m->key_begin) {
        tri__jsonl_blame(line, m->key_begin - 1, "a key without a name");
        return 0;
    }
    blanks(line);
    if (peek(line) != ':') {
        unexpected(line, "':'");
        return 0;
    }
    line->at++;
    blanks(line);
    return value(line, m);
}

/* Reads the object: records a fault, or advances `at` past it. 0 if out of memory. */
static int object(tri_jsonl_line *line) {
    if (peek(line) != '{') {
        unexpected(line, "an object ('{')");
        return 1;
    }
    line->at++;
    blanks(line);
    if (peek(line) == '}') {
        line->at++;
        return 1;
    }
    for (;; line->at++, blanks(line)) {
        if (line->n == TRI_LIMIT_COLUMNS) tri__jsonl_blame(line, line->at, "more than %d keys", TRI_LIMIT_COLUMNS);
        if (!tri__grow(&line->member, &line->room, line->n + (size_t)1, sizeof *line->member)) return 0;
        if (line->why[0] || !member(line, &line->member[line->n])) return 1;
        line->n++;
        blanks(line);
        if (peek(line) == ',') continue;
        if (peek(line) != '}') unexpected(line, "',' or '}'");
        else line->at++;
        return 1;
    }
}

int tri__jsonl_line(tri_jsonl_line *line) {
    line->at = 0, line->n = 0, line->why[0] = 0;
    blanks(line);
    if (line->at == line->size) {
        tri__jsonl_blame(line, 0, "empty line; one JSON object a line was expected");
        return 1;
    }
    if (!object(line)) return 0;
    blanks(line);
    if (!line->why[0] && line->at < line->size) unexpected(line, "the end of the line");
    size_t fault = tri__utf8_fault(line->text, line->size);
    if (fault == line->size || (line->why[0] && line->wrong < fault)) return 1;
    line->why[0] = 0;
    tri__jsonl_blame(line, fault, "invalid UTF-8 byte 0x%02x at byte offset %llu; save the file as UTF-8",
                     (unsigned char)line->text[fault], (unsigned long long)(line->base + fault));
    return 1;
}

size_t tri__jsonl_decode(char *text, size_t length) {
    static const char names[] = "bfnrt", means[] = "\b\f\n\r\t";
    char *to = text;
    for (size_t at = 0; at < length;) {
        if (text[at] != '\\' || length - at < 2) {
            *to++ = text[at++];
            continue;
        }
        const char *name = strchr(names, text[at + 1]);
        int code = text[at + 1] == 'u' ? tri__text_hex4(text + at + 2, length - at - 2) : -1;
        if (code < 0) {
            *to++ = name && text[at + 1] ? means[name - names] : text[at + 1];
            at += 2;
            continue;
        }
        at += 6;
        if (code >= 0xD800 && code <= 0xDBFF && length - at >= 6) {
            int low = tri__text_hex4(text + at + 2, 4);
            code = 0x10000 + ((code & 0x3FF) << 10) + (low & 0x3FF);
            at += 6;
        }
        char bytes[4];
        int n = tri__utf8_put(code, bytes);
        memcpy(to, bytes, (size_t)n);
        to += n;
    }
    return (size_t)(to - text);
}
