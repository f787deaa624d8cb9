/* http_load.h - a client that loads an HTTP server: one thread, many kept connections.
 *
 *   closed loop   each of the clients sends its next request when its last was answered
 *   open loop     requests are due at random times of a given rate, whether or not earlier ones were answered; a
 *                 latency counts from when the request was due, so that a stalled server is not spared
 *
 * A request whose connection was refused or closed before its answer began is sent again. */
#pragma once

#include "base/base.h"

typedef struct tri_load_in {
    const char *host;          /* an address, as 127.0.0.1 */
    int port;
    const char *const *request; /* [n] whole requests, sent in turn */
    const size_t *length;      /* [n] */
    int64_t n;
    int clients;               /* connections; open loop: at most so many */
    double rate;               /* requests a second; 0: closed loop */
    double seconds;            /* after which no further request is sent */
    int64_t requests;          /* nor after so many; 0: no limit */
} tri_load_in;

typedef struct tri_load_out {
    int64_t answered;          /* with 200 */
    int64_t refused, failed;   /* with 429 or 503; with another status */
    int64_t wrong;             /* another answer than the first one to the same request */
    int64_t retried;           /* connections refused or closed before an answer */
    double seconds;            /* until the last answer */
    double cpu;                /* CPU seconds of this client */
    double *latency;           /* [answered], seconds, rising; owned */
} tri_load_out;

tri_status tri__http_load(const tri_load_in *in, tri_load_out *out);
void tri__load_free(tri_load_out *out);
/* One GET on its own connection: the body, which the caller frees. */
tri_status tri__http_get(const char *host, int port, const char *path, char **body);
