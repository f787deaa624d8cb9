/* digest.c - `trident digest C`: one hash of the logical weights and optimizer state, independent of the mesh that
 * wrote them. */
#include "cli/cli.h"

#include "checkpoint/checkpoint.h"
#include "serve/infer/ensemble.h"

static tri_status digest(const char *path, char hex[static 33]) {
    tri_checkpoint *checkpoint = NULL;
    TRI_TRY(tri__ensemble_refuse(path, "digest"));
    TRI_TRY(tri__checkpoint_open(path, 0, &checkpoint));
    tri_status status = tri__checkpoint_digest(checkpoint, hex);
    tri__checkpoint_close(checkpoint);
    return status;
}

tri_status tri__command_digest(tri_cli *cli, int n, const char *const *args) {
    tri_settings settings;
    const char *words[1];
    int n_words = 0;
    char hex[33];
    tri_status status = tri__cli_settings(&settings, "digest", n, args, words, 1, &n_words);
    if (status != TRI_OK) goto done;
    const char *path = n_words ? words[0] : settings.checkpoint;
    status =
        path ? digest(path, hex) : tri__fail(TRI_USAGE, "which checkpoint? e.g. `trident digest run/checkpoint-100`");
    if (status != TRI_OK) goto done;
    if (settings.json) {
        tri_json *object = tri__json_pack("{s:s}", "digest", hex);
        status = tri__print_json(cli->out, object);
        tri__json_decref(object);
    } else {
        fprintf(cli->out, "%s\n", hex);
    }
done:
    tri__settings_free(&settings);
    return status;
}
