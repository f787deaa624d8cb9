/* variant.c - the variants of operations: a row each, made once from the rows of ops.def.
 *
 * A mnemonic such as "linear{act}{factors}" names the attributes that multiply an operation. Each attribute is a choice
 * of few values; a value has a text, which takes the place of the braces, and facts, on which operands depend. The
 * variants of an operation have consecutive numbers, the last attribute's values next to each other. */
#include "base/base.h"
#include "program/op_def.h"

enum { MOST_VALUES = 16, MOST_CHOICES = 5, NAME_BYTES = 48 };

const tri_activation_row tri__activations[TRI_ACTIVATION_COUNT] = {
#define TRI_ACTIVATION(NAME, name_, flops_, slope_, by_result_, config_) \
    {.name = #name_, .flops = flops_, .slope = slope_, .by_result = by_result_, .config = config_},
#include "program/activation.def"
};

/* An attribute that multiplies operations, and the texts and facts of its values, from 0 on. */
typedef struct choice {
    const char *name;
    size_t field; /* an int32_t of tri_attr */
    int n;        /* values */
    struct {
        const char *text;
        unsigned facts;
    } value[MOST_VALUES];
} choice;

static const choice choices[] = {
    {"act", offsetof(tri_attr, activation), 1 + TRI_ACTIVATION_COUNT,
     {{"", 0},
#define TRI_ACTIVATION(NAME, name_, flops_, slope_, by_result_, config_) \
    {"_" #name_, TRI_FACT_ACT | ((by_result_) ? TRI_FACT_RESULT : 0)},
#include "program/activation.def"
     }},
    {"db", offsetof(tri_attr, sums), 2, {{"", 0}, {"_db", TRI_FACT_DB}}},
    {"back", offsetof(tri_attr, back), 2, {{"", 0}, {"_din", TRI_FACT_BACK}}},
    {"way", offsetof(tri_attr, join), 2, {{"_part", 0}, {"_join", TRI_FACT_JOIN}}},
    {"rows", offsetof(tri_attr, mean), 2, {{"_first", 0}, {"_mean", TRI_FACT_MEAN}}},
    {"sparse", offsetof(tri_attr, sparse), 2, {{"", 0}, {"_sparse", TRI_FACT_SPARSE}}},
    {"first", offsetof(tri_attr, first), 2, {{"", 0}, {"_first", TRI_FACT_FIRST}}},
    {"ring", offsetof(tri_attr, first), 2, {{"_attention", 0}, {"_first", TRI_FACT_FIRST}}},
    {"score", offsetof(tri_attr, score), 3,
     {{"", 0}, {"_biased", TRI_FACT_RELATIVE | TRI_FACT_BIAS}, {"_disentangled", TRI_FACT_RELATIVE}}},
    {"bits", offsetof(tri_attr, mask), 2, {{"", 0}, {"_bits", TRI_FACT_BITS}}},
    {"scaled", offsetof(tri_attr, scaled), 2, {{"", 0}, {"_scaled", TRI_FACT_SCALED}}},
    {"factors", offsetof(tri_attr, factors), 4,
     {{"", 0}, {"_int8", TRI_FACT_QUANT}, {"_fp8", TRI_FACT_QUANT | TRI_FACT_FP8}, {"_scaled", TRI_FACT_SCALED}}},
    {"experts", offsetof(tri_attr, experts), 2, {{"", 0}, {"_experts", TRI_FACT_EXPERTS}}},
    {"residual", offsetof(tri_attr, residual), 2, {{"", TRI_FACT_ALONE}, {"dropout_add_", 0}}},
    {"int8", offsetof(tri_attr, int8), 2, {{"", 0}, {"_int8", TRI_FACT_INT8}}},
    {"zeros", offsetof(tri_attr, balance), 2, {{"zero", 0}, {"balance_none", TRI_FACT_BALANCE}}},
    {"weight", offsetof(tri_attr, back), 2, {{"", 0}, {"_dw", TRI_FACT_WEIGHT}}},
    {"coupled", offsetof(tri_attr, coupled), 2, {{"w", 0}, {"", TRI_FACT_COUPLED}}},
    {"copy", offsetof(tri_attr, copy), 2, {{"", 0}, {"_copy", TRI_FACT_COPY}}},
    {"step", offsetof(tri_attr, frozen), 2, {{"_step", 0}, {"_frozen", TRI_FACT_FROZEN}}},
    {"sum", offsetof(tri_attr, sums), 2, {{"", 0}, {"_sum", TRI_FACT_SUM}}},
    {"momentum", offsetof(tri_attr, sent), 3,
     {{"", 0}, {"_in", TRI_FACT_SENT}, {"_alone", TRI_FACT_SENT | TRI_FACT_OWN}}},
    {"meet", offsetof(tri_attr, meet), 2, {{"_frozen", 0}, {"_meet", TRI_FACT_MEET}}},
    {"weighted", offsetof(tri_attr, weighted), 2, {{"", 0}, {"_weighted", TRI_FACT_WEIGHTED}}},
    {"most", offsetof(tri_attr, most), 2, {{"reduce", 0}, {"max", 0}}},
};
enum { CHOICES = sizeof choices / sizeof *choices };

static int32_t *field_of(tri_attr *attr, const choice *of) { return (int32_t *)(void *)((char *)attr + of->field); }

/* The choice whose name follows a brace. */
static const choice *choice_at(const char *brace) {
    size_t length = strcspn(brace + 1, "}");
    for (int i = 0; i < CHOICES; i++)
        if (strlen(choices[i].name) == length && strncmp(choices[i].name, brace + 1, length) == 0) return &choices[i];
    TRI_ASSERT(!"a mnemonic names an attribute that there is not");
    return NULL;
}

static const char *mnemonic_of(const tri_op_def *def) { return def->mnemonic ? def->mnemonic : def->name; }

/* The choices of a mnemonic, in order; returns how many. */
static int choices_of(const char *mnemonic, const choice *of[static MOST_CHOICES]) {
    int n = 0;
    for (const char *at = strchr(mnemonic, '{'); at; at = strchr(at + 1, '{')) {
        TRI_ASSERT(n < MOST_CHOICES);
        of[n++] = choice_at(at);
    }
    return n;
}

/* The table, made once. */
static struct {
    tri_op_row row[TRI_VARIANTS];
    char name[TRI_VARIANTS][NAME_BYTES];
    tri_attr attr[TRI_VARIANTS]; /* the attributes that make it what it is */
    struct {
        const choice *of[MOST_CHOICES];
        int n, first; /* choices; the first variant */
    } op[TRI_OP_COUNT];
    int n;
} all;
static pthread_once_t made = PTHREAD_ONCE_INIT;

/* A mnemonic with the texts of these attributes; what begins with an underscore then begins without. */
static void fill(const char *mnemonic, tri_attr attr, char name[static NAME_BYTES]) {
    size_t used = 0;
    for (const char *at = mnemonic; *at; at++) {
        char one[2] = {*at, 0};
        const char *text = one;
        if (*at == '{') {
            const choice *of = choice_at(at);
            text = of->value[*field_of(&attr, of)].text;
            at = strchr(at, '}');
        }
        if (!used && *text == '_') text++;
        used += (size_t)snprintf(name + used, NAME_BYTES - used, "%s", text);
        TRI_ASSERT(used < NAME_BYTES);
    }
}

static int holds(const tri_condition *of, unsigned facts) {
    if (of->rule == TRI_RULE_ANY) return (facts & of->facts) != 0;
    if (of->rule == TRI_RULE_NOT) return (facts & of->facts) == 0;
    return (facts & of->facts) == of->facts;
}

#define OPERAND(of) (tri_operand){(of).name, (of).access, (of).optional, (of).kind - 1, (of).dims}

static tri_operand operand_of(const tri_operand_def *def, unsigned facts) {
    const tri_condition *const conditions[TRI_CONDITIONS] = {&def->a, &def->b, &def->c, &def->d};
    tri_operand operand = OPERAND(*def);
    for (int i = 0; i < TRI_CONDITIONS && conditions[i]->rule; i++) {
        const tri_condition *c = conditions[i];
        if (c->rule == TRI_RULE_OR && holds(c, facts)) operand = OPERAND(c->is);
        if (c->rule != TRI_RULE_OR && !holds(c, facts)) operand.access = TRI_ACCESS_NONE, operand.optional = 1;
    }
    return operand;
}

static int exists(const tri_op_def *def, unsigned facts) {
    if ((facts & def->always) != def->always) return 0;
    for (size_t i = 0; i < sizeof def->never / sizeof *def->never; i++)
        if (def->never[i] && (facts & def->never[i]) == def->never[i]) return 0;
    for (size_t i = 0; i < sizeof def->one_of / sizeof *def->one_of; i++)
        if (__builtin_popcount(facts & def->one_of[i]) > 1) return 0;
    return 1;
}

static void make_row(const tri_op_def *def, tri_op op, int at, unsigned facts) {
    tri_op_row *row = &all.row[at];
    if (exists(def, facts)) fill(mnemonic_of(def), all.attr[at], all.name[at]);
    tri_op_phase phase = facts & TRI_FACT_BACK ? TRI_PHASE_B : facts & TRI_FACT_WEIGHT ? TRI_PHASE_W : def->phase;
    *row = (tri_op_row){.name = all.name[at], .op = op, .facts = facts, .phase = phase, .flops = def->flops,
                        .adjoint = facts & (TRI_FACT_BACK | TRI_FACT_WEIGHT | def->late) ? "" : def->adjoint,
                        .formula = def->formula, .n_args = def->n_args, .family = def->family, .split = def->split,
                        .rate = facts & TRI_FACT_FIRST ? TRI_RATE_TYPE : def->rate, .part = def->part,
                        .lowered = def->lowered, .elementwise = def->elementwise, .decodes = def->decodes, .like = -1,
                        .act = facts & TRI_FACT_ACT ? &tri__activations[all.attr[at].activation - 1] : NULL};
    for (int k = 0; k < def->n_args; k++) row->arg[k] = operand_of(&def->arg[k], facts);
}

static int find(const char *name) {
    for (int i = 0; i < all.n && *name; i++)
        if (strcmp(all.name[i], name) == 0) return i;
    return -1;
}

/* The variant that takes as long, which may be of an operation further down. */
static void find_like(int at) {
    tri_op_row *row = &all.row[at];
    const tri_op_def *def = tri__op_def(row->op);
    for (size_t i = 0; i < sizeof def->like / sizeof *def->like && def->like[i].name && row->like < 0; i++) {
        const tri_like *like = &def->like[i];
        char name[NAME_BYTES];
        if ((row->facts & like->with) != like->with || row->facts & like->without) continue;
        fill(like->name, all.attr[at], name);
        int found = find(name);
        TRI_ASSERT(found >= 0);
        if (found != at) row->like = found, row->times = like->times;
    }
}

static void make(void) {
    for (int op = 0; op < TRI_OP_COUNT; op++) {
        const tri_op_def *def = tri__op_def((tri_op)op);
        const choice **of = all.op[op].of;
        int n = all.op[op].n = choices_of(mnemonic_of(def), of), count = 1;
        all.op[op].first = all.n;
        for (int i = 0; i < n; i++) count *= of[i]->n;
        TRI_ASSERT(all.n + count <= TRI_VARIANTS);
        for (int v = 0; v < count; v++, all.n++) {
            unsigned facts = 0;
            for (int i = n - 1, rest = v; i >= 0; rest /= of[i--]->n) {
                int value = rest % of[i]->n;
                *field_of(&all.attr[all.n], of[i]) = value, facts |= of[i]->value[value].facts;
            }
            make_row(def, (tri_op)op, all.n, facts);
        }
    }
    for (int i = 0; i < all.n; i++)
        if (*all.name[i]) find_like(i);
}

int tri__variant(tri_op op, const tri_attr *attr) {
    int at = 0;
    pthread_once(&made, make);
    for (int i = 0; i < all.op[op].n; i++) {
        const choice *of = all.op[op].of[i];
        int32_t value = *field_of((tri_attr *)attr, of);
        if (value < 0 || value >= of->n) return -1;
        at = at * of->n + value;
    }
    at += all.op[op].first;
    return *all.name[at] ? at : -1;
}

int tri__variant_find(const char *name) {
    pthread_once(&made, make);
    return find(name);
}

int tri__variant_count(void) {
    pthread_once(&made, make);
    return all.n;
}

int tri__op_variants(tri_op op) {
    pthread_once(&made, make);
    return all.op[op].first;
}

int tri__variant_computes(int variant) {
    const tri_op_row *row = tri__variant_row(variant);
    return *row->name && tri__op_queue(row->op) == TRI_QUEUE_COMPUTE;
}

int tri__op_variant_count(tri_op op) {
    return (op + 1 < TRI_OP_COUNT ? tri__op_variants((tri_op)(op + 1)) : tri__variant_count()) - tri__op_variants(op);
}

const tri_op_row *tri__variant_row(int variant) {
    pthread_once(&made, make);
    return &all.row[variant];
}

void tri__variant_set(int variant, tri_attr *attr) {
    tri_op op = tri__variant_row(variant)->op;
    for (int i = 0; i < all.op[op].n; i++) {
        const choice *of = all.op[op].of[i];
        *field_of(attr, of) = *field_of(&all.attr[variant], of);
    }
}

const tri_op_row *tri__op_row(tri_op op, const tri_attr *attr) {
    int variant = tri__variant(op, attr);
    TRI_ASSERT(variant >= 0);
    return &all.row[variant];
}

int tri__op_find(const char *name) {
    for (int op = 0; op < TRI_OP_COUNT; op++)
        if (strcmp(tri__op_def((tri_op)op)->name, name) == 0) return op;
    return -1;
}
