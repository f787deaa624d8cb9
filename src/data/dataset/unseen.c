/* unseen.c - counts values that training did not have, and says what a table has of them. */
#include "data/dataset/unseen.h"

int tri__category_known(const tri_column_stats *stats, const float *numbers) {
    return stats->vectors ? *numbers < (float)stats->n_categories : numbers[stats->n_categories] == 0;
}

static void add_example(tri_unseen *to, const char *text) {
    if (to->n_examples == TRI_UNSEEN_EXAMPLES) return;
    for (int i = 0; i < to->n_examples; i++)
        if (strcmp(to->example[i], text) == 0) return;
    snprintf(to->example[to->n_examples++], TRI_UNSEEN_BYTES, "%s", text);
}

void tri__unseen_add(tri_unseen *to, tri_field_text field) {
    enum { CUT = 200, WIDTH = 40 }; /* bytes that are looked at; characters */
    char text[CUT + 1], shown[TRI_UNSEEN_BYTES];
    field = tri__field_trim(field);
    size_t n = field.length < CUT ? field.length : CUT;
    memcpy(text, field.text, n);
    text[n] = 0;
    to->values++, to->unseen++;
    add_example(to, tri__text_brief(text, WIDTH, shown, sizeof shown));
}

void tri__unseen_join(tri_unseen *to, const tri_unseen *from) {
    to->values += from->values, to->unseen += from->unseen;
    for (int i = 0; i < from->n_examples; i++) add_example(to, from->example[i]);
}

tri_json *tri__unseen_json(const char *column, const tri_unseen *unseen) {
    tri_json *examples = tri__json_array();
    for (int i = 0; i < unseen->n_examples; i++) tri__json_append_new(examples, tri__json_string(unseen->example[i]));
    return tri__json_pack("{s:s, s:I, s:I, s:o}", "column", column, "values", (tri_json_int)unseen->values, "unseen",
                          (tri_json_int)unseen->unseen, "examples", examples);
}

/* Appends to a list: "a", "b" */
static void put_list(char *out, size_t size, const char *text) { tri__text_append(out, size, ", ", "\"%.60s\"", text); }

/* What training had in a column; returns whether it joined rare values of it. */
static int known_values(const tri_preprocess *preprocess, const char *column, char *out, size_t size) {
    int64_t joined = 0;
    out[0] = 0;
    for (int c = 0; c < preprocess->n_columns; c++) {
        const tri_column_stats *stats = &preprocess->column[c];
        if (strcmp(stats->name, column)) continue;
        for (int i = 0; i < stats->n_categories && i < TRI_UNSEEN_EXAMPLES; i++) {
            char brief[TRI_UNSEEN_BYTES];
            put_list(out, size, tri__text_brief(stats->category[i], 40, brief, sizeof brief));
        }
        joined += stats->joined;
    }
    return joined > 0;
}

tri_status tri__unseen_say(const tri_json *list, const char *path, const tri_preprocess *preprocess, int allowed,
                           const tri_log *log) {
    tri__json_items(list, of) {
        const char *column = tri__text_in(of, "column"), *text;
        int64_t values = tri__whole_in(of, "values"), unseen = tri__whole_in(of, "unseen");
        const tri_json *examples = tri__json_get(of, "examples");
        char shown[300] = "", known[300], some[32], all[32];
        for (size_t k = 0; (text = tri__json_string_value(tri__json_at(examples, k))); k++)
            put_list(shown, sizeof shown, text);
        int joined = known_values(preprocess, column ? column : "", known, sizeof known);
        if (unseen == values && !allowed && !joined)
            return tri__fail(TRI_DATA,
                             "%s: column \"%.80s\": training had none of its %s value%s, for example %s; it had, for "
                             "example, %s. Write them as there, or give --allow-unknown, which takes them as unknown",
                             path, column, tri__text_count(values, all), values == 1 ? "" : "s", shown, known);
        tri__say(log, TRI_LOG_WARN, "%s: column \"%.80s\": training did not have%s %s of its %s value%s, for example "
                 "%s; they count as unknown", path, column, joined ? ", or joined as rare," : "",
                 tri__text_count(unseen, some), tri__text_count(values, all), values == 1 ? "" : "s", shown);
    }
    return TRI_OK;
}
