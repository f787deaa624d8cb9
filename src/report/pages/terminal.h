/* terminal.h - a run on a screen of text: its state, the loss as a curve, rates, time left, memory, each rank's
 * waiting, the last validation and warnings. Drawn from the run's data (run_data.h), anew each time. */
#pragma once

#include "base/json.h"

typedef struct tri_screen {
    int width, height;    /* columns; lines, 0: as many as there are */
    int color, utf8;      /* may be coloured; blocks and bars of Unicode, else ASCII */
} tri_screen;

/* Lines that end in \n, at most `height` of them, each at most `width` columns wide; those that matter least are left
 * out first. `now`: seconds since 1970. Texts of the run cannot move the cursor or change colours. */
void tri__terminal_draw(const tri_json *run, const tri_screen *screen, double now, tri_buffer *out);
