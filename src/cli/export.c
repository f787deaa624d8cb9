/* export.c - `trident export`: a checkpoint as Hugging Face folders and one safetensors file. */
#include "cli/cli.h"

#include "train/run.h"

tri_status tri__command_export(tri_cli *cli, int n, const char *const *args) {
    tri_settings settings;
    json_t *facts = NULL;
    int n_words = 0;
    tri_status status = tri__cli_settings(&settings, "export", n, args, NULL, 0, &n_words);
    if (status == TRI_OK) status = tri__run_export(&settings, &facts);
    if (status == TRI_OK && settings.json) {
        status = tri__print_json(cli->out, facts);
    } else if (status == TRI_OK) {
        fprintf(cli->out, "%s: %lld tensors of %s\n", settings.output_dir, (long long)json_integer_value(json_object_get(facts, "tensors")),
                json_string_value(json_object_get(facts, "checkpoint")));
    }
    json_decref(facts);
    tri__settings_free(&settings);
    return status;
}
