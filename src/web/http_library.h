/* http_library.h - the functions of libmicrohttpd that we call, found when a server starts: so that no other command
 * loads it and the TLS library that it brings. */
#ifndef TRI_WEB_HTTP_LIBRARY_H
#define TRI_WEB_HTTP_LIBRARY_H

#include "base/status.h"

#include <microhttpd.h>

#define TRI_HTTP_CALLS(X) \
    X(start_daemon) X(stop_daemon) X(quiesce_daemon) X(suspend_connection) X(resume_connection) \
    X(get_connection_info) X(get_connection_values) X(lookup_connection_value) X(create_response_from_buffer) \
    X(add_response_header) X(queue_response) X(destroy_response) X(get_version) X(is_feature_supported)

typedef struct tri_http_calls {
#define MEMBER(name) __typeof__(MHD_##name) *name;
    TRI_HTTP_CALLS(MEMBER)
#undef MEMBER
} tri_http_calls;

/* TRI_USAGE: it does not load; says what to install. It stays loaded. */
tri_status tri__http_calls_find(tri_http_calls *calls);

#endif
