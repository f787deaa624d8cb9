/* options.h - options as a C program passes them. */
#pragma once

#include "settings/settings.h"

/* Sets the defaults, then reads options of a command. Positional words are refused. Whatever it returns, the caller
 * frees the settings. */
tri_status tri__api_options(tri_settings *settings, const char *command, int n, const char *const *options);
