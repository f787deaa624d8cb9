/* test_foreign_options.c - options of other programs: translated to ours, already satisfied, or refused with the option
 * to use. */
#include "base/file.h"
#include "settings/foreign.h"
#include "settings/settings.h"

#include "tests/lib/test.h"

static const tri_option *own_row(const char *name) {
    const tri_option *row = tri__option_find(tri__model_options, name);
    return row ? row : tri__option_find(tri__run_options, name);
}

/* A value that an option of ours takes. */
static const char *sample(const tri_option *row, char out[static 32]) {
    static const char *const of[] = {[TRI_OPTION_BOOL] = "true", [TRI_OPTION_INT] = "3",   [TRI_OPTION_REAL] = "0.5",
                                     [TRI_OPTION_TEXT] = "2",    [TRI_OPTION_TEXTS] = "a", [TRI_OPTION_REALS] = "1"};
    if (row->check && row->value) return row->value; /* a text with a syntax */
    if (row->kind != TRI_OPTION_CHOICE) return of[row->kind];
    snprintf(out, 32, "%.*s", (int)strcspn(row->choices, "|"), row->choices);
    return out;
}

/* "--name" in `text` is an option. */
static void expect_options(const char *name, const char *text) {
    for (const char *at = strstr(text, "--"); at; at = strstr(at + 2, "--")) {
        char flag[64];
        snprintf(flag, sizeof flag, "%.*s", (int)strspn(at + 2, "abcdefghijklmnopqrstuvwxyz0123456789-"), at + 2);
        int torchrun = !strcmp(flag, "no-python");
        if (!own_row(flag) && !torchrun) fail_msg("%s: its words name --%s, which is not an option", name, flag);
    }
}

/* What the row's option is after the command line, against the same said in our own words. */
static void expect_taken(const tri_foreign *row, const char *flag, const char *value) {
    tri_settings theirs, ours;
    char own[TRI_OPTION_FLAG];
    int n_words;
    const tri_option *option = own_row(row->option);
    assert_non_null(option);
    const char *args[] = {flag, value, tri__option_flag(row->option, own), row->to ? row->to : value};
    tri__settings_init(&theirs), tri__settings_init(&ours);
    if (tri__settings_parse(&theirs, "train", 2, args, NULL, 0, &n_words) != TRI_OK)
        fail_msg("%s: %s", flag, tri_error());
    if (tri__settings_parse(&ours, "train", 2, args + 2, NULL, 0, &n_words) != TRI_OK)
        fail_msg("%s: %s", flag, tri_error());
    int in_model = tri__option_find(tri__model_options, row->option) != NULL;
    tri_json *a = tri__option_json(option, in_model ? (void *)&theirs.model : &theirs);
    tri_json *b = tri__option_json(option, in_model ? (void *)&ours.model : &ours);
    assert_true(tri__json_equal(a, b));
    assert_int_equal(ours.notes.n, 0);
    if (own_row(flag + 2)) assert_int_equal(theirs.notes.n, 0);
    else if (theirs.notes.n != 1 || !strstr(theirs.notes.at[0], flag) || !strstr(theirs.notes.at[0], own))
        fail_msg("%s: no note", flag);
    tri__json_decref(a), tri__json_decref(b);
    tri__settings_free(&theirs), tri__settings_free(&ours);
}

static void expect_answer(const tri_foreign *row, const char *flag, const char *value) {
    tri_settings s;
    int n_words;
    const char *args[] = {flag, value};
    tri__settings_init(&s);
    tri_status status = tri__settings_parse(&s, "train", 2, args, NULL, 0, &n_words);
    const char *said = status == TRI_OK ? (s.notes.n == 1 ? s.notes.at[0] : "") : tri_error();
    if (status != (row->held ? TRI_OK : TRI_USAGE) || !strstr(said, flag) || !strstr(said, row->words))
        fail_msg("%s %s: got %d \"%s\"", flag, value, status, said);
    tri__settings_free(&s);
}

/* Every row is reached, does what it says, and names options that there are; every value of a name has an answer; the
 * page lists it. at: one of its names. */
static void check_name(const tri_foreign *row, const char *at, const char *page) {
    char name[64], flag[TRI_OPTION_FLAG], listed[80], first[64], buffer[32];
    int any = strcspn(at, "*") < strcspn(at, "|");
    snprintf(name, sizeof name, "%.*s%s", (int)strcspn(at, "*|"), at, any ? "x" : "");
    snprintf(first, sizeof first, "%.*s", row->value ? (int)strcspn(row->value, "|") : 0, row->value ? row->value : "");
    tri__option_flag(name, flag);
    snprintf(listed, sizeof listed, "`%.*s%s`", (int)strlen(flag) - any, flag, any ? "…" : "");
    if (!strstr(page, listed)) fail_msg("docs/guide/coming-from-pytorch.md does not list %s", listed);
    const char *value = row->value                ? first
                        : row->option && !row->to ? sample(own_row(row->option), buffer)
                                                  : "other";
    if (!row->value && !row->option && tri__foreign_is_switch(name))
        value = tri__foreign_find(name, "false") == row ? "false" : "true";
    if (tri__foreign_find(name, value) != row) fail_msg("%s %s: the row is never reached", name, value);
    if (row->option) expect_taken(row, flag, value);
    else expect_answer(row, flag, value), expect_options(name, row->words);
    int answered = tri__foreign_is_switch(name)
                       ? tri__foreign_find(name, "true") && tri__foreign_find(name, "false")
                       : tri__foreign_find(name, "other") != NULL;
    if (!answered && !own_row(name)) fail_msg("%s: some of its values have no answer", name);
}

TEST(test_foreign) {
    char *page;
    size_t size;
    assert_int_equal(tri__file_read("docs/guide/coming-from-pytorch.md", 1 << 20, &page, &size), TRI_OK);
    for (const tri_foreign *row = tri__foreign; row->name; row++)
        for (const char *at = row->name; *at; at += strcspn(at, "|"), at += *at == '|') check_name(row, at, page);
    free(page);
}

int main(int argc, char **argv) { return run_listed(argc, argv, NULL, NULL); }
