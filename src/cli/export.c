/* export.c - `trident export`: a checkpoint as Hugging Face folders and one safetensors file. */
#include "cli/cli.h"

#include "serve/serve.h"

tri_status tri__command_export(tri_cli *cli, int n, const char *const *args) {
    tri_settings settings;
    tri_json *facts = NULL;
    int n_words = 0;
    tri_status status = tri__cli_settings(&settings, "export", n, args, NULL, 0, &n_words);
    if (status == TRI_OK) status = tri__serve_export(&settings, &facts);
    if (status == TRI_OK && settings.json) {
        status = tri__print_json(cli->out, facts);
    } else if (status == TRI_OK) {
        fprintf(cli->out, "%s: %lld tensors of %s\n", settings.output_dir,
                (long long)tri__json_integer_value(tri__json_get(facts, "tensors")),
                tri__json_string_value(tri__json_get(facts, "checkpoint")));
        static const char *const notes[] = {"shared", "note"};
        for (int i = 0; i < 2; i++) {
            const tri_json *note = tri__json_get(facts, notes[i]);
            if (note) fprintf(cli->err, "note: %s\n", tri__json_string_value(note));
        }
    }
    tri__json_decref(facts);
    tri__settings_free(&settings);
    return status;
}
