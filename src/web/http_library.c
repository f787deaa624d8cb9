/* http_library.c - loads libmicrohttpd. */
#include "web/http_library.h"

#include "base/library.h"
#include "web/http.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

/* A function pointer from the library; dlsym gives an object pointer. */
static int find(void *library, const char *name, void *function, size_t size) {
    void *symbol = dlsym(library, name);
    memcpy(function, &symbol, size);
    return symbol != NULL;
}

tri_status tri__http_calls_find(tri_http_calls *calls) {
    static const char *const names[] = {"libmicrohttpd.so.12", "libmicrohttpd.so"};
    void *library = NULL;
    const size_t n = sizeof names / sizeof *names;
    for (size_t i = 0; i < 2 * n && !library; i++) { /* twice: without memory for a path it is "not found", too */
        library = dlopen(names[i % n], RTLD_NOW | RTLD_LOCAL);
        const char *why = library ? NULL : dlerror();
        if (tri__library_no_memory(why)) return tri__fail(TRI_RESOURCE, "no memory to load %s (%s)", names[i % n], why);
    }
    if (!library)
        return tri__fail(TRI_USAGE,
                         "HTTP needs libmicrohttpd.so.12, which does not load: apt-get install libmicrohttpd12");
#define FIND(name) \
    if (!find(library, "MHD_" #name, &calls->name, sizeof calls->name)) \
        return tri__fail(TRI_USAGE, "libmicrohttpd has no MHD_" #name ": install version 0.9.60 or later");
    TRI_HTTP_CALLS(FIND)
#undef FIND
    return TRI_OK;
}

tri_status tri__http_library(char *out, size_t size) {
    tri_http_calls calls;
    tri_status status = tri__http_calls_find(&calls);
    if (status == TRI_OK)
        snprintf(out, size, "libmicrohttpd %s%s", calls.get_version(),
                 calls.is_feature_supported(MHD_FEATURE_TLS) == MHD_YES ? ", TLS" : ", without TLS");
    else snprintf(out, size, "%s", tri_error());
    return status;
}
