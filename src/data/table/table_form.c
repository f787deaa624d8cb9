/* table_form.c - identifies files that are not tables, with advice on how to convert them, and detects the separator of
 * a CSV file from the header and the first rows: a separator fits if it splits the header into at least two fields,
 * respecting quotes, and rows into as many. If the header has a single field, the separator is a comma; two separators
 * that fit equally well are an error, not a guess. */
#include "data/table/formats.h"

static const struct {
    char byte;
    const char *plural;
} separators[] = {{',', "commas"}, {';', "semicolons"}, {'\t', "tabs"}, {'|', "vertical bars"}};

enum { N_SEPARATORS = sizeof separators / sizeof *separators, SAMPLE = 1 << 18, SAMPLE_ROWS = 100 };

const char *tri__separator_words(char separator) {
    for (int i = 0; i < N_SEPARATORS; i++)
        if (separators[i].byte == separator) return separators[i].plural;
    return "";
}

/* Counts the fields of the record at text[*at] and advances *at past it; 0 if a quote is misplaced; -1 if the record is
 * incomplete. */
static int64_t count_fields(const char *text, size_t size, int last, char separator, size_t *at) {
    enum { START, UNQUOTED, QUOTED, CLOSED } state = START;
    int64_t fields = 1;
    int wrong = 0;
    for (; *at < size; ++*at) {
        char byte = text[*at];
        if (state == QUOTED) {
            if (byte == '"') state = CLOSED;
        } else if (byte == '\n') {
            ++*at;
            return wrong ? 0 : fields;
        } else if (byte == separator) {
            fields++, state = START;
        } else if (byte == '"' && state != UNQUOTED) {
            state = QUOTED;
        } else if (byte != '\r') {
            wrong |= state == CLOSED;
            state = UNQUOTED;
        }
    }
    return !last ? -1 : wrong || state == QUOTED ? 0 : fields;
}

/* How well a separator fits. */
typedef struct fit {
    int64_t fields;      /* of the header */
    int rows, same;      /* examined; with as many fields */
    int bare;            /* rows without the separator */
} fit;

static fit try_separator(const char *text, size_t size, int last, char separator) {
    size_t at = 0;
    fit f = {.fields = count_fields(text, size, last, separator, &at)};
    if (f.fields < 0) f.fields = 0;
    while (at < size && f.rows < SAMPLE_ROWS) {
        if (text[at] == '\n' || text[at] == '\r') { /* skip empty lines */
            at++;
            continue;
        }
        int64_t fields = count_fields(text, size, last, separator, &at);
        if (fields < 0) break;
        f.rows++, f.same += fields == f.fields, f.bare += fields == 1;
    }
    return f;
}

/* 2: every row has as many fields as the header; 1: most rows; 0: the header has one field, or rows do not match it. */
static int rank(const fit *f) { return f->fields < 2 ? 0 : f->same == f->rows ? 2 : 2 * f->same > f->rows ? 1 : 0; }

static tri_status refuse(const tri_table *table, const fit fits[static N_SEPARATORS]) {
    char list[200] = "";
    for (int i = 0; i < N_SEPARATORS; i++)
        if (fits[i].fields > 1)
            tri__text_append(list, sizeof list, ", ", "%s (%lld fields in the header, %d of %d rows agree)",
                             separators[i].plural, (long long)fits[i].fields, fits[i].same, fits[i].rows);
    return tri__fail(TRI_DATA,
                     "%s: the separator of its fields is not clear: %s; name it with --separator comma, semicolon, tab "
                     "or pipe", table->path, list);
}

static tri_status choose(const tri_table *table, const char *text, size_t size, int last, char *separator) {
    fit fits[N_SEPARATORS];
    int best = 0, equal = 0, several = 0, only = -1;
    *separator = ',';
    for (int i = 0; i < N_SEPARATORS; i++) {
        fits[i] = try_separator(text, size, last, separators[i].byte);
        if (fits[i].fields < 2) continue;
        several++, only = i;
        if (rank(&fits[i]) > best) best = rank(&fits[i]), equal = 0, *separator = separators[i].byte;
        equal += rank(&fits[i]) == best;
    }
    if (!several || (best && equal == 1)) return TRI_OK;
    /* One column whose name contains such a character; or commas, with bad rows. */
    if (several == 1 && (separators[only].byte == ',' || fits[only].bare == fits[only].rows)) return TRI_OK;
    return refuse(table, fits);
}

tri_status tri__table_separate(tri_table *table) {
    uint64_t left = table->source.size - table->top;
    size_t size = left < SAMPLE ? (size_t)left : SAMPLE;
    TRI_OWNED(tri__free_at) char *text = malloc(size + 1);
    tri_status status =
        text ? tri__source_read(table, table->top, text, size) : tri__table_no_memory(table);
    if (status == TRI_OK) status = choose(table, text, size, size == left, &table->delimiter);
    table->recognised = status == TRI_OK && table->delimiter != ',';
    return status;
}

/* The path with another extension; "" if too long. */
static const char *renamed(const char *path, const char *ending, char out[static TRI_PATH_MAX]) {
    const char *slash = strrchr(path, '/'), *dot = strrchr(slash ? slash : path, '.');
    int length = dot ? (int)(dot - path) : (int)strlen(path);
    if (snprintf(out, TRI_PATH_MAX, "%.*s%s", length, path, ending) >= TRI_PATH_MAX) out[0] = 0;
    return out;
}

/* Files that are not tables, by their first bytes. "%1$s": the file, "%2$s": the file with the extension `becomes`. */
static const struct {
    const char *bytes;
    size_t n;
    const char *becomes, *words;
} foreign[] = {
    {"\x1F\x8B", 2, ".csv.gz", "is compressed with gzip, which is read from files that end in .gz: mv %1$s %2$s"},
    {"BZh", 3, "", "is compressed with bzip2; unpack it: bunzip2 -k %1$s"},
    {"\xFD\x37zXZ", 6, "", "is compressed with xz; unpack it: unxz -k %1$s"},
    {"\x28\xB5\x2F\xFD", 4, ".csv.zst",
     "is compressed with zstd, which is read from files that end in .zst: mv %1$s %2$s"},
    {"PK\x03\x04", 4, "",
     "is an Excel workbook or another zip archive; save the sheet as CSV UTF-8, or: libreoffice --headless "
     "--convert-to csv %1$s"},
    {"\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1", 8, "",
     "is an Excel workbook (.xls); save the sheet as CSV UTF-8, or: libreoffice --headless "
     "--convert-to csv %1$s"},
    {"SQLite format 3", 16, "",
     "is an SQLite database; write a table of it as CSV: sqlite3 -header -csv %1$s 'select * from TABLE'"},
    {"\xFF\xFE", 2, ".utf8.csv", "is UTF-16; write it as UTF-8: iconv -f UTF-16 -t UTF-8 %1$s > %2$s"},
    {"\xFE\xFF", 2, ".utf8.csv", "is UTF-16; write it as UTF-8: iconv -f UTF-16 -t UTF-8 %1$s > %2$s"},
};

/* The name of a table's text: without the ending of a compressed file. advice: how to get it, "" if it is the file. */
static void name_text(const char *path, char name[static TRI_PATH_MAX], char *advice, size_t size) {
    size_t stem;
    tri_packer packer = tri__packed_name(path, &stem);
    snprintf(name, TRI_PATH_MAX, "%.*s", (int)stem, path);
    advice[0] = 0;
    TRI_OWNED(tri__free_at) char *word = packer == TRI_PACKERS ? NULL : tri__text_quoted(path);
    if (word) snprintf(advice, size, "unpack it (%s %s); then ", tri__packed_program(packer), word);
}

static tri_status name_foreign(const char *path, const char *words, const char *becomes) {
    char name[TRI_PATH_MAX], beside[TRI_PATH_MAX], text[2048], advice[512];
    name_text(path, name, advice, sizeof advice);
    TRI_OWNED(tri__free_at) char *word = tri__text_quoted(name),
                                 *other = tri__text_quoted(renamed(name, becomes, beside));
    if (word && other) snprintf(text, sizeof text, words, word, other);
    if (!word || !other) return tri__fail(TRI_RESOURCE, "no memory to say what %s is", path);
    if (!advice[0]) return tri__fail(TRI_DATA, "%s %s", path, text);
    return tri__fail(TRI_DATA, "%s: %s%s %s", path, advice, name, text);
}

/* JSON that is not JSON lines, or does not have their extension. */
static tri_status check_json(const tri_table *table, const char *head, size_t n) {
    static const char blanks[] = " \t\r\n";
    size_t at = strspn(head, blanks);
    if (at >= n || (head[at] != '[' && head[at] != '{')) return TRI_OK;
    size_t inner = at + 1 + strspn(head + at + 1, blanks);
    int array = head[at] == '[';
    if (array && (head[inner] == '{' || head[inner] == '['))
        return name_foreign(table->path, "is one JSON array; write an object a line: jq -c '.[]' %1$s > %2$s",
                            tri__text_ends(table->path, ".jsonl") ? ".lines.jsonl" : ".jsonl");
    if (!array && !table->format->objects && head[inner] == '"')
        return tri__fail(TRI_DATA, "%s holds JSON; one object a line is read from files that end in .jsonl: rename it",
                         table->path);
    return TRI_OK;
}

tri_status tri__table_form(const tri_table *table) {
    char head[65] = "";
    size_t n = table->source.size < 64 ? (size_t)table->source.size : 64;
    TRI_TRY(tri__source_read(table, 0, head, n));
    const tri_format *other = tri__format_by_magic(head, n);
    if (other) {
        const char *ending = tri__format_ending(other, (char[TRI_ENDING_BYTES]){0});
        const char *words = TRI_TEXT(128, "is %s, which is read from files that end in %s: mv %%1$s %%2$s",
                                     other->called, ending);
        return name_foreign(table->path, words, ending);
    }
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++)
        if (n >= foreign[i].n && memcmp(head, foreign[i].bytes, foreign[i].n) == 0 &&
            (foreign[i].bytes[0] != 'B' || (n >= 10 && memcmp(head + 4, "1AY&SY", 6) == 0)))
            return name_foreign(table->path, foreign[i].words, foreign[i].becomes);
    return check_json(table, head + table->top, n - table->top);
}

tri_status tri__table_faulty(const tri_table *table, const tri_fault *fault) {
    char bytes[4], name[TRI_PATH_MAX], beside[TRI_PATH_MAX], advice[512];
    uint64_t left = table->source.size - fault->at;
    size_t n = left < 4 ? (size_t)left : 4, at = 0;
    tri_status status = tri__table_fail(table, fault->at, "%s", fault->why);
    if (status != TRI_DATA || !n || strncmp(fault->why, "invalid UTF-8", 13)) return status;
    TRI_TRY(tri__source_read(table, fault->at, bytes, n));
    if (tri__utf8_next(bytes, n, &at) >= 0) return status;
    int windows = (unsigned char)bytes[0] < 0xA0;
    const char *said = TRI_TEXT(2048, "%s", tri_error());
    char usual[TRI_ENDING_BYTES], ending[TRI_ENDING_BYTES + 8];
    snprintf(ending, sizeof ending, ".utf8%s", tri__format_ending(table->format, usual));
    name_text(table->path, name, advice, sizeof advice);
    TRI_OWNED(tri__free_at) char *word = tri__text_quoted(name),
                                 *other = tri__text_quoted(renamed(name, ending, beside));
    if (word && other) /* out of memory: keeps the earlier text */
        status = tri__fail(TRI_DATA, "%s: if it is %s, %siconv -f %s -t UTF-8 %s > %s", said,
                           windows ? "Windows-1252" : "Latin-1", advice, windows ? "WINDOWS-1252" : "LATIN1", word,
                           other);
    return status;
}
