/* http_tls.h - TLS for the server's connections, by GnuTLS, which is loaded when a server with a certificate starts. */
#pragma once

#include "base/base.h"

#include <sys/types.h>

typedef struct tri_tls tri_tls;
typedef struct tri_tls_session tri_tls_session;

/* TRI_USAGE: GnuTLS does not load, or the PEM texts do not belong together; TRI_RESOURCE. */
tri_status tri__tls_open(const char *certificate, const char *private_key, tri_tls **out);
void tri__tls_close(tri_tls *tls); /* accepts NULL */
/* A connection's session; NULL: out of memory. The socket must not block. */
tri_tls_session *tri__tls_begin(const tri_tls *tls, int fd);
void tri__tls_finish(tri_tls_session *session); /* nothing more is sent */
void tri__tls_end(tri_tls_session *session); /* accepts NULL */
/* As recv and send: -1 with EAGAIN, or with ECONNRESET for any other failure. The handshake is a part of receiving. */
ssize_t tri__tls_receive(tri_tls_session *session, void *data, size_t size);
ssize_t tri__tls_send(tri_tls_session *session, const void *data, size_t size);
/* "GnuTLS 3.7.9", or why there is none, into `out`. TRI_USAGE: there is none; TRI_RESOURCE: no memory. */
tri_status tri__tls_library(char *out, size_t size);
