/* parquet_pages.c - a column of a row group: its pages are read, their checksums verified, unpacked, and their values
 * decoded, as text or as numbers; null values become empty fields. */
#include "data/table/parquet.h"

#include "data/table/thrift.h"

tri_status tri__parquet_no_memory(const tri_parquet_reader *r) {
    return tri__fail(TRI_RESOURCE, "%s: column \"%.80s\", row group %d: out of memory; write the file with smaller row "
                     "groups", r->place.table->path, r->place.table->name[r->place.column], r->group->number);
}

/* Codecs by the format's numbers. ratio: most bytes that one packed byte can become. */
static const struct {
    const char *name;
    int codec;
    uint64_t ratio;
} codecs[] = {{"uncompressed", TRI_CODEC_NONE, 1}, {"snappy", TRI_CODEC_SNAPPY, 22}, {"gzip", TRI_CODEC_GZIP, 1040},
              {"LZO", -1, 0}, {"brotli", TRI_CODEC_BROTLI, 1 << 21}, {"LZ4 in Hadoop's frames", -1, 0},
              {"zstd", TRI_CODEC_ZSTD, 1 << 17}, {"lz4", TRI_CODEC_LZ4, 256}};
enum { CODECS = sizeof codecs / sizeof *codecs };

int tri__parquet_refused(const tri_table *table, const tri_parquet_group *group, int column, char *why, size_t size) {
    static const char again[] = "the file is damaged; get it again";
    const tri_parquet_chunk *chunk = &group->chunk[column];
    int known = chunk->codec >= 0 && chunk->codec < CODECS && codecs[chunk->codec].codec >= 0, n = group->number;
    uint64_t end = table->source.size;
    if (chunk->encrypted)
        snprintf(why, size, "is encrypted in row group %d; write the file anew without encryption", n);
    else if (chunk->elsewhere)
        snprintf(why, size, "has its values of row group %d in another file; write one file with all columns", n);
    else if (chunk->absent) snprintf(why, size, "has no values in row group %d: %s", n, again);
    else if (!known)
        snprintf(why, size, "is compressed by codec %d (%s) in row group %d, which is not read; write the file anew "
                 "with snappy or zstd", chunk->codec,
                 chunk->codec >= 0 && chunk->codec < CODECS ? codecs[chunk->codec].name : "unknown", n);
    else if (tri__codec_check((tri_codec)codecs[chunk->codec].codec) != TRI_OK) snprintf(why, size, "%s", tri_error());
    else if (chunk->begin > end || chunk->bytes > end - chunk->begin)
        snprintf(why, size, "has pages of row group %d beyond the end of the file: it is cut short; get it again", n);
    else if (chunk->values != group->rows)
        snprintf(why, size, "has %lld values for the %lld rows of row group %d: %s", (long long)chunk->values,
                 (long long)group->rows, n, again);
    else return 0;
    return 1;
}

typedef struct page {
    int type, encoding, level_encoding;
    int64_t packed, unpacked; /* bytes */
    int64_t values;
    int64_t level_bytes, repeat_bytes; /* of a v2 page: before the values, never packed */
    int is_packed;
    int has_crc;
    uint32_t crc;
} page;

/* The bytes of the chunk that lie in the window, and at least `size` if the chunk has them. */
static tri_status look(tri_parquet_reader *r, size_t size, const uint8_t **at, size_t *got) {
    enum { PART = 1 << 18 };
    uint64_t left = r->chunk->begin + r->chunk->bytes - r->next;
    size_t have = r->window_end - r->window_from;
    if (have < size && left) {
        size_t more = size - have < PART ? PART : size - have;
        if (more > left) more = (size_t)left;
        if (have + more > r->window_room) {
            uint8_t *grown = malloc(have + more + TRI_TABLE_PAD);
            if (!grown) return tri__parquet_no_memory(r);
            if (have) memcpy(grown, r->window + r->window_from, have);
            free(r->window);
            r->window = grown, r->window_room = have + more;
        } else {
            memmove(r->window, r->window + r->window_from, have);
        }
        r->window_from = 0, r->window_end = have + more;
        TRI_TRY(tri__source_read(r->place.table, r->next, (char *)r->window + have, more));
        r->next += more;
    }
    *at = r->window + r->window_from, *got = r->window_end - r->window_from;
    return TRI_OK;
}

/* Of a v1 data page, or a dictionary, which has no levels. */
static void read_data_header(tri_thrift *in, int levels, page *page) {
    for (tri_thrift_field field = {0}; tri__thrift_next(in, &field);) {
        if (field.id == 1) page->values = tri__thrift_integer(in, &field);
        else if (field.id == 2) page->encoding = (int)tri__thrift_integer(in, &field);
        else if (field.id == 3 && levels) page->level_encoding = (int)tri__thrift_integer(in, &field);
        else tri__thrift_skip(in, field.type);
    }
}

static void read_data_header_v2(tri_thrift *in, page *page) {
    page->level_encoding = PQ_RLE;
    for (tri_thrift_field field = {0}; tri__thrift_next(in, &field);) {
        if (field.id == 1) page->values = tri__thrift_integer(in, &field);
        else if (field.id == 4) page->encoding = (int)tri__thrift_integer(in, &field);
        else if (field.id == 5) page->level_bytes = tri__thrift_integer(in, &field);
        else if (field.id == 6) page->repeat_bytes = tri__thrift_integer(in, &field);
        else if (field.id == 7) page->is_packed = tri__thrift_boolean(in, &field);
        else tri__thrift_skip(in, field.type);
    }
}

static void read_page_header(tri_thrift *in, page *out) {
    *out = (page){.type = -1, .packed = -1, .unpacked = -1, .values = -1, .is_packed = 1};
    for (tri_thrift_field field = {0}; tri__thrift_next(in, &field);) {
        if (field.id == 1) out->type = (int)tri__thrift_integer(in, &field);
        else if (field.id == 2) out->unpacked = tri__thrift_integer(in, &field);
        else if (field.id == 3) out->packed = tri__thrift_integer(in, &field);
        else if (field.id == 4) out->crc = (uint32_t)tri__thrift_integer(in, &field), out->has_crc = 1;
        else if ((field.id == 5 || field.id == 7) && tri__thrift_struct(in, &field))
            read_data_header(in, field.id == 5, out);
        else if (field.id == 8 && tri__thrift_struct(in, &field)) read_data_header_v2(in, out);
        else tri__thrift_skip(in, field.type);
    }
}

/* The next page's header; the window then begins with its bytes. */
static tri_status next_page(tri_parquet_reader *r, page *out) {
    enum { HEADER = 1 << 10, HEADER_MOST = 1 << 24 };
    for (size_t ask = HEADER;; ask *= 16) {
        const uint8_t *at;
        size_t size;
        TRI_TRY(look(r, ask, &at, &size));
        tri_thrift in = {.at = at, .end = at + size};
        read_page_header(&in, out);
        if (!in.failed) {
            r->window_from += (size_t)(in.at - at);
            break;
        }
        if (size < ask || ask >= HEADER_MOST)
            return tri__column_fail(&r->place, "the header of a page is damaged; get the file again");
    }
    uint64_t left = r->chunk->begin + r->chunk->bytes - r->next + (r->window_end - r->window_from);
    if (out->packed < 0 || out->unpacked < 0 || out->packed > INT32_MAX || out->unpacked > INT32_MAX ||
        (uint64_t)out->packed > left)
        return tri__column_fail(&r->place, "a page lies beyond the column's end: the file is damaged; get it again");
    if ((uint64_t)out->unpacked > (uint64_t)out->packed * codecs[r->chunk->codec].ratio + 64)
        return tri__column_fail(&r->place, "a page of %lld bytes cannot become %lld: the file is damaged; get it again",
                                (long long)out->packed, (long long)out->unpacked);
    return TRI_OK;
}

/* CRC-32 as gzip has it, eight bytes at a time. */
static void make_crc_table(uint32_t *table) {
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t value = i;
        for (int bit = 0; bit < 8; bit++) value = value >> 1 ^ (value & 1 ? 0xEDB88320 : 0);
        table[i] = value;
    }
    for (uint32_t i = 256; i < 8 * 256; i++) table[i] = table[i - 256] >> 8 ^ table[table[i - 256] & 255];
}

static uint32_t crc32_of(const uint32_t *table, const uint8_t *bytes, size_t size) {
    uint32_t value = UINT32_MAX;
    for (; size >= 8; bytes += 8, size -= 8) {
        uint64_t word = tri__load64(bytes) ^ value;
        value = 0;
        for (int i = 0; i < 8; i++) value ^= table[256 * (7 - i) + (word >> 8 * i & 255)];
    }
    for (; size; bytes++, size--) value = value >> 8 ^ table[(value ^ *bytes) & 255];
    return ~value;
}

static tri_status check_crc(tri_parquet_reader *r, const page *page, const uint8_t *bytes) {
    if (!page->has_crc) return TRI_OK;
    if (!r->crc) {
        if (!(r->crc = malloc(8 * 256 * sizeof *r->crc))) return tri__parquet_no_memory(r);
        make_crc_table(r->crc);
    }
    if (crc32_of(r->crc, bytes, (size_t)page->packed) == page->crc) return TRI_OK;
    return tri__column_fail(&r->place, "the checksum of a page is wrong: the file is damaged; get it again");
}

/* Unpacks bytes into the text, if its values are to stay there, or into the page's buffer. */
static tri_status unpack(tri_parquet_reader *r, tri_codec codec, const uint8_t *packed, size_t size, size_t unpacked,
                         tri_parquet_values *out) {
    if (codec == TRI_CODEC_NONE && !out->in_text) {
        if (size != unpacked)
            return tri__column_fail(&r->place, "a page's sizes disagree: the file is damaged; get it again");
        out->bytes = packed, out->size = size;
        return TRI_OK;
    }
    tri_column_buffer *to = out->in_text ? &r->text : &r->page;
    if (out->in_text) TRI_TRY(tri__parquet_text_room(r, unpacked));
    else to->used = 0;
    if (!tri__column_reserve(to, unpacked)) return tri__parquet_no_memory(r);
    TRI_TRY(tri__column_unpack(&r->place, codec, packed, size, to->at + to->used, unpacked));
    out->bytes = (const uint8_t *)to->at + to->used, out->size = unpacked;
    out->begin = out->in_text ? to->used : 0;
    to->used += unpacked;
    return TRI_OK;
}

static tri_status bad_levels(const tri_parquet_reader *r) {
    return tri__column_fail(&r->place,
                            "its definition levels, which say what is null, are damaged; get the file again");
}

/* Levels in the old form: bits from the highest of each byte on. */
static int old_levels(const uint8_t *bytes, size_t size, int64_t n, uint8_t *out, int64_t *set) {
    *set = 0;
    if (size < ((uint64_t)n + 7) / 8) return 0;
    for (int64_t i = 0; i < n; i++) *set += out[i] = bytes[i >> 3] >> (7 - (i & 7)) & 1;
    return 1;
}

/* Which values of the page are there, as bytes in r->levels; *set: how many. */
static tri_status read_levels(tri_parquet_reader *r, const page *page, const uint8_t *bytes, size_t size,
                              int64_t *set) {
    r->levels.used = 0;
    if (!tri__column_reserve(&r->levels, (size_t)page->values + 1)) return tri__parquet_no_memory(r);
    uint8_t *out = (uint8_t *)r->levels.at;
    int good = page->level_encoding == PQ_BIT_PACKED ? old_levels(bytes, size, page->values, out, set)
                                                     : tri__parquet_levels(bytes, size, page->values, out, set);
    return good ? TRI_OK : bad_levels(r);
}

/* Moves n values apart, from the last on, so that each stands at its row; the others are empty. */
static void spread(const tri_parquet_reader *r, tri_field_span *field, int64_t rows, int64_t n) {
    const uint8_t *there = (const uint8_t *)r->levels.at;
    const double nothing = NAN;
    tri_field_span empty = {0, 0};
    if (r->as_numbers) memcpy(&empty, &nothing, sizeof empty);
    for (int64_t i = rows - 1; i >= 0 && n <= i; i--) field[i] = there[i] ? field[--n] : empty;
}

/* The levels of a v1 page stand before its values and are packed with them. */
static tri_status take_levels(tri_parquet_reader *r, const page *page, tri_parquet_values *v, int64_t *set) {
    size_t size = ((size_t)page->values + 7) / 8, at = 0;
    if (page->level_encoding != PQ_BIT_PACKED) {
        if (page->level_encoding != PQ_RLE || v->size < 4) return bad_levels(r);
        size = tri__load32(v->bytes), at = 4;
    }
    if (size > v->size - at) return bad_levels(r);
    TRI_TRY(read_levels(r, page, v->bytes + at, size, set));
    v->bytes += at + size, v->size -= at + size, v->begin += at + size;
    return TRI_OK;
}

static tri_status data_page(tri_parquet_reader *r, const page *page, const uint8_t *bytes) {
    const int v2 = page->type == PQ_DATA_PAGE_V2;
    int64_t set = page->values;
    size_t packed = (size_t)page->packed, unpacked = (size_t)page->unpacked;
    tri_parquet_values v = {.encoding = page->encoding, .in_text = tri__parquet_in_place(r->column, page->encoding)};
    if (r->as_numbers) r->text.used = 0; /* bytes of decimals, which became numbers with their page */
    if (page->values < 0 || page->values > r->group->rows - r->rows)
        return tri__column_fail(&r->place, "it has more values than there are rows: the file is damaged; get it again");
    if (v2) {
        uint64_t levels = (uint64_t)page->level_bytes;
        if (page->repeat_bytes || page->level_bytes < 0 || levels > packed || levels > unpacked) return bad_levels(r);
        if (r->column->optional) TRI_TRY(read_levels(r, page, bytes, (size_t)levels, &set));
        bytes += levels, packed -= levels, unpacked -= levels;
    }
    TRI_TRY(unpack(r, page->is_packed && unpacked ? r->codec : TRI_CODEC_NONE, bytes, unpacked ? packed : 0, unpacked,
                   &v));
    if (!v2 && r->column->optional) TRI_TRY(take_levels(r, page, &v, &set));
    v.n = set;
    tri_field_span *field = r->field + r->rows;
    TRI_TRY(tri__parquet_values(r, &v, field));
    if (set < page->values) spread(r, field, page->values, set);
    r->rows += page->values;
    return TRI_OK;
}

static tri_status dictionary_page(tri_parquet_reader *r, const page *page, const uint8_t *bytes) {
    tri_parquet_values v = {.encoding = PQ_PLAIN, .in_text = tri__parquet_in_place(r->column, PQ_PLAIN)};
    if (r->has_dictionary || r->rows || r->column->type == PQ_BOOLEAN)
        return tri__column_fail(&r->place, "a dictionary where none belongs: the file is damaged; get it again");
    if (page->encoding != PQ_PLAIN && page->encoding != PQ_PLAIN_DICTIONARY)
        return tri__column_fail(&r->place, "a dictionary in encoding %d, which is not read; write the file anew",
                                page->encoding);
    size_t least = r->column->values.width ? (size_t)r->column->values.width : 4;
    if (page->values < 0 || (uint64_t)page->values > (uint64_t)page->unpacked / least)
        return tri__column_fail(&r->place,
                                "a dictionary has fewer values than it says: the file is damaged; get it again");
    TRI_TRY(unpack(r, page->unpacked ? r->codec : TRI_CODEC_NONE, bytes, page->unpacked ? (size_t)page->packed : 0,
                   (size_t)page->unpacked, &v));
    r->dictionary = malloc(((size_t)page->values + 1) * sizeof *r->dictionary);
    if (!r->dictionary) return tri__parquet_no_memory(r);
    v.n = page->values;
    TRI_TRY(tri__parquet_values(r, &v, r->dictionary));
    r->n_dictionary = (uint32_t)page->values, r->has_dictionary = 1;
    return TRI_OK;
}

static tri_status decode_pages(tri_parquet_reader *r) {
    while (r->rows < r->group->rows) {
        page page;
        const uint8_t *bytes;
        size_t size;
        if (r->window_from == r->window_end && r->next == r->chunk->begin + r->chunk->bytes)
            return tri__column_fail(&r->place, "it ends after %lld of %lld rows: the file is damaged; get it again",
                                    (long long)r->rows, (long long)r->group->rows);
        TRI_TRY(next_page(r, &page));
        TRI_TRY(look(r, (size_t)page.packed, &bytes, &size));
        TRI_TRY(check_crc(r, &page, bytes));
        if (page.type == PQ_DATA_PAGE || page.type == PQ_DATA_PAGE_V2) TRI_TRY(data_page(r, &page, bytes));
        else if (page.type == PQ_DICTIONARY_PAGE) TRI_TRY(dictionary_page(r, &page, bytes));
        else if (page.type != PQ_INDEX_PAGE)
            return tri__column_fail(&r->place, "a page of kind %d, which is not known: the file is damaged, or of a "
                                    "newer form; write it anew", page.type);
        r->window_from += (size_t)page.packed;
    }
    return TRI_OK;
}

static tri_status decode(tri_parquet_reader *r) {
    enum { FIRST = 4096 };
    r->codec = (tri_codec)codecs[r->chunk->codec].codec;
    r->field = malloc((size_t)r->group->rows * sizeof *r->field);
    if (!r->field || !tri__column_reserve(&r->text, FIRST)) return tri__parquet_no_memory(r);
    return decode_pages(r);
}

/* Takes the memory that the last chunk left, or gives it back; what another thread has given already is freed. */
static void exchange_scratch(tri_parquet *file, tri_parquet_scratch *mine) {
    enum { KEPT = 8 << 20 };
    if (mine->window_room > KEPT || mine->page.room > KEPT) return;
    pthread_mutex_lock(&file->lock);
    tri_parquet_scratch other = file->scratch;
    file->scratch = *mine;
    pthread_mutex_unlock(&file->lock);
    *mine = other;
}

tri_status tri__parquet_load(const tri_table *table, void *state, const tri_column_group *of, int column,
                             int as_numbers, tri_column_text *out) {
    tri_parquet *file = state;
    const tri_parquet_group *group = &file->group[of->of];
    tri_parquet_scratch scratch = {0};
    tri_parquet_reader r = {.place = {table, column, "row group", group->number}, .group = group,
                            .chunk = &group->chunk[column], .column = &file->column[column],
                            .as_numbers = as_numbers, .next = group->chunk[column].begin};
    exchange_scratch(file, &scratch);
    r.window = scratch.window, r.window_room = scratch.window_room, r.page = scratch.page;
    tri_status status = decode(&r);
    scratch = (tri_parquet_scratch){r.window, r.window_room, r.page};
    exchange_scratch(file, &scratch);
    TRI_FREE(scratch.window, scratch.page.at, r.levels.at, r.numbers.at, r.dictionary, r.crc);
    if (as_numbers) free(r.text.at), r.text = (tri_column_buffer){0};
    out->text = r.text.at, out->field = r.field;
    out->bytes = r.text.room + (size_t)group->rows * sizeof *r.field;
    return status;
}
