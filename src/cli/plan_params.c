/* plan_params.c - a table of the ranks that hold each parameter; then the content of each stage. */
#include "cli/plan_views.h"

#include "base/text.h"
#include "report/text/text_table.h"

#include <string.h>

static const char *text_of(const tri_json *object, const char *key) {
    return tri__json_string_value(tri__json_get(object, key));
}
static tri_json_int whole(const tri_json *object, const char *key) {
    return tri__json_integer_value(tri__json_get(object, key));
}

static void shape_text(const tri_json *shape, char out[static 64]) {
    size_t i;
    tri_json *dim;
    out[0] = 0;
    tri__json_each(shape, i, dim) snprintf(out + strlen(out), 64 - strlen(out), "%s%lld", i ? " x " : "",
                                           (long long)tri__json_integer_value(dim));
}

static tri_status print_stages(const tri_cli *cli, const tri_json *stages) {
    tri_text_table table = {0};
    size_t i;
    tri_json *stage;
    char elements[32], bytes[32];
    tri__text_table_add(&table, "stage\tparameters\telements\tbytes\tunits");
    tri__json_each(stages, i, stage)
        tri__text_table_add(&table, "%lld\t%lld\t%s\t%s\t%s", (long long)whole(stage, "stage"),
                            (long long)whole(stage, "parameters"), tri__text_count(whole(stage, "elements"), elements),
                            tri__text_bytes((double)whole(stage, "bytes"), bytes), text_of(stage, "units"));
    tri_status status = tri__text_table_print(&table, cli->out, cli->out_color);
    tri__text_table_free(&table);
    return status;
}

tri_status tri__print_params(const tri_cli *cli, const tri_json *params) {
    tri_text_table table = {0};
    size_t i;
    tri_json *param;
    char shape[64], bytes[32], held[32];
    tri__text_table_add(&table, "parameter\tshape\tstage\tsplit\tranks\tbytes\ta rank has");
    tri__json_each(tri__json_get(params, "parameters"), i, param) {
        shape_text(tri__json_get(param, "shape"), shape);
        tri__text_table_add(&table, "%s\t%s\t%lld\t%s\t%s\t%s\t%s", text_of(param, "name"), shape,
                            (long long)whole(param, "stage"), text_of(param, "split"), text_of(param, "owners"),
                            tri__text_bytes((double)whole(param, "bytes"), bytes),
                            tri__text_bytes(tri__json_number_value(tri__json_get(param, "bytes_per_rank")), held));
    }
    tri_status status = tri__text_table_print(&table, cli->out, cli->out_color);
    tri__text_table_free(&table);
    TRI_TRY(status);
    if (whole(params, "shards") > 1)
        fprintf(cli->out, "\nweights are sharded over %lld ranks: about as much of each\n",
                (long long)whole(params, "shards"));
    fputc('\n', cli->out);
    return print_stages(cli, tri__json_get(params, "stages"));
}
