/* stop.c - whether a stop was requested. */
#include "base/stop.h"

int tri__stop_signalled(const tri_stop *stop) {
    return stop && (atomic_load_explicit(&stop->signal, memory_order_relaxed) || (stop->asked && *stop->asked));
}

const char *tri__stop_name(const tri_stop *stop, char out[static 32]) {
    int number = stop ? atomic_load(&stop->signal) : 0;
    const char *name = number > 0 ? sigabbrev_np(number) : NULL;
    if (name) snprintf(out, 32, "SIG%s", name);
    else if (number > 0) snprintf(out, 32, "signal %d", number);
    else snprintf(out, 32, "%s", tri__stop_signalled(stop) ? "on request" : "");
    return out;
}

static tri_status check(const tri_stop *stop, const char *then, const char *format, va_list list) {
    char what[512], name[32];
    if (!tri__stop_signalled(stop)) return TRI_OK;
    vsnprintf(what, sizeof what, format, list);
    return tri__fail(TRI_STOPPED, "stopped (%s) while %s; %s", tri__stop_name(stop, name), what, then);
}

tri_status tri__stop_check(const tri_stop *stop, const char *format, ...) {
    va_list list;
    va_start(list, format);
    tri_status status = check(stop, "run again", format, list);
    va_end(list);
    return status;
}

tri_status tri__stop_check_kept(const tri_stop *stop, const char *format, ...) {
    va_list list;
    va_start(list, format);
    tri_status status = check(stop, "what is done is kept: run again to continue", format, list);
    va_end(list);
    return status;
}
