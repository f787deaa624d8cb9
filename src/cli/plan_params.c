/* plan_params.c - where each parameter lies, as a table; then what each stage has. */
#include "cli/plan_views.h"

#include "base/text.h"
#include "report/table.h"

#include <string.h>

static const char *text_of(const json_t *object, const char *key) { return json_string_value(json_object_get(object, key)); }
static json_int_t whole(const json_t *object, const char *key) { return json_integer_value(json_object_get(object, key)); }

static void shape_text(const json_t *shape, char out[static 64]) {
    size_t i;
    json_t *dim;
    out[0] = 0;
    json_array_foreach(shape, i, dim)
        snprintf(out + strlen(out), 64 - strlen(out), "%s%lld", i ? " x " : "", (long long)json_integer_value(dim));
}

static tri_status print_stages(const tri_cli *cli, const json_t *stages) {
    tri_text_table table = {0};
    size_t i;
    json_t *stage;
    char elements[32], bytes[32];
    tri__text_table_add(&table, "stage\tparameters\telements\tbytes\tunits");
    json_array_foreach(stages, i, stage)
        tri__text_table_add(&table, "%lld\t%lld\t%s\t%s\t%s", (long long)whole(stage, "stage"), (long long)whole(stage, "parameters"),
                            tri__text_count(whole(stage, "elements"), elements), tri__text_bytes((double)whole(stage, "bytes"), bytes),
                            text_of(stage, "units"));
    tri_status status = tri__text_table_print(&table, cli->out, cli->out_color);
    tri__text_table_free(&table);
    return status;
}

tri_status tri__print_params(const tri_cli *cli, const json_t *params) {
    tri_text_table table = {0};
    size_t i;
    json_t *param;
    char shape[64], bytes[32], held[32];
    tri__text_table_add(&table, "parameter\tshape\tstage\tsplit\tranks\tbytes\ta rank has");
    json_array_foreach(json_object_get(params, "parameters"), i, param) {
        shape_text(json_object_get(param, "shape"), shape);
        tri__text_table_add(&table, "%s\t%s\t%lld\t%s\t%s\t%s\t%s", text_of(param, "name"), shape, (long long)whole(param, "stage"),
                            text_of(param, "split"), text_of(param, "owners"), tri__text_bytes((double)whole(param, "bytes"), bytes),
                            tri__text_bytes(json_number_value(json_object_get(param, "bytes_per_rank")), held));
    }
    tri_status status = tri__text_table_print(&table, cli->out, cli->out_color);
    tri__text_table_free(&table);
    TRI_TRY(status);
    if (whole(params, "shards") > 1)
        fprintf(cli->out, "\nweights are shared out over %lld ranks: about as much of each\n", (long long)whole(params, "shards"));
    fputc('\n', cli->out);
    return print_stages(cli, json_object_get(params, "stages"));
}
