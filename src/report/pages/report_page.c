/* report_page.c - the page of runs: its files (src/web/) and the data, in one document. */
#include "report/runs/run_data.h"

#include "web/pages.h"

tri_status tri__report_page(const tri_json *runs, int live, char **html, size_t *size) {
    TRI_OWNED(tri__free_at) char *text = tri__report_text(runs, live);
    tri_buffer out = {0};
    *html = NULL;
    if (text) {
        tri__page_fill(tri__page_report, text, &out);
        *html = tri__buffer_take(&out, size);
    }
    return *html ? TRI_OK : tri__fail(TRI_RESOURCE, "no memory for the report");
}
