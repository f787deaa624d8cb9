/* plan.c - `trident plan`: what a step does and needs, without doing it. A table of facts, or the program itself. */
#include "cli/cli.h"
#include "cli/sinks.h"

#include "base/text.h"
#include "report/sinks.h"
#include "train/run.h"

#include <stdlib.h>
#include <string.h>

static void print_value(FILE *out, const char *key, const json_t *value) {
    char text[32];
    if (json_is_string(value))
        fputs(json_string_value(value), out);
    else if (json_is_boolean(value))
        fputs(json_is_true(value) ? "yes" : "no", out);
    else if (strstr(key, "flops"))
        fprintf(out, "%.4g GFLOP", json_number_value(value) / 1e9);
    else if (json_is_integer(value))
        fputs(tri__text_count(json_integer_value(value), text), out);
    else if (json_is_real(value))
        fprintf(out, "%.6g", json_real_value(value));
    else
        fputs("-", out);
    if (json_is_integer(value) && strstr(key, "bytes"))
        fprintf(out, " B (%s)", tri__text_bytes(json_number_value(value), text));
    fputc('\n', out);
}

/* Nested objects and lists are indented under their key; the keys say what the numbers are. */
static void print_facts(FILE *out, const json_t *facts, int depth, const char *unit) {
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)facts, key, value) {
        const char *in = strstr(key, "bytes") || strstr(key, "flops") ? key : unit;
        size_t index;
        json_t *item;
        fprintf(out, "%*s%-*s ", 2 * depth, "", 24 - 2 * depth, key);
        if (json_is_object(value)) {
            fputc('\n', out);
            print_facts(out, value, depth + 1, in);
        } else if (json_is_array(value)) {
            fputc('\n', out);
            json_array_foreach(value, index, item) {
                if (json_is_object(item))
                    print_facts(out, item, depth + 1, in);
                else
                    fprintf(out, "%*s", 2 * depth + 2, ""), print_value(out, in, item);
            }
        } else {
            print_value(out, in, value);
        }
    }
}

tri_status tri__command_plan(tri_cli *cli, int n, const char *const *args) {
    tri_settings settings;
    json_t *facts = NULL;
    char *program = NULL;
    tri_sink sink = {0};
    int n_words = 0;
    tri_status status = tri__cli_settings(&settings, "plan", n, args, NULL, 0, &n_words);
    if (status == TRI_OK && !settings.config) status = tri__fail(TRI_USAGE, "plan needs --config");
    if (status == TRI_OK) status = tri__settings_check(&settings);
    if (status != TRI_OK) goto done;
    status = tri__cli_progress(cli, settings.quiet, &sink);
    if (status != TRI_OK) goto done;
    status = tri__run_plan(&settings, &sink, &facts, &program);
    if (status != TRI_OK) goto done;
    if (settings.json) {
        if (program) json_object_set_new(facts, "program", json_string(program));
        status = tri__print_json(cli->out, facts);
    } else if (program) {
        fputs(program, cli->out);
    } else {
        print_facts(cli->out, facts, 0, "");
    }
done:
    tri__progress_close(&sink);
    free(program);
    json_decref(facts);
    tri__settings_free(&settings);
    return status;
}
