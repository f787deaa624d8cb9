/* check.c - `trident check FILE...`: proves the printed programs of all ranks, even if edited or written by hand.
 */
#include "cli/cli.h"

#include "study/study.h"

static void print_set(FILE *out, const tri_json *set) {
    char a[32], b[32], c[32];
    tri_json_int ranks = tri__whole_in(set, "ranks");
    fprintf(out, "%s: %lld rank%s, %s instructions, %s transfers between ranks, at most %s bytes a rank: proven\n",
            tri__text_in(set, "title"), (long long)ranks, ranks == 1 ? "" : "s",
            tri__text_count(tri__whole_in(set, "instructions"), a), tri__text_count(tri__whole_in(set, "transfers"), b),
            tri__text_count(tri__whole_in(set, "peak_bytes"), c));
}

tri_status tri__command_check(tri_cli *cli, tri_command_call *call) {
    tri_json *facts;
    if (!call->n_words)
        return tri__fail(TRI_USAGE, "which programs? e.g. `trident plan --config config.json --print-program all > "
                                    "step.txt` and `trident check step.txt`");
    TRI_TRY(tri__study_check(call->words, call->n_words, &facts));
    if (call->settings.json) return tri__print_json_new(cli->out, facts);
    tri__json_items(tri__json_get(facts, "programs"), set) print_set(cli->out, set);
    tri__json_decref(facts);
    return TRI_OK;
}
