/* accept.h - whether what was asked for can be done. */
#ifndef TRI_ENGINE_ACCEPT_H
#define TRI_ENGINE_ACCEPT_H

#include "settings/settings.h"

/* What is asked for against what this build can do, and values that must agree: TRI_USAGE. A folder to resume from that
 * is not there: TRI_NOINPUT. */
tri_status tri__engine_accept(const tri_settings *settings);

#endif
