/* pattern.c - the blocks of a pattern, a block row at a time. */
#include "model/pattern.h"

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t blocks_of(const tri_pattern *p, int64_t tokens) { return (tokens + p->block - 1) / p->block; }

/* Block row i of n. */
typedef struct row {
    const tri_pattern *pattern;
    int layout;
    int64_t n, i;
    uint8_t *present; /* [n] */
} row;

/* Columns [begin, end), as far as they exist. */
static void add(const row *r, int64_t begin, int64_t end) {
    begin = most(begin, 0), end = least(end, r->n);
    if (begin < end) memset(r->present + begin, 1, (size_t)(end - begin));
}

/* Blocks on each side. */
static void add_window(const row *r, int64_t each_side) { add(r, r->i - each_side, r->i + each_side + 1); }

/* Blocks [begin, end) are attended to by all and, where `rows`, attend to all. */
static void add_global(const row *r, int64_t begin, int64_t end, int rows) {
    add(r, begin, end);
    if (rows && r->i >= begin && r->i < end) add(r, 0, r->n);
}

static void add_listed_globals(const row *r, int rows) {
    const tri_pattern_list *from = &r->pattern->global_block_indices, *to = &r->pattern->global_block_end_indices;
    for (int64_t k = 0; k < from->n; k++) add_global(r, from->at[k], to->n ? to->at[k] : from->at[k] + 1, rows);
}

/* num_random_blocks different columns, all sets equally likely (Floyd's algorithm); a row's numbers depend on nothing
 * else. */
static void add_random(const row *r) {
    uint32_t id = tri__random_id("attention_pattern");
    uint8_t *drawn = r->present; /* nothing else is in the row yet */
    for (int64_t k = 0, limit = r->n - r->pattern->num_random_blocks; k < r->pattern->num_random_blocks; k++, limit++) {
        tri_random random = tri__philox((uint32_t)r->pattern->seed, id, (uint32_t)r->layout, (uint32_t)r->i,
                                        (uint32_t)k, 3);
        int64_t column = (int64_t)((uint64_t)random.word[0] * (uint64_t)(limit + 1) >> 32);
        drawn[drawn[column] ? limit : column] = 1;
    }
}

/* A window of so many tokens, rounded up to blocks on each side. */
static void add_tokens(const row *r) { add_window(r, blocks_of(r->pattern, (r->pattern->window + 1) / 2)); }

static void fill_offsets(const row *r) {
    for (int64_t k = 0; k < r->pattern->offsets.n; k++) {
        int64_t column = r->i + r->pattern->offsets.at[k];
        add(r, column, column + 1);
    }
    add_listed_globals(r, r->pattern->horizontal_global_attention);
}

static void fill_strided(const row *r) {
    int64_t stride = blocks_of(r->pattern, r->pattern->stride);
    add_tokens(r);
    for (int64_t column = r->i % stride; column < r->n; column += stride) add(r, column, column + 1);
}

/* Local windows side by side, each represented for all by num_global_blocks of its blocks, which layouts choose
 * differently. A last, shorter window's are at most at its end. */
static void fill_fixed(const row *r) {
    const tri_pattern *p = r->pattern;
    int64_t local = p->num_local_blocks, global = p->num_global_blocks, whole = r->n - r->n % local;
    int64_t first = local - (1 + r->layout % p->num_different_global_patterns) * global;
    add(r, r->i - r->i % local, r->i - r->i % local + local);
    for (int64_t begin = first; begin < whole; begin += local)
        add_global(r, begin, begin + global, p->horizontal_global_attention);
    if (whole == r->n) return;
    int64_t begin = least(whole + first, r->n - global);
    add_global(r, begin, begin + global, p->horizontal_global_attention);
}

/* Local windows of given sizes; the last size repeats. */
static void fill_variable(const row *r) {
    const tri_pattern_list *sizes = &r->pattern->local_window_blocks;
    add_random(r);
    for (int64_t begin = 0, k = 0; begin <= r->i; begin += sizes->at[least(k, sizes->n - 1)], k++)
        if (r->i < begin + sizes->at[least(k, sizes->n - 1)]) add(r, begin, begin + sizes->at[least(k, sizes->n - 1)]);
    add_listed_globals(r, r->pattern->horizontal_global_attention);
}

void tri__pattern_row(const tri_pattern *p, int layout, int64_t n, int64_t i, uint8_t *present) {
    const row r = {p, layout, n, i, present};
    memset(present, 0, (size_t)n);
    switch ((tri_pattern_mode)p->mode) {
    case TRI_PATTERN_WINDOW: add_tokens(&r); break;
    case TRI_PATTERN_LONGFORMER:
        add_tokens(&r);
        add_global(&r, 0, blocks_of(p, p->global_tokens), 1);
        break;
    case TRI_PATTERN_STRIDED: fill_strided(&r); break;
    case TRI_PATTERN_OFFSETS: fill_offsets(&r); break;
    case TRI_PATTERN_FIXED: fill_fixed(&r); break;
    case TRI_PATTERN_VARIABLE: fill_variable(&r); break;
    case TRI_PATTERN_BIGBIRD:
        add_random(&r);
        add_window(&r, p->num_sliding_window_blocks / 2);
        add_global(&r, 0, p->num_global_blocks, 1);
        break;
    case TRI_PATTERN_BSLONGFORMER:
        add_window(&r, p->num_sliding_window_blocks / 2);
        add_listed_globals(&r, 1);
        break;
    case TRI_PATTERN_DENSE: case TRI_PATTERN_MODES: add(&r, 0, n); break;
    }
}

int tri__pattern_is_random(const tri_pattern *pattern) { return pattern->num_random_blocks > 0; }

int64_t tri__pattern_rows(const tri_pattern *pattern, int64_t max_len) { return blocks_of(pattern, max_len); }

int tri__pattern_layouts(const tri_pattern *pattern, int64_t heads) {
    if (!pattern->different_layout_per_head) return 1;
    if (tri__pattern_is_random(pattern)) return (int)heads;
    return pattern->mode == TRI_PATTERN_FIXED ? (int)least(heads, pattern->num_different_global_patterns) : 1;
}

static tri_status check_row(const tri_pattern *p, const char *origin, int64_t i, const uint8_t *present) {
    for (int64_t j = 0; j <= i; j++)
        if (present[j]) return TRI_OK;
    return tri__fail(TRI_USAGE, "%s: block row %lld (queries %lld to %lld) has no block of keys up to its own, so a "
                     "text that ends there has queries without keys; add its own block, a window, or a global block "
                     "before it", origin, (long long)i, (long long)(i * p->block), (long long)((i + 1) * p->block - 1));
}

tri_status tri__pattern_check(const tri_pattern *p, const char *origin, int64_t max_len, int64_t heads) {
    if (p->mode == TRI_PATTERN_DENSE) return TRI_OK;
    int64_t n = tri__pattern_rows(p, max_len);
    const struct { const char *key; int64_t blocks; } rows[] = {{"num_random_blocks", p->num_random_blocks},
                                                                {"num_global_blocks", p->num_global_blocks}};
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
        if (rows[k].blocks > n)
            return tri__fail(TRI_USAGE, "%s: %s is %lld, but max_sen_len %lld has only %lld blocks of %lld tokens",
                             origin, rows[k].key, (long long)rows[k].blocks, (long long)max_len, (long long)n,
                             (long long)p->block);
    TRI_OWNED(tri__free_at) uint8_t *present = malloc((size_t)n);
    if (!present) return tri__fail(TRI_RESOURCE, "out of memory for an attention pattern");
    for (int layout = 0; layout < tri__pattern_layouts(p, heads); layout++)
        for (int64_t i = 0; i < n; i++) {
            tri__pattern_row(p, layout, n, i, present);
            TRI_TRY(check_row(p, origin, i, present));
        }
    return TRI_OK;
}

/* Tokens of block i, the last of which may be shorter. */
static int64_t tokens_in(const tri_pattern *p, int64_t max_len, int64_t i) {
    return least(p->block, max_len - i * p->block);
}

/* The block rows of one layout. */
typedef struct layout {
    const tri_pattern *pattern;
    int64_t max_len, n;
    int number;
    uint8_t *present; /* [n] of one row */
} layout;

/* Writes the lists of key blocks at `word`, or only counts (NULL); returns how many blocks are present. */
static int64_t list_keys(const layout *l, int32_t *word) {
    int64_t count = 0;
    for (int64_t i = 0; i < l->n; i++) {
        tri__pattern_row(l->pattern, l->number, l->n, i, l->present);
        if (word) word[i] = (int32_t)count;
        for (int64_t j = 0; j < l->n; j++) {
            if (l->present[j] && word) word[l->n + 1 + count] = (int32_t)j;
            count += l->present[j];
        }
    }
    if (word) word[l->n] = (int32_t)count;
    return count;
}

/* The transpose of lists: rows are visited in order, so that columns' lists are ascending. */
static void list_queries(int64_t n, const int32_t *keys, int32_t *word) {
    const int32_t *of = keys + n + 1;
    int32_t *begin = word + 1, *to = word + n + 1; /* begin[j]: where column j's next query block goes */
    memset(word, 0, (size_t)(n + 1) * sizeof *word);
    for (int32_t k = 0; k < keys[n]; k++)
        if (of[k] + 2 <= n) word[of[k] + 2]++;
    for (int64_t j = 2; j <= n; j++) word[j] += word[j - 1];
    for (int32_t i = 0; i < n; i++)
        for (int32_t k = keys[i]; k < keys[i + 1]; k++) to[begin[of[k]]++] = i;
}

/* Pairs of query and key in a sequence of max_len; *first: keys of its first query. */
static double pairs_of(const layout *l, const int32_t *keys, double *first) {
    double pairs = 0;
    for (int64_t i = 0; i < l->n; i++) {
        double tokens = 0;
        for (int32_t k = keys[i]; k < keys[i + 1]; k++)
            tokens += (double)tokens_in(l->pattern, l->max_len, keys[l->n + 1 + k]);
        pairs += tokens * (double)tokens_in(l->pattern, l->max_len, i);
        if (i == 0) *first += tokens;
    }
    return pairs;
}

tri_blocks tri__pattern_blocks(tri_arena *arena, const tri_pattern *p, int64_t max_len, int64_t heads, int64_t window) {
    tri_blocks out = {.block = p->block, .window = window};
    if (p->mode == TRI_PATTERN_DENSE) return out;
    int layouts = tri__pattern_layouts(p, heads);
    int64_t total = 0, at = 2 + layouts;
    layout l = {.pattern = p, .max_len = max_len, .n = tri__pattern_rows(p, max_len)};
    l.present = tri__arena_alloc(arena, (size_t)l.n);
    for (l.number = 0; l.number < layouts; l.number++) total += list_keys(&l, NULL);
    if (total == layouts * l.n * l.n && (!window || max_len <= window + 1)) return out;
    out.n = at + layouts * 2 * (l.n + 1) + 2 * total;
    out.word = tri__arena_alloc(arena, (size_t)out.n * sizeof *out.word);
    out.word[0] = (int32_t)l.n, out.word[1] = layouts;
    for (l.number = 0; l.number < layouts; l.number++) {
        int32_t *keys = out.word + at;
        out.word[2 + l.number] = (int32_t)at;
        int64_t lists = l.n + 1 + list_keys(&l, keys);
        list_queries(l.n, keys, keys + lists);
        at += 2 * lists;
        out.keys += pairs_of(&l, keys, &out.first_keys) / (double)max_len / layouts;
    }
    out.first_keys /= layouts;
    if (window && window < max_len) { /* exactly */
        out.keys = (double)(2 * window + 1) - (double)window * (double)(window + 1) / (double)max_len;
        out.first_keys = (double)(window + 1);
    }
    return out;
}
