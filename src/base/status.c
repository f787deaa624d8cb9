/* status.c - the text of a thread's last failure: the one piece of mutable static state in the library. */
#include "base/status.h"

#include "base/text.h"

enum { TEXT_BYTES = TRI_ERROR_BYTES };

static _Thread_local char error_text[TEXT_BYTES];

const char *tri_error(void) { return error_text; }

tri_status tri__fail(tri_status code, const char *format, ...) {
    TRI_FORMAT(error_text, TEXT_BYTES, format);
    return code;
}

tri_status tri__fail_in(tri_status code, const char *format, ...) {
    char text[TEXT_BYTES];
    memcpy(text, error_text, TEXT_BYTES);
    int used = TRI_FORMAT(error_text, TEXT_BYTES, format);
    int room = TEXT_BYTES - used - 3; /* for the text, between ": " and the 0 byte */
    if (used >= 0 && room > 0) snprintf(error_text + used, (size_t)(TEXT_BYTES - used), ": %.*s", room, text);
    return code;
}

tri_status tri__done(tri_status status) {
    if (status == TRI_OK) error_text[0] = 0;
    return status;
}

void tri__words_keep(tri_words *kept) { memcpy(kept->text, error_text, TEXT_BYTES); }
void tri__words_restore(const tri_words *kept) { memcpy(error_text, kept->text, TEXT_BYTES); }

void tri__assert_failed(const char *file, int line, const char *condition) {
    fprintf(stderr, "trident: bug at %s:%d: %s\n", file, line, condition);
    abort();
}
