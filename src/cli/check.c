/* check.c - `trident check FILE...`: proves the printed programs of all ranks, even if edited or written by hand.
 */
#include "cli/cli.h"

#include "base/text.h"
#include "study/study.h"

#include <stdlib.h>

static tri_json_int whole(const tri_json *object, const char *key) {
    return tri__json_integer_value(tri__json_get(object, key));
}

static void print_set(FILE *out, const tri_json *set) {
    char a[32], b[32], c[32];
    tri_json_int ranks = whole(set, "ranks");
    fprintf(out, "%s: %lld rank%s, %s instructions, %s transfers between ranks, at most %s bytes a rank: proven\n",
            tri__json_string_value(tri__json_get(set, "title")), (long long)ranks, ranks == 1 ? "" : "s",
            tri__text_count(whole(set, "instructions"), a), tri__text_count(whole(set, "transfers"), b),
            tri__text_count(whole(set, "peak_bytes"), c));
}

static tri_status check(const tri_cli *cli, const char *const *paths, int n, int json) {
    tri_json *facts = NULL, *set;
    size_t i;
    if (!n)
        return tri__fail(TRI_USAGE, "which programs? e.g. `trident plan --config config.json --print-program all > "
                                    "step.txt` and `trident check step.txt`");
    tri_status status = tri__study_check(paths, n, &facts);
    if (status == TRI_OK && json) status = tri__print_json(cli->out, facts);
    else if (status == TRI_OK) tri__json_each(tri__json_get(facts, "programs"), i, set) print_set(cli->out, set);
    tri__json_decref(facts);
    return status;
}

tri_status tri__command_check(tri_cli *cli, int n, const char *const *args) {
    tri_settings settings;
    int n_words = 0;
    const char **words = calloc((size_t)n + 1, sizeof *words);
    if (!words) return tri__fail(TRI_RESOURCE, "out of memory");
    tri_status status = tri__cli_settings(&settings, "check", n, args, words, n, &n_words);
    if (status == TRI_OK) status = check(cli, words, n_words, settings.json);
    tri__settings_free(&settings);
    free(words);
    return status;
}
