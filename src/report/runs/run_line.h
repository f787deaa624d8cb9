/* run_line.h - a line of metrics.jsonl without nested values, read without allocating: a run has 100,000 of them. */
#ifndef TRI_REPORT_RUNS_RUN_LINE_H
#define TRI_REPORT_RUNS_RUN_LINE_H

#include <stddef.h>

typedef struct tri_line_field {
    const char *key, *text; /* text: of a string */
    int key_length, length;
    char kind;              /* 'n' number, 's' string, 'b' boolean, '0' null */
    double number;
} tri_line_field;

/* The fields of a flat object; -1 if the line is anything else: nested values, escapes in strings, more than `most`
 * fields, or text that is not JSON. */
int tri__line_fields(const char *line, size_t length, tri_line_field *fields, int most);
/* NULL: it has no such field. */
const tri_line_field *tri__line_field(const tri_line_field *fields, int n, const char *key);

#endif
