/* http_echo.h - an HTTP server that echoes, for tests of the HTTP layer. */
#ifndef TRI_TESTS_HTTP_ECHO_H
#define TRI_TESTS_HTTP_ECHO_H

#include "tests/lib/http_client.h"

#include "base/clock.h"
#include "web/http.h"

#include <pthread.h>
#include <stdatomic.h>

typedef struct echo {
    tri_http *http;
    tri_keys_file keys;
    atomic_int done, last, late;    /* records; the last status; clients that were told 408 */
    pthread_t later;
    tri_exchange *held;
    atomic_int holding, release, held_ever, finished;
} echo;

extern const tri_http_route routes[];

int start_with(echo *e, tri_http_options options);
void stop(echo *e);
int wait_for(atomic_int *value, int least);
int alive(int port);

#endif
