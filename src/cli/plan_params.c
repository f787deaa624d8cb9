/* plan_params.c - a table of the ranks that hold each parameter; then the content of each stage. */
#include "cli/cli.h"

#include "report/text/text_table.h"

static void shape_text(const tri_json *shape, char out[static 64]) {
    out[0] = 0;
    tri__json_each(shape, i, dim) snprintf(out + strlen(out), 64 - strlen(out), "%s%lld", i ? " x " : "",
                                           (long long)tri__json_integer_value(dim));
}

static tri_status print_stages(const tri_cli *cli, const tri_json *stages) {
    tri_text_table table = {0};
    char elements[32], bytes[32];
    tri__text_table_add(&table, "stage\tparameters\telements\tbytes\tunits");
    tri__json_items(stages, stage) tri__text_table_add(
        &table, "%lld\t%lld\t%s\t%s\t%s", (long long)tri__whole_in(stage, "stage"),
        (long long)tri__whole_in(stage, "parameters"), tri__text_count(tri__whole_in(stage, "elements"), elements),
        tri__text_bytes((double)tri__whole_in(stage, "bytes"), bytes), tri__text_in(stage, "units"));
    return tri__print_table(cli, &table);
}

tri_status tri__print_params(const tri_cli *cli, const tri_json *params) {
    tri_text_table table = {0};
    char shape[64], bytes[32], held[32];
    tri__json_each(tri__json_get(params, "parameters"), i, param) {
        const tri_json *plan = tri__json_get(param, "tp_plan");
        if (!i) tri__text_table_add(&table, "parameter\tshape\tstage\tsplit%s\tranks\tbytes\ta rank has",
                                    plan ? "\ttp plan" : "");
        shape_text(tri__json_get(param, "shape"), shape);
        tri__text_table_add(&table, "%s\t%s\t%lld\t%s%s%s\t%s\t%s\t%s", tri__text_in(param, "name"), shape,
                            (long long)tri__whole_in(param, "stage"), tri__text_in(param, "split"), plan ? "\t" : "",
                            plan ? tri__json_string_value(plan) : "",
                            tri__text_in(param, "owners"),
                            tri__text_bytes((double)tri__whole_in(param, "bytes"), bytes),
                            tri__text_bytes(tri__number_in(param, "bytes_per_rank"), held));
    }
    TRI_TRY(tri__print_table(cli, &table));
    if (tri__whole_in(params, "shards") > 1)
        fprintf(cli->out, "\nweights are sharded over %lld ranks: about as much of each\n",
                (long long)tri__whole_in(params, "shards"));
    fputc('\n', cli->out);
    return print_stages(cli, tri__json_get(params, "stages"));
}
