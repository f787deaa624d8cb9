/* digest.c - `trident digest C`: one hash of the logical weights and optimizer state, independent of the mesh that
 * wrote them. */
#include "cli/cli.h"

#include "checkpoint/checkpoint.h"
#include "serve/infer/ensemble.h"

static tri_status digest(const char *path, char hex[static 33]) {
    TRI_OWNED(tri__checkpoint_close_at) tri_checkpoint *checkpoint = NULL;
    TRI_TRY(tri__ensemble_refuse(path, "digest"));
    TRI_TRY(tri__checkpoint_open(path, 0, &checkpoint));
    return tri__checkpoint_digest(checkpoint, hex);
}

tri_status tri__command_digest(tri_cli *cli, tri_command_call *call) {
    const char *path = call->n_words ? call->words[0] : call->settings.checkpoint;
    char hex[33];
    if (!path) return tri__fail(TRI_USAGE, "which checkpoint? e.g. `trident digest run/checkpoint-100`");
    TRI_TRY(digest(path, hex));
    if (call->settings.json) return tri__print_json_new(cli->out, tri__json_pack("{s:s}", "digest", hex));
    fprintf(cli->out, "%s\n", hex);
    return TRI_OK;
}
