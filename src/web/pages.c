/* pages.c - the files, which are part of the program. */
#include "web/pages.h"

#include "base/embedded.h"

TRI_EMBEDDED(tri__page_try_text, "src/web/try.html");
TRI_EMBEDDED(tri__page_openapi_text, "src/web/openapi.json");
TRI_EMBEDDED(tri__page_report_html, "src/web/report.html");
TRI_EMBEDDED(tri__page_report_css, "src/web/report.css");
TRI_EMBEDDED(tri__page_report_charts, "src/web/report_charts.js");
TRI_EMBEDDED(tri__page_report_sections, "src/web/report_sections.js");
TRI_EMBEDDED(tri__page_report_time, "src/web/report_time.js");
TRI_EMBEDDED(tri__page_report_main, "src/web/report_main.js");

const char *tri__page_try(size_t *size) {
    *size = (size_t)(tri__page_try_text_end - tri__page_try_text);
    return tri__page_try_text;
}

const char *tri__page_openapi(size_t *size) {
    *size = (size_t)(tri__page_openapi_text_end - tri__page_openapi_text);
    return tri__page_openapi_text;
}

const tri_page_file tri__page_report[] = {
    {"report.html", tri__page_report_html, tri__page_report_html_end},
    {"report.css", tri__page_report_css, tri__page_report_css_end},
    {"report_charts.js", tri__page_report_charts, tri__page_report_charts_end},
    {"report_sections.js", tri__page_report_sections, tri__page_report_sections_end},
    {"report_time.js", tri__page_report_time, tri__page_report_time_end},
    {"report_main.js", tri__page_report_main, tri__page_report_main_end},
    {0}};
