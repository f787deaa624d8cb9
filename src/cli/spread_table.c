/* spread_table.c - the table of the figures of several runs. */
#include "cli/cli.h"
#include "report/text/text_table.h"

/* What it is of, and its figures, in the order of `names`. */
static void add_row(tri_text_table *table, const tri_json *names, const char *title, const tri_json *figures) {
    tri__text_table_add(table, "%.200s", title);
    tri__json_members(names, m) {
        const tri_json *own = tri__json_get(figures, m->key);
        if (!figures) tri__text_table_more(table, "%.40s", m->key);
        else tri__text_table_more(table, tri__json_is_number(own) ? "%.4f" : "-", tri__json_number_value(own));
    }
}

tri_status tri__members_print(const tri_cli *cli, const tri_json *facts, const char *list, const char *title,
                              int moments) {
    const tri_json *mean = tri__json_get(facts, "mean");
    tri_text_table table = {0};
    if (!tri__json_object_size(mean)) return TRI_OK;
    add_row(&table, mean, title, NULL);
    tri__json_items(tri__json_get(facts, list), run) {
        const tri_json *own = tri__json_get(run, title);
        const char *number = TRI_TEXT(24, "%lld", (long long)tri__json_integer_value(own));
        add_row(&table, mean, tri__json_is_string(own) ? tri__json_string_value(own) : number,
                tri__json_get(run, "figures"));
    }
    if (moments) add_row(&table, mean, "mean", mean);
    if (moments) add_row(&table, mean, "spread", tri__json_get(facts, "spread"));
    return tri__print_table(cli, &table);
}
