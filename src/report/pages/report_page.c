/* report_page.c - the page of runs: its files (src/web/) and the data, in one document. */
#include "report/runs/run_data.h"

#include "base/buffer.h"
#include "web/pages.h"

#include <stdlib.h>

tri_status tri__report_page(const tri_json *runs, int live, char **html, size_t *size) {
    tri_json *data = tri__report_json(runs, live);
    char *text = data ? tri__json_text(data, TRI_JSON_COMPACT | TRI_JSON_REAL_PRECISION(9)) : NULL;
    tri_buffer out = {0};
    *html = NULL;
    if (text) {
        tri__page_fill(tri__page_report, text, &out);
        *html = tri__buffer_take(&out, size);
    }
    free(text);
    tri__json_decref(data);
    return *html ? TRI_OK : tri__fail(TRI_RESOURCE, "no memory for the report");
}
