/* parse.c - reads back what print.c writes, line by line; every line's first word says what it is. Numbers are bounded
 * so that sums and products of sizes cannot overflow. The numbers at the beginning of instructions are ignored, so that
 * lines can be removed, inserted and moved. */
#include "program/attr.h"
#include "program/builder.h"
#include "program/text.h"

#include <errno.h>
#include <float.h>
#include <limits.h>

enum { NAME_BYTES = 255, COUNT_MAX = INT_MAX }; /* of a name; of rows, ranks, microbatches */
static const int64_t SIZE_LIMIT = (int64_t)1 << 59;  /* bytes or elements: all classes together stay below 2^63 */
static const double SQUARES_LIMIT = 1e30;

/* Slots or units by their names: open addressing. */
typedef struct names {
    struct named {
        const char *name; /* NULL: free */
        int index;
    } *at;                /* [cap] */
    int n, cap;           /* cap: a power of 2, more than n */
} names;

typedef struct parser {
    tri_builder build; /* of the program being read */
    names slots, units;
    tri_parsed *parsed;
    int n_parsed, cap_parsed;
    const char *name;
    int line;
    char *rest; /* the rest of the line being read */
} parser;

/* The word is shortened, and control characters are removed. */
static tri_status bad(const parser *p, const char *what, const char *word) {
    char shown[64];
    size_t n = 0;
    for (; word && word[n] && n < sizeof shown - 1; n++) {
        unsigned char byte = (unsigned char)word[n];
        shown[n] = byte < ' ' || byte > '~' ? '?' : (char)byte;
    }
    shown[n] = 0;
    return tri__fail(TRI_DATA, "%s:%d: %s: \"%s\"", p->name, p->line, what, shown);
}

/* The entry of a name, or the free one where it belongs. */
static struct named *place_of(const names *all, const char *name) {
    size_t mask = (size_t)all->cap - 1, at = (size_t)tri__hash64(0, name, strlen(name)) & mask;
    while (all->at[at].name && strcmp(all->at[at].name, name) != 0) at = (at + 1) & mask;
    return &all->at[at];
}

static int find_name(const names *all, const char *name) {
    const struct named *found = all->cap ? place_of(all, name) : NULL;
    return found && found->name ? found->index : -1;
}

static void add_name(tri_arena *arena, names *all, const char *name, int index) {
    if (2 * (all->n + 1) > all->cap) {
        names more = {.cap = all->cap ? 2 * all->cap : 64, .n = all->n};
        more.at = tri__arena_alloc(arena, (size_t)more.cap * sizeof *more.at);
        for (int i = 0; i < all->cap; i++)
            if (all->at[i].name) *place_of(&more, all->at[i].name) = all->at[i];
        *all = more;
    }
    *place_of(all, name) = (struct named){name, index};
    all->n++;
}

#define BLANK " \t\r"

/* The next word of the line, cut out in place; NULL at its end. */
static char *next_word(parser *p) {
    p->rest += strspn(p->rest, BLANK);
    if (!*p->rest) return NULL;
    char *word = p->rest;
    p->rest += strcspn(p->rest, BLANK);
    if (*p->rest) *p->rest++ = 0;
    return word;
}

/* Digits of a number in 0..max; returns where they end, NULL when there are none or the number is too large. */
static const char *read_whole(const char *text, int64_t max, int64_t *out) {
    if (*text < '0' || *text > '9') return NULL;
    char *end;
    errno = 0;
    *out = strtoll(text, &end, 10);
    return errno || *out > max ? NULL : end;
}

static tri_status parse_whole(parser *p, const char *text, int64_t max, int64_t *out) {
    const char *end = read_whole(text, max, out);
    return end && !*end ? TRI_OK : bad(p, "not a whole number, or too large", text);
}

/* The value of the next word, "name=value". */
static tri_status next_value(parser *p, const char *name, const char **value) {
    char *word = next_word(p);
    size_t length = strlen(name);
    if (!word || strncmp(word, name, length) != 0 || word[length] != '=')
        return bad(p, "expected a value named", name);
    *value = word + length + 1;
    return TRI_OK;
}

static tri_status next_whole(parser *p, const char *name, int64_t max, int64_t *out) {
    const char *value = "";
    TRI_TRY(next_value(p, name, &value));
    return parse_whole(p, value, max, out);
}

static tri_status parse_real(parser *p, const char *text, double *out) {
    char *end;
    *out = strtod(text, &end);
    return end == text || *end || !isfinite(*out) ? bad(p, "not a number", text) : TRI_OK;
}

static tri_status parse_share(parser *p, const char *text, double *out) {
    TRI_TRY(parse_real(p, text, out));
    return *out < 0 || *out > 1 ? bad(p, "not a share of all steps", text) : TRI_OK;
}

/* "/2" or "*5" behind a count, if `text` begins with `sign`; NULL: not a whole number above 0. */
static const char *read_factor(const char *text, char sign, int *out) {
    int64_t value = 0;
    if (!text || *text != sign) return text;
    text = read_whole(text + 1, COUNT_MAX, &value);
    *out = (int)value;
    return value < 1 ? NULL : text;
}

/* "[T0/2+1,64]", "[N*5,64]"; at most SIZE_LIMIT bytes of any element type. */
static tri_status parse_dims(parser *p, const char *text, tri_rows *rows, int64_t *cols) {
    static const char expected[] = "expected [rows,cols] of a size that memory could have";
    *rows = (tri_rows){0};
    if (*text != '[') return bad(p, expected, text);
    const char *at = text + 1;
    for (int sym = 1; sym < TRI_SYM_COUNT; sym++) {
        size_t length = strlen(tri__sym_name((tri_sym)sym));
        if (strncmp(text + 1, tri__sym_name((tri_sym)sym), length) != 0) continue;
        rows->sym = (tri_sym)sym;
        at = text + 1 + length;
    }
    if (rows->sym != TRI_SYM_NONE) at = read_factor(read_factor(at, '*', &rows->mul), '/', &rows->div);
    if (at && (rows->sym == TRI_SYM_NONE || *at == '+')) at = read_whole(at + (*at == '+'), COUNT_MAX, &rows->add);
    if (!at || *at != ',') return bad(p, expected, text);
    at = read_whole(at + 1, SIZE_LIMIT, cols);
    int64_t most = rows->sym == TRI_SYM_NONE ? 0 : COUNT_MAX * (int64_t)(rows->mul ? rows->mul : 1), bytes;
    if (!at || strcmp(at, "]") != 0 || __builtin_mul_overflow(most + rows->add, *cols, &bytes) ||
        bytes > SIZE_LIMIT / (int64_t)sizeof(double))
        return bad(p, expected, text);
    return TRI_OK;
}

/* A name that print.c writes as one word everywhere. */
static tri_status check_name(const parser *p, const char *name) {
    if (strlen(name) > NAME_BYTES || strpbrk(name, "[=") || strchr("+_<@", *name)) return bad(p, "not a name", name);
    return TRI_OK;
}

/* Records the line and the name of a new slot; names are unique. */
static tri_status note_slot(parser *p, int slot) {
    tri_parsed *of = &p->parsed[p->n_parsed - 1];
    const char *name = p->build.program->slot[slot].name;
    int known = find_name(&p->slots, name), n = slot;
    if (known >= 0)
        return tri__fail(TRI_DATA, "%s:%d: slot %s already exists, at line %d", p->name, p->line, name,
                         of->slot_line[known]);
    add_name(p->build.arena, &p->slots, name, slot);
    *TRI_PUSH(p->build.arena, of->slot_line, n, of->cap_slots) = p->line;
    return TRI_OK;
}

static int find_mem(const char *word) {
    for (int mem = 0; mem < TRI_MEM_COUNT; mem++)
        if (strcmp(word, tri__mem_name((tri_mem)mem)) == 0) return mem;
    return -1;
}

static tri_status parse_slot(parser *p) {
    tri_program *program = p->build.program;
    char *name = next_word(p), *mem_word = next_word(p), *dtype_word = next_word(p), *dims = next_word(p),
         *unit = next_word(p);
    if (!dims) return bad(p, "expected: slot name class dtype [rows,cols] @offset unit", name);
    TRI_TRY(check_name(p, name));
    int mem = find_mem(mem_word), dtype = tri__dtype_find(dtype_word);
    if (mem < 0) return bad(p, "unknown memory class", mem_word);
    if (dtype < 0) return bad(p, "unknown element type", dtype_word);
    tri_rows rows;
    int64_t cols = 0, offset = -1;
    TRI_TRY(parse_dims(p, dims, &rows, &cols));
    if (unit && *unit == '@') {
        TRI_TRY(parse_whole(p, unit + 1, SIZE_LIMIT, &offset));
        unit = next_word(p);
    }
    p->build.unit = unit ? find_name(&p->units, unit) : -1;
    if (unit && p->build.unit < 0) return bad(p, "unknown unit", unit);
    int slot = tri__build_slot(&p->build, (tri_mem)mem, (tri_dtype)dtype, rows, cols, "%s", name);
    program->slot[slot].offset = offset;
    return note_slot(p, slot);
}

static tri_status parse_view(parser *p) {
    char *name = next_word(p), *of = next_word(p), *parent_word = next_word(p), *at = next_word(p),
         *dims = next_word(p);
    if (!dims || strcmp(of, "of") != 0 || *at != '+')
        return bad(p, "expected: view name of slot +element [rows,cols]", name);
    TRI_TRY(check_name(p, name));
    int parent = find_name(&p->slots, parent_word);
    if (parent < 0) return bad(p, "unknown slot", parent_word);
    tri_rows rows;
    int64_t cols = 0, first = 0;
    TRI_TRY(parse_dims(p, dims, &rows, &cols));
    if (rows.sym != TRI_SYM_NONE && p->build.program->slot[parent].rows.sym != TRI_SYM_NONE)
        return bad(p, "a view of counted rows is of a slot with a constant number of rows", dims);
    TRI_TRY(parse_whole(p, at + 1, SIZE_LIMIT, &first));
    return note_slot(p, tri__build_rows_view(&p->build, parent, first, rows, cols, "%s", name));
}

static int find_axis(const char *word) {
    for (int axis = 0; axis < TRI_AXIS_COUNT; axis++)
        if (strcmp(word, tri__axis_name((tri_axis)axis)) == 0) return axis;
    return -1;
}

/* "pp+dp", "full+turn": a set of bits by their names; `what` an unknown one is not. */
static tri_status parse_set(parser *p, char *text, int (*find)(const char *word), const char *what, uint32_t *set) {
    char *save = NULL;
    for (char *word = strtok_r(text, "+", &save); word; word = strtok_r(NULL, "+", &save)) {
        int bit = find(word);
        if (bit < 0) return bad(p, what, word);
        *set |= 1u << bit;
    }
    return TRI_OK;
}

static tri_status parse_gates(parser *p, char *text, uint32_t *gates) {
    TRI_TRY(parse_set(p, text, tri__gate_find, "not a kind of step", gates));
    return *gates ? TRI_OK : bad(p, "expected kinds of steps after", "gates=");
}

static tri_status parse_layer(parser *p, const char *name, int sign, tri_instr *instr) {
    int layer = tri__layer_find(p->build.program, name);
    if (layer < 0) return bad(p, "not a layer that steps leave out", name);
    if (instr->layer) return bad(p, "a second layer, where one is expected", name);
    instr->layer = sign * (layer + 1);
    return TRI_OK;
}

static tri_status parse_attr(parser *p, char *word, tri_instr *instr) {
    tri_attr *attr = &instr->attr;
    char *value = strchr(word, '=');
    *value++ = 0;
    if (strcmp(word, "gates") == 0) return parse_gates(p, value, &instr->gates);
    if (strcmp(word, "when") == 0) return parse_layer(p, value, 1, instr);
    if (strcmp(word, "unless") == 0) return parse_layer(p, value, -1, instr);
    for (int i = 0; i < TRI_ATTR_ROWS; i++) {
        const tri_attr_row *row = &tri__attr_rows[i];
        if (strcmp(row->name, word) != 0) continue;
        char *at = (char *)attr + row->offset;
        int64_t whole = 0;
        double real = 0;
        switch (row->kind) {
        case TRI_ATTR_REAL:
            TRI_TRY(parse_real(p, value, &real));
            if (fabs(real) > FLT_MAX) return bad(p, "too large a number", value);
            *(float *)at = (float)real;
            break;
        case TRI_ATTR_INT: case TRI_ATTR_ID:
            TRI_TRY(parse_whole(p, value, row->kind == TRI_ATTR_ID ? UINT32_MAX : INT32_MAX, &whole));
            *(uint32_t *)at = (uint32_t)whole;
            break;
        case TRI_ATTR_AXES:
            TRI_TRY(parse_set(p, value, find_axis, "not an axis of the mesh", (uint32_t *)at));
            break;
        }
        return TRI_OK;
    }
    return bad(p, "unknown attribute", word);
}

static tri_status parse_operands(parser *p, tri_instr *instr) {
    const tri_op_row *row = tri__instr_row(instr);
    for (int k = 0; k < row->n_args; k++) {
        if (!row->arg[k].access) continue;
        char *word = next_word(p);
        if (word && strcmp(word, "<-") == 0) word = next_word(p);
        if (!word) return bad(p, "operand is missing", row->arg[k].name);
        if (strcmp(word, "_") == 0) continue;
        if (*word == '+') instr->acc |= (uint16_t)(1u << k), word++;
        word[strcspn(word, "[")] = 0;
        instr->slot[k] = find_name(&p->slots, word);
        if (instr->slot[k] < 0) return bad(p, "unknown slot", word);
    }
    return TRI_OK;
}

/* Words of an instruction that are followed by a number. */
typedef struct numbered_word {
    const char *word;
    int64_t max;
} numbered_word;
enum { WORD_MB, WORD_LANE, WORD_AFTER, WORDS };
static const numbered_word numbered[WORDS] = {{"mb", INT16_MAX}, {"lane", TRI_LANES - 1}, {"after", INT32_MAX}};

static const numbered_word *find_number(const char *word) {
    for (int i = 0; i < WORDS; i++)
        if (strcmp(word, numbered[i].word) == 0) return &numbered[i];
    return NULL;
}

static tri_status parse_number(parser *p, const numbered_word *which, tri_instr *instr) {
    char *text = next_word(p);
    int64_t number = 0;
    if (!text) return bad(p, "expected a number after", which->word);
    TRI_TRY(parse_whole(p, text, which->max, &number));
    if (which == &numbered[WORD_MB]) instr->mb = (int16_t)number;
    if (which == &numbered[WORD_LANE]) instr->lane = (int32_t)number;
    if (which == &numbered[WORD_AFTER]) instr->await = (int32_t)number;
    return TRI_OK;
}

static tri_status parse_instr(parser *p) {
    char *name = next_word(p);
    int variant = name ? tri__variant_find(name) : -1;
    if (variant < 0) return bad(p, "unknown operation", name);
    tri_attr attr = {0};
    tri__variant_set(variant, &attr);
    static const int none[TRI_MAX_ARGS] = TRI_NO_SLOTS;
    p->build.unit = p->build.mb = -1;
    tri_parsed *of = &p->parsed[p->n_parsed - 1];
    int n = p->build.program->n_instrs;
    *TRI_PUSH(p->build.arena, of->instr_line, n, of->cap_instrs) = p->line;
    tri_instr *instr = tri__build(&p->build, tri__variant_row(variant)->op, none, attr);
    TRI_TRY(parse_operands(p, instr));
    for (char *word; (word = next_word(p));) {
        if (strchr(word, '=')) {
            TRI_TRY(parse_attr(p, word, instr));
        } else if (find_number(word)) {
            TRI_TRY(parse_number(p, find_number(word), instr));
        } else {
            instr->unit = (int16_t)find_name(&p->units, word);
            if (instr->unit < 0) return bad(p, "unknown unit", word);
        }
    }
    return TRI_OK;
}

/* A size that is left out where it is 1. */
static tri_status parse_factor(parser *p, const char *name, int64_t *value) {
    size_t length = strlen(name);
    const char *next = p->rest + strspn(p->rest, BLANK);
    *value = 1;
    return strncmp(next, name, length) == 0 && next[length] == '=' ? next_whole(p, name, COUNT_MAX, value) : TRI_OK;
}

static tri_status parse_mesh(parser *p) {
    static const char *const names[] = {"pp", "tp", "dp", "rank", "microbatches"};
    int64_t value[5] = {0};
    for (int i = 0; i < 5; i++) TRI_TRY(next_whole(p, names[i], COUNT_MAX, &value[i]));
    int64_t cp, ep;
    TRI_TRY(parse_factor(p, "cp", &cp));
    TRI_TRY(parse_factor(p, "ep", &ep));
    if (ep < 1 || value[2] % ep || (cp > 1 && ep > 1)) return bad(p, "not a size of a mesh", "ep");
    if (cp < 1 || value[2] > COUNT_MAX / cp) return bad(p, "not a size of a mesh", "cp");
    p->build.program->mesh = (tri_mesh){
        .pp = (int)value[0], .tp = (int)value[1], .dp = (int)(value[2] * cp), .cp = cp > 1 ? (int)cp : 0,
        .ep = ep > 1 ? (int)ep : 0};
    p->build.program->rank = (int)value[3];
    p->build.program->n_mb = (int)value[4];
    p->rest += strspn(p->rest, BLANK);
    if (!*p->rest) return TRI_OK;
    const char *order = "";
    TRI_TRY(next_value(p, "order", &order));
    return strcmp(order, "auto") == 0 || tri__mesh_set_order(&p->build.program->mesh, order, 1) != TRI_OK
               ? bad(p, "not an order of the axes", order)
               : TRI_OK;
}

static tri_status parse_max(parser *p) {
    static const char *const squares[] = {"Q0", "Q1"};
    tri_counts *max = &p->build.program->max;
    for (int sym = TRI_SYM_T0; sym <= TRI_SYM_N; sym++)
        TRI_TRY(next_whole(p, tri__sym_name((tri_sym)sym), COUNT_MAX, &max->of[sym]));
    for (int i = 0; i < 2; i++) {
        const char *value = "";
        TRI_TRY(next_value(p, squares[i], &value));
        TRI_TRY(parse_real(p, value, &max->squares[TRI_SYM_T0 + i]));
        if (max->squares[TRI_SYM_T0 + i] < 0 || max->squares[TRI_SYM_T0 + i] > SQUARES_LIMIT)
            return bad(p, "not a sum of squares of lengths", value);
    }
    for (int sym = TRI_SYM_W0; sym <= TRI_SYM_X1; sym += 2) { /* pairs that may be left out */
        p->rest += strspn(p->rest, BLANK);
        if (strncmp(p->rest, tri__sym_name((tri_sym)sym), 2) != 0) continue;
        for (int i = sym; i <= sym + 1; i++)
            TRI_TRY(next_whole(p, tri__sym_name((tri_sym)i), COUNT_MAX, &max->of[i]));
    }
    return TRI_OK;
}

/* "full=0.2 turn=0.01 ...": the kinds of steps and their shares. */
static tri_status parse_kinds(parser *p) {
    tri_program *program = p->build.program;
    for (char *word; (word = next_word(p));) {
        char *value = strchr(word, '=');
        if (value) *value++ = 0;
        int gate = tri__gate_find(word);
        if (!value || gate < 0) return bad(p, "expected a kind of step and its share of all steps", word);
        TRI_TRY(parse_share(p, value, &program->share[gate]));
        program->gates |= 1u << gate;
    }
    return TRI_OK;
}

/* "primary.layer.3 keep=0.8": a layer that steps leave out. */
static tri_status parse_layer_gate(parser *p) {
    tri_program *program = p->build.program;
    char *name = next_word(p);
    const char *value = "";
    double keep = 0;
    if (!name) return bad(p, "expected a name after", "layer");
    TRI_TRY(check_name(p, name));
    TRI_TRY(next_value(p, "keep", &value));
    TRI_TRY(parse_share(p, value, &keep));
    if (tri__layer_find(program, name) >= 0) return bad(p, "a layer that already has a gate", name);
    if (program->n_layers == TRI_MAX_LAYERS) return bad(p, "too many layers with gates", name);
    *TRI_PUSH(p->build.arena, program->layer, program->n_layers, program->cap_layers) =
        (tri_layer_gate){tri__arena_copy(p->build.arena, name), keep};
    return TRI_OK;
}

static tri_status parse_bytes(parser *p) {
    for (char *word; (word = next_word(p));) {
        char *value = strchr(word, '=');
        if (value) *value++ = 0;
        int mem = find_mem(word);
        if (!value || mem < 0) return bad(p, "expected a class of memory and its bytes", word);
        TRI_TRY(parse_whole(p, value, SIZE_LIMIT, &p->build.program->bytes[mem]));
    }
    return TRI_OK;
}

static tri_status parse_offload(parser *p) {
    char *word = next_word(p);
    int mem = word ? find_mem(word) : -1;
    if (mem < 0) return bad(p, "unknown memory class", word);
    p->build.program->offload |= 1u << mem;
    return TRI_OK;
}

static tri_status parse_unit(parser *p) {
    char *name = next_word(p);
    if (!name) return bad(p, "expected a name after", "unit");
    TRI_TRY(check_name(p, name));
    if (find_number(name) || p->build.program->n_units == INT16_MAX)
        return bad(p, "not a name, or too many units", name);
    if (find_name(&p->units, name) >= 0) return bad(p, "a unit that already exists", name);
    int unit = tri__build_unit(&p->build, name);
    add_name(p->build.arena, &p->units, p->build.program->unit[unit], unit);
    char *more = next_word(p);
    return more ? bad(p, "expected: unit name", more) : TRI_OK;
}

/* The line that a program begins with. */
static tri_status parse_title(parser *p) {
    p->rest += strspn(p->rest, BLANK);
    size_t length = strlen(p->rest);
    while (length && strchr(BLANK, p->rest[length - 1])) p->rest[--length] = 0;
    p->build.program = tri__program_new(p->build.arena, p->rest);
    p->slots = p->units = (names){0};
    *TRI_PUSH(p->build.arena, p->parsed, p->n_parsed, p->cap_parsed) =
        (tri_parsed){.program = p->build.program, .line = p->line};
    return TRI_OK;
}

static tri_status parse_line(parser *p) {
    static const struct {
        const char *word;
        tri_status (*parse)(parser *);
    } kinds[] = {{"program", parse_title},   {"mesh", parse_mesh},        {"max", parse_max},
                 {"kinds", parse_kinds},     {"layer", parse_layer_gate}, {"bytes", parse_bytes},
                 {"offload", parse_offload}, {"unit", parse_unit},        {"slot", parse_slot},
                 {"view", parse_view}};
    char *word = next_word(p);
    if (!word || *word == '#') return TRI_OK;
    if (!p->n_parsed && strcmp(word, "program") != 0)
        return bad(p, "not a printed program: it would begin with a line \"program ...\", not with", word);
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (strcmp(word, kinds[i].word) == 0) return kinds[i].parse(p);
    if (*word >= '0' && *word <= '9') return parse_instr(p);
    return bad(p, "unknown line", word);
}

tri_status tri__programs_parse(tri_arena *arena, const char *name, const char *text, tri_parsed **out, int *n) {
    parser p = {.build = {.arena = arena, .unit = -1, .mb = -1}, .name = name};
    char *line = tri__arena_copy(arena, text);
    for (char *end; *line; line = end) {
        end = line + strcspn(line, "\n");
        if (*end) *end++ = 0;
        p.line++;
        p.rest = line;
        TRI_TRY(parse_line(&p));
    }
    *out = p.parsed, *n = p.n_parsed;
    return *n ? TRI_OK : tri__fail(TRI_DATA, "%s: has no program", name);
}

tri_status tri__program_parse(tri_arena *arena, const char *name, const char *text, tri_program **out) {
    tri_parsed *parsed;
    int n;
    TRI_TRY(tri__programs_parse(arena, name, text, &parsed, &n));
    if (n > 1) return tri__fail(TRI_DATA, "%s:%d: a second program, where one is expected", name, parsed[1].line);
    *out = parsed->program;
    return TRI_OK;
}
