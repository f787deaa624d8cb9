/* http_tls.c - the functions of GnuTLS that we call, declared here: its interface has been the same since version 3.4
 * (libgnutls.so.30), and so neither a build nor a server without TLS needs it. */
#include "web/http_tls.h"

#include "base/library.h"

#include <dlfcn.h>
#include <errno.h>

typedef struct datum {
    unsigned char *data;
    unsigned size;
} datum;
enum { SERVER = 1, NONBLOCK = 1 << 3, NO_SIGNAL = 1 << 6 }; /* of init */
enum { PEM = 1, CERTIFICATE = 1, SHUT_WRITE = 1, AGAIN = -28, INTERRUPTED = -52 };

#define FUNCTIONS(X) \
    X(const char *, check_version, (const char *least)) \
    X(int, certificate_allocate_credentials, (void **credentials)) \
    X(void, certificate_free_credentials, (void *credentials)) \
    X(int, certificate_set_x509_key_mem, (void *credentials, const datum *certificate, const datum *key, int form)) \
    X(int, init, (void **session, unsigned flags)) \
    X(void, deinit, (void *session)) \
    X(int, set_default_priority, (void *session)) \
    X(int, credentials_set, (void *session, int kind, void *credentials)) \
    X(void, transport_set_int2, (void *session, int in, int out)) \
    X(int, handshake, (void *session)) \
    X(int, bye, (void *session, int how)) \
    X(ssize_t, record_recv, (void *session, void *data, size_t size)) \
    X(ssize_t, record_send, (void *session, const void *data, size_t size))

struct tri_tls {
#define X(type, name, arguments) type(*name) arguments;
    FUNCTIONS(X)
#undef X
    void *credentials;
};

struct tri_tls_session {
    const tri_tls *tls;
    void *of;                  /* GnuTLS's */
    int is_open;               /* the handshake is over */
};

static tri_status load(tri_tls *tls) {
    static const char name[] = "libgnutls.so.30";
    void *library = NULL;
    for (int i = 0; i < 2 && !library; i++) { /* twice: without memory for a path it is "not found", too */
        library = dlopen(name, RTLD_NOW | RTLD_LOCAL); /* never unloaded */
        const char *why = library ? NULL : dlerror();
        if (tri__library_no_memory(why)) return tri__fail(TRI_RESOURCE, "no memory to load %s (%s)", name, why);
    }
    if (!library)
        return tri__fail(TRI_USAGE, "TLS needs %s, which does not load: apt-get install libgnutls30, or put a proxy "
                         "with TLS in front", name);
    int missing = 0;
#define X(type, name, arguments) missing |= !(*(void **)&tls->name = dlsym(library, "gnutls_" #name));
    FUNCTIONS(X)
#undef X
    return missing ? tri__fail(TRI_USAGE, "%s lacks functions of GnuTLS 3.4: install a newer one", name) : TRI_OK;
}

static datum datum_of(const char *text) { return (datum){(unsigned char *)text, (unsigned)strlen(text)}; }

tri_status tri__tls_open(const char *certificate, const char *private_key, tri_tls **out) {
    tri_tls *tls = calloc(1, sizeof *tls);
    const datum pem[] = {datum_of(certificate), datum_of(private_key)};
    *out = NULL;
    if (!tls) return tri__fail(TRI_RESOURCE, "out of memory");
    tri_status status = load(tls);
    if (status == TRI_OK && tls->certificate_allocate_credentials(&tls->credentials))
        status = tri__fail(TRI_RESOURCE, "out of memory for TLS");
    if (status == TRI_OK && tls->certificate_set_x509_key_mem(tls->credentials, &pem[0], &pem[1], PEM))
        status = tri__fail(TRI_USAGE, "the HTTP server does not start: are --tls-cert and --tls-key PEM files that "
                           "belong together?");
    if (status == TRI_OK) *out = tls;
    else tri__tls_close(tls);
    return status;
}

void tri__tls_close(tri_tls *tls) {
    if (tls && tls->credentials) tls->certificate_free_credentials(tls->credentials);
    free(tls);
}

tri_tls_session *tri__tls_begin(const tri_tls *tls, int fd) {
    tri_tls_session *session = calloc(1, sizeof *session);
    if (!session || tls->init(&session->of, SERVER | NONBLOCK | NO_SIGNAL)) return free(session), NULL;
    session->tls = tls;
    if (tls->set_default_priority(session->of) || tls->credentials_set(session->of, CERTIFICATE, tls->credentials))
        return tri__tls_end(session), NULL;
    tls->transport_set_int2(session->of, fd, fd);
    return session;
}

void tri__tls_finish(tri_tls_session *session) { session->tls->bye(session->of, SHUT_WRITE); }

void tri__tls_end(tri_tls_session *session) {
    if (!session) return;
    if (session->is_open) tri__tls_finish(session);
    session->tls->deinit(session->of);
    free(session);
}

static ssize_t outcome(ssize_t n) {
    if (n >= 0) return n;
    errno = n == AGAIN || n == INTERRUPTED ? EAGAIN : ECONNRESET;
    return -1;
}

ssize_t tri__tls_receive(tri_tls_session *session, void *data, size_t size) {
    int failed = session->is_open ? 0 : session->tls->handshake(session->of);
    session->is_open = !failed;
    return outcome(failed ? failed : session->tls->record_recv(session->of, data, size));
}

ssize_t tri__tls_send(tri_tls_session *session, const void *data, size_t size) {
    return outcome(session->tls->record_send(session->of, data, size));
}

tri_status tri__tls_library(char *out, size_t size) {
    tri_tls tls = {0};
    tri_status status = load(&tls);
    if (status == TRI_OK) snprintf(out, size, "GnuTLS %s", tls.check_version(NULL));
    else snprintf(out, size, "%s", tri_error());
    return status;
}
