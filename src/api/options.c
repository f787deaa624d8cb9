/* options.c - options as a C program passes them. */
#include "api/options.h"

tri_status tri__api_options(tri_settings *settings, const char *command, int n, const char *const *options) {
    const char *word;
    int n_words = 0;
    TRI_TRY(tri__settings_init(settings));
    TRI_TRY(tri__settings_parse(settings, command, n, options, &word, 1, &n_words));
    return n_words ? tri__fail(TRI_USAGE, "unexpected word '%s': options begin with --", word) : TRI_OK;
}
