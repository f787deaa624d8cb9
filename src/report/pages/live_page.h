/* live_page.h - a run's page while the run goes on, over HTTP: `/` is the page, `/data.json` what it shows now. The
 * folder is read when somebody asks, so that an unwatched run costs nothing. */
#pragma once

#include "base/base.h"

typedef struct tri_live_page tri_live_page;

typedef struct tri_live_options {
    const char *folder;   /* of the run; may not exist yet */
    const char *host;
    const char *allow_host; /* further names, separated by commas; NULL: none */
    int port;             /* 0: the system picks one */
    double least_seconds; /* between two readings of the folder */
} tri_live_options;

/* As tri__http_start. What `options` points to is used until the page is closed. */
tri_status tri__live_open(const tri_live_options *options, tri_live_page **out);
const char *tri__live_address(const tri_live_page *live); /* "http://127.0.0.1:8081" */
void tri__live_close(tri_live_page *live);                /* accepts NULL */
