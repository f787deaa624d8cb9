/* inspect_roles.c - finds the label, the texts and the tabular columns: as configured, else guessed from kinds and
 * names. A guess is a score for each column; the highest wins, ties go to the first. */
#include "data/dataset/field_values.h"
#include "data/inspect/inspect_parts.h"

static tri_status find_column(const tri_inspector *in, const char *name, int *column) {
    return tri__table_find(in->table[in->out->base], name, column); /* columns are those of base, in order */
}

static int says_label(const char *name) {
    static const char *const names[] = {"label",    "labels", "target",    "targets",  "class",     "y",      "outcome",
                                        "response", "answer", "sentiment", "category", "kategorie", "klasse", "ziel",
                                        "classe",   "clase",  "categoria", "cible",    "objetivo",  NULL};
    for (int i = 0; names[i]; i++)
        if (strcasecmp(name, names[i]) == 0) return 1;
    return 0;
}

/* How likely a column is the label; 0: it cannot be. A label has few distinct values, and may be missing in a few rows,
 * or in many if the column's name suggests a label. */
static int label_score(const tri_inspection *out, int index) {
    static const char *const words[] = {"label", "target", "outcome", NULL};
    static const char *const yes_no[] = {"is", "has", "ind", "flag", "indicator", NULL};
    enum { CLASSES = 100, FEW = 20, FEW_BLANKS = 10 }; /* one row in ten */
    const tri_inspect_column *c = &out->column[index];
    int kind = (c->kind == TRI_INSPECT_NUMERIC && c->whole && c->numbers == c->filled) ||
               c->kind == TRI_INSPECT_CATEGORICAL || c->kind == TRI_INSPECT_BOOLEAN;
    int most = c->kind == TRI_INSPECT_NUMERIC ? FEW : CLASSES;
    int named = says_label(c->name);
    if (!kind || (!named && FEW_BLANKS * c->missing[out->base] > out->split[out->base].rows) || c->distinct < 2 ||
        c->distinct > most || c->distinct * 2 > c->filled)
        return 0;
    int score = 1 + !c->missing[out->base];
    if (named) score += 100;
    else if (tri__inspect_named(c->name, words)) score += 60;
    if (c->distinct == 2) score += 20 + 10 * tri__inspect_named(c->name, yes_no);
    else if (c->distinct <= FEW) score += 5;
    if (index == out->n_columns - 1) score += 12;
    return score;
}

/* Several labels that have a column each. */
static tri_status find_columns(tri_inspector *in) {
    tri_inspection *out = in->out;
    tri_field_text names = {in->spec->label, strlen(in->spec->label), 0}, name;
    while (tri__label_next(",", &names, &name)) {
        TRI_OWNED(tri__free_at) char *copy = strndup(name.text, name.length);
        if (!copy) return tri__inspect_no_memory(in);
        TRI_TRY(find_column(in, copy, &out->label));
        out->column[out->label].role = TRI_INSPECT_LABEL;
        out->n_several++;
    }
    return TRI_OK;
}

static tri_status find_label(tri_inspector *in) {
    tri_inspection *out = in->out;
    int best = 0;
    if (in->spec->label) {
        out->label_given = 1;
        TRI_TRY(in->spec->has_columns ? find_columns(in) : find_column(in, in->spec->label, &out->label));
    }
    for (int c = 0; c < out->n_columns; c++) {
        int score = label_score(out, c);
        if (!score) continue;
        out->column[c].candidate = 1 + says_label(out->column[c].name);
        if (!out->label_given && score > best) best = score, out->label = c;
    }
    if (out->label >= 0) out->column[out->label].role = TRI_INSPECT_LABEL;
    return TRI_OK;
}

/* The text column with the most words that has no role yet; if none, names (others 1), and then categories (2).
 * everywhere: of those that all tables have. -1: none of these. */
static int longest_text(const tri_inspection *out, int others, int everywhere) {
    int best = -1;
    for (int c = 0; c < out->n_columns; c++) {
        const tri_inspect_column *column = &out->column[c];
        int fits = column->kind == TRI_INSPECT_TEXT || (others && column->kind >= TRI_INSPECT_NAME) ||
                   (others > 1 && column->kind == TRI_INSPECT_CATEGORICAL);
        for (int s = 0; s < TRI_SPLITS && everywhere; s++) fits &= column->missing[s] >= 0;
        if (fits && !column->role && (best < 0 || column->words > out->column[best].words)) best = c;
    }
    return best;
}

/* The first two, and those beyond the second: as given, or where none is, all. */
static tri_status list_texts(tri_inspector *in) {
    tri_inspection *out = in->out;
    if (out->primary >= 0) out->text[out->n_texts++] = out->primary;
    if (out->secondary >= 0) out->text[out->n_texts++] = out->secondary;
    for (int c = 0; out->n_texts >= 2 && out->n_texts < TRI_TEXTS_MAX; out->text[out->n_texts++] = c) {
        if (out->n_texts < in->spec->texts.n) TRI_TRY(find_column(in, in->spec->texts.at[out->n_texts], &c));
        else if (out->texts_given || (c = longest_text(out, 0, 1)) < 0) return TRI_OK;
        out->column[c].role = TRI_INSPECT_FURTHER;
    }
    return TRI_OK;
}

/* The columns that are joined to the secondary text. */
static tri_status find_further(tri_inspector *in) {
    tri_inspection *out = in->out;
    out->further = calloc((size_t)in->spec->n_further + 1, sizeof *out->further);
    if (!out->further) return tri__inspect_no_memory(in);
    for (int i = 0; i < in->spec->n_further; i++) {
        TRI_TRY(find_column(in, in->spec->further[i], &out->further[i]));
        out->column[out->further[i]].role = TRI_INSPECT_SECONDARY;
        out->n_further++;
    }
    return TRI_OK;
}

static tri_status find_texts(tri_inspector *in) {
    tri_inspection *out = in->out;
    out->texts_given = in->spec->primary != NULL;
    if (in->spec->primary) TRI_TRY(find_column(in, in->spec->primary, &out->primary));
    else out->primary = longest_text(out, 0, 0);
    for (int others = 1; others <= 2 && out->primary < 0; others++) out->primary = longest_text(out, others, 0);
    if (out->primary >= 0) out->column[out->primary].role = TRI_INSPECT_PRIMARY;
    if (in->spec->secondary) TRI_TRY(find_column(in, in->spec->secondary, &out->secondary));
    else if (!in->spec->primary && out->primary >= 0) out->secondary = longest_text(out, 0, 0);
    TRI_ASSERT(in->spec->secondary || !in->spec->n_further);
    TRI_TRY(find_further(in));
    if (out->secondary >= 0) out->column[out->secondary].role = TRI_INSPECT_SECONDARY;
    return list_texts(in);
}

/* Numbers, and what else can be read; categories; and ids that come again often enough to be learned. */
static int is_tabular(const tri_inspect_column *c) {
    if (c->kind == TRI_INSPECT_NUMERIC) return c->numbers == c->filled;
    return tri__inspect_has_form(c) ? !c->form.wrong : c->kind == TRI_INSPECT_CATEGORICAL || tri__inspect_joins(c);
}

static tri_status find_tabular(tri_inspector *in) {
    tri_inspection *out = in->out;
    out->tabular_given = in->spec->tabular != NULL;
    for (int i = 0; i < in->spec->n_tabular && out->tabular_given; i++) {
        int column;
        TRI_TRY(find_column(in, in->spec->tabular[i], &column));
        if (out->column[column].role == TRI_INSPECT_NO_ROLE) out->column[column].role = TRI_INSPECT_TABULAR;
    }
    for (int c = 0; c < out->n_columns && !out->tabular_given && !out->texts_given; c++) {
        tri_inspect_column *column = &out->column[c];
        int everywhere = 1;
        for (int s = 0; s < TRI_SPLITS; s++) everywhere &= column->missing[s] >= 0;
        if (column->role == TRI_INSPECT_NO_ROLE && everywhere && is_tabular(column)) column->role = TRI_INSPECT_TABULAR;
    }
    return TRI_OK;
}

/* Why a column is unused. */
enum { REASON = TRI_FORM_WORDS + 16 };
static const char *reason(const tri_inspection *out, const tri_inspect_column *c, char text[static REASON]) {
    char count[32];
    text[0] = 0;
    for (int s = 0; s < TRI_SPLITS; s++)
        if (c->missing[s] < 0) return snprintf(text, REASON, "not in the %s table", tri__split_name(s)), text;
    switch (c->kind) {
    case TRI_INSPECT_EMPTY: return "no value in any row";
    case TRI_INSPECT_CONSTANT: return "the same in every row";
    case TRI_INSPECT_ID: return "identifies rows or things: nothing to learn for new ones";
    case TRI_INSPECT_DATE:
    case TRI_INSPECT_AMOUNT:
        if (c->form.why[0]) return snprintf(text, REASON, "it %s", c->form.why), text;
        break;
    case TRI_INSPECT_TEXT: return "a further text: text_list names up to 16";
    default: break;
    }
    if (out->texts_given || out->tabular_given) return "not named in the configuration";
    if (c->kind == TRI_INSPECT_NUMERIC)
        snprintf(text, REASON, "%s values are not numbers", tri__text_count(c->filled - c->numbers, count));
    else if (tri__inspect_has_form(c))
        snprintf(text, REASON, "%s values are not %ss like the others", tri__text_count(c->form.wrong, count),
                 tri__inspect_kind_name(c->kind));
    return text;
}

/* Why a tabular column is what it is taken for; empty where its values show it. */
static const char *reason_taken(const tri_inspect_column *c, char text[static REASON]) {
    char count[32];
    text[0] = 0;
    if (c->kind >= TRI_INSPECT_NAME)
        snprintf(text, REASON, "%ss: %.1f words a value, %.0f %% of the values with digits, %s different ones: too "
                 "many for categories, too short for a text", tri__inspect_kind_name(c->kind), c->words,
                 100 * (double)c->digits / (double)c->filled, tri__text_count(c->distinct, count));
    else if (c->kind == TRI_INSPECT_BOOLEAN) snprintf(text, REASON, "each value means yes or no");
    else if (tri__inspect_joins(c))
        snprintf(text, REASON, "%s different values with %.0f rows each on average: rare ones are joined",
                 tri__text_count(c->distinct, count), (double)c->filled / (double)c->distinct);
    return text;
}

static tri_status explain_left_out(tri_inspector *in) {
    tri_inspection *out = in->out;
    char text[REASON];
    for (int c = 0; c < out->n_columns; c++) {
        tri_inspect_column *column = &out->column[c];
        if (column->role == TRI_INSPECT_NO_ROLE && !(column->left_out = strdup(reason(out, column, text))))
            return tri__inspect_no_memory(in);
        if (column->role == TRI_INSPECT_TABULAR && *reason_taken(column, text) && !(column->reason = strdup(text)))
            return tri__inspect_no_memory(in);
    }
    return TRI_OK;
}

tri_status tri__inspect_roles(tri_inspector *in) {
    TRI_TRY(find_label(in));
    TRI_TRY(find_texts(in));
    TRI_TRY(find_tabular(in));
    return explain_left_out(in);
}
