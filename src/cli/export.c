/* export.c - `trident export`: a checkpoint as Hugging Face folders and one safetensors file. */
#include "cli/cli.h"

#include "serve/serve.h"

tri_status tri__command_export(tri_cli *cli, tri_command_call *call) {
    static const char *const notes[] = {"shared", "note"};
    const tri_settings *settings = &call->settings;
    tri_json *facts;
    TRI_TRY(tri__serve_export(settings, &facts));
    if (settings->json) return tri__print_json_new(cli->out, facts);
    fprintf(cli->out, "%s: %lld tensors of %s\n", settings->output_dir, tri__whole_in(facts, "tensors"),
            tri__text_in(facts, "checkpoint"));
    for (int i = 0; i < 2; i++)
        if (tri__text_in(facts, notes[i])) fprintf(cli->err, "note: %s\n", tri__text_in(facts, notes[i]));
    tri__json_decref(facts);
    return TRI_OK;
}
