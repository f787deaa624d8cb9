/* parse.c - reads back what print.c writes, line by line; every line's first word says what it is. */
#include "program/attr.h"
#include "program/builder.h"
#include "program/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct parser {
    tri_builder build;
    const char *name;
    int line;
    char *rest; /* of the line being read */
} parser;

static tri_status bad(const parser *p, const char *what, const char *word) {
    return tri__fail(TRI_DATA, "%s:%d: %s: \"%s\"", p->name, p->line, what, word ? word : "");
}

/* The next word of the line, cut out in place; NULL at its end. */
static char *next_word(parser *p) {
    p->rest += strspn(p->rest, " ");
    if (!*p->rest) return NULL;
    char *word = p->rest;
    p->rest += strcspn(p->rest, " ");
    if (*p->rest) *p->rest++ = 0;
    return word;
}

/* "name=number" */
static tri_status parse_number(parser *p, const char *name, double *out) {
    char *word = next_word(p), *end;
    size_t length = strlen(name);
    if (!word || strncmp(word, name, length) != 0 || word[length] != '=') return bad(p, "expected a number named", name);
    *out = strtod(word + length + 1, &end);
    return *end ? bad(p, "not a number", word) : TRI_OK;
}

/* "[T0+1,64]" */
static tri_status parse_dims(parser *p, const char *text, tri_rows *rows, int64_t *cols) {
    *rows = (tri_rows){0};
    if (!text || *text++ != '[') return bad(p, "expected [rows,cols]", text);
    char *end = (char *)text;
    for (int sym = 1; sym < TRI_SYM_COUNT; sym++) {
        size_t length = strlen(tri__sym_name((tri_sym)sym));
        if (strncmp(text, tri__sym_name((tri_sym)sym), length) != 0) continue;
        rows->sym = (tri_sym)sym;
        end = (char *)text + length;
    }
    if (rows->sym == TRI_SYM_NONE || *end == '+') rows->add = strtoll(rows->sym == TRI_SYM_NONE ? text : end + 1, &end, 10);
    if (*end != ',') return bad(p, "expected [rows,cols]", text);
    *cols = strtoll(end + 1, &end, 10);
    return strcmp(end, "]") == 0 ? TRI_OK : bad(p, "expected [rows,cols]", text);
}

static int find_unit(const tri_program *program, const char *name) {
    for (int i = 0; i < program->n_units; i++)
        if (strcmp(program->unit[i], name) == 0) return i;
    return -1;
}

static tri_status parse_slot(parser *p) {
    tri_program *program = p->build.program;
    char *name = next_word(p), *mem_word = next_word(p), *dtype_word = next_word(p), *dims = next_word(p), *at = next_word(p);
    if (!at || *at != '@') return bad(p, "expected: slot name class dtype [rows,cols] @offset unit", name);
    int mem = 0, dtype = tri__dtype_find(dtype_word);
    while (mem < TRI_MEM_COUNT && strcmp(mem_word, tri__mem_name((tri_mem)mem)) != 0) mem++;
    if (mem == TRI_MEM_COUNT) return bad(p, "unknown memory class", mem_word);
    if (dtype < 0) return bad(p, "unknown element type", dtype_word);
    tri_rows rows;
    int64_t cols;
    TRI_TRY(parse_dims(p, dims, &rows, &cols));
    char *unit = next_word(p);
    p->build.unit = unit ? find_unit(program, unit) : -1;
    if (unit && p->build.unit < 0) return bad(p, "unknown unit", unit);
    int slot = tri__build_slot(&p->build, (tri_mem)mem, (tri_dtype)dtype, rows, cols, "%s", name);
    program->slot[slot].offset = strtoll(at + 1, NULL, 10);
    return TRI_OK;
}

static tri_status parse_view(parser *p) {
    char *name = next_word(p), *of = next_word(p), *parent_word = next_word(p), *at = next_word(p), *dims = next_word(p);
    if (!dims || strcmp(of, "of") != 0 || *at != '+') return bad(p, "expected: view name of slot +element [rows,cols]", name);
    int parent = tri__program_find(p->build.program, parent_word);
    if (parent < 0) return bad(p, "unknown slot", parent_word);
    tri_rows rows;
    int64_t cols;
    TRI_TRY(parse_dims(p, dims, &rows, &cols));
    tri__build_view(&p->build, parent, strtoll(at + 1, NULL, 10), rows.add, cols, "%s", name);
    return TRI_OK;
}

static tri_status parse_attr(parser *p, char *word, tri_attr *attr) {
    char *value = strchr(word, '=');
    *value++ = 0;
    for (int i = 0; i < TRI_ATTR_ROWS; i++) {
        const tri_attr_row *row = &tri__attr_rows[i];
        if (strcmp(row->name, word) != 0) continue;
        char *at = (char *)attr + row->offset;
        switch (row->kind) {
        case TRI_ATTR_REAL: *(float *)at = strtof(value, NULL); break;
        case TRI_ATTR_INT: *(int32_t *)at = (int32_t)strtol(value, NULL, 10); break;
        case TRI_ATTR_ID: *(uint32_t *)at = (uint32_t)strtoul(value, NULL, 10); break;
        }
        return TRI_OK;
    }
    return bad(p, "unknown attribute", word);
}

static tri_status parse_operands(parser *p, tri_instr *instr) {
    const tri_op_row *row = tri__op_row(instr->op);
    for (int k = 0; k < row->n_args; k++) {
        char *word = next_word(p);
        if (word && strcmp(word, "<-") == 0) word = next_word(p);
        if (!word) return bad(p, "operand is missing", row->arg[k].name);
        if (strcmp(word, "_") == 0) continue;
        if (*word == '+') instr->acc |= (uint16_t)(1u << k), word++;
        word[strcspn(word, "[")] = 0;
        instr->slot[k] = tri__program_find(p->build.program, word);
        if (instr->slot[k] < 0) return bad(p, "unknown slot", word);
    }
    return TRI_OK;
}

static tri_status parse_instr(parser *p) {
    char *name = next_word(p);
    int op = name ? tri__op_find(name) : -1;
    if (op < 0) return bad(p, "unknown operation", name);
    const int none[TRI_MAX_ARGS] = {-1, -1, -1, -1, -1, -1, -1, -1};
    p->build.unit = p->build.mb = -1;
    tri_instr *instr = tri__build(&p->build, (tri_op)op, none, (tri_attr){0});
    TRI_TRY(parse_operands(p, instr));
    for (char *word; (word = next_word(p));) {
        if (strchr(word, '=')) {
            TRI_TRY(parse_attr(p, word, &instr->attr));
        } else if (strcmp(word, "mb") == 0) {
            char *mb = next_word(p);
            if (!mb) return bad(p, "expected a number after", word);
            instr->mb = (int16_t)strtol(mb, NULL, 10);
        } else {
            instr->unit = (int16_t)find_unit(p->build.program, word);
            if (instr->unit < 0) return bad(p, "unknown unit", word);
        }
    }
    return TRI_OK;
}

static tri_status parse_mesh(parser *p) {
    static const char *const names[] = {"pp", "tp", "dp", "rank", "microbatches"};
    double value[5] = {0};
    for (int i = 0; i < 5; i++) TRI_TRY(parse_number(p, names[i], &value[i]));
    p->build.program->mesh = (tri_mesh){(int)value[0], (int)value[1], (int)value[2]};
    p->build.program->rank = (int)value[3];
    p->build.program->n_mb = (int)value[4];
    return TRI_OK;
}

static tri_status parse_max(parser *p) {
    static const char *const names[] = {"T0", "T1", "N", "Q0", "Q1"};
    double value[5] = {0};
    for (int i = 0; i < 5; i++) TRI_TRY(parse_number(p, names[i], &value[i]));
    tri_counts *max = &p->build.program->max;
    *max = (tri_counts){.of = {0, (int64_t)value[0], (int64_t)value[1], (int64_t)value[2]}, .squares = {0, value[3], value[4], 0}};
    return TRI_OK;
}

static tri_status parse_bytes(parser *p) {
    for (int mem = 0; mem < TRI_MEM_COUNT; mem++) {
        double value = 0;
        TRI_TRY(parse_number(p, tri__mem_name((tri_mem)mem), &value));
        p->build.program->bytes[mem] = (int64_t)value;
    }
    return TRI_OK;
}

static tri_status parse_unit(parser *p) {
    char *name = next_word(p);
    if (!name) return bad(p, "expected a name after", "unit");
    tri__build_unit(&p->build, name);
    return TRI_OK;
}

static tri_status parse_title(parser *p) {
    p->build.program->title = tri__arena_copy(p->build.arena, p->rest);
    return TRI_OK;
}

static tri_status parse_line(parser *p) {
    static const struct {
        const char *word;
        tri_status (*parse)(parser *);
    } kinds[] = {{"program", parse_title}, {"mesh", parse_mesh}, {"max", parse_max},  {"bytes", parse_bytes},
                 {"unit", parse_unit},     {"slot", parse_slot}, {"view", parse_view}};
    char *word = next_word(p);
    if (!word || *word == '#') return TRI_OK;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (strcmp(word, kinds[i].word) == 0) return kinds[i].parse(p);
    if (*word >= '0' && *word <= '9') return parse_instr(p);
    return bad(p, "unknown line", word);
}

tri_status tri__program_parse(tri_arena *arena, const char *name, const char *text, tri_program **out) {
    parser p = {.build = {.arena = arena, .program = tri__program_new(arena, ""), .unit = -1, .mb = -1}, .name = name};
    while (*text) {
        size_t length = strcspn(text, "\n");
        char *line = tri__arena_alloc(arena, length + 1);
        memcpy(line, text, length);
        p.line++;
        p.rest = line;
        TRI_TRY(parse_line(&p));
        text += length + (text[length] == '\n');
    }
    *out = p.build.program;
    return TRI_OK;
}
