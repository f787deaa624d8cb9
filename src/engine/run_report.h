/* run_report.h - the first lines of a run: what of its settings decides speed, memory and results. */
#pragma once

#include "engine/cost/memory_fit.h"

/* room: what the plan needs of this machine's memory. */
void tri__run_say(const tri_settings *settings, const tri_engine *engine, const tri_room *room, const tri_log *log);
