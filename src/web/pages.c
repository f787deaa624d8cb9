/* pages.c - the files, as the assembler includes them. */
#include "web/pages.h"

#define PAGE(symbol, file) \
    __asm__(".section .rodata\n" #symbol ":\n.incbin \"src/web/" file "\"\n" #symbol "_end:\n.byte 0\n.previous\n"); \
    extern const char symbol[] __attribute__((visibility("hidden"))), \
        symbol##_end[] __attribute__((visibility("hidden")))

PAGE(tri__page_try_text, "try.html");
PAGE(tri__page_openapi_text, "openapi.json");
PAGE(tri__page_report_html, "report.html");
PAGE(tri__page_report_css, "report.css");
PAGE(tri__page_report_charts, "report_charts.js");
PAGE(tri__page_report_sections, "report_sections.js");
PAGE(tri__page_report_time, "report_time.js");
PAGE(tri__page_report_main, "report_main.js");

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
