/* auto_layout.h - `train --layout auto`: one layout for all ranks of a run. */
#ifndef TRI_CLI_AUTO_LAYOUT_H
#define TRI_CLI_AUTO_LAYOUT_H

#include "cli/launch.h"

/* With --layout auto: sets the layout's options and the batch. It is that of the checkpoint that the run continues, if
 * that one chose it for as many ranks; else the first choice of a search. A process that starts ranks passes it to them
 * in TRI_LAYOUT_VARIABLE, through cli->environment; ranks that an MPI launcher started take rank 0's (`world`; NULL:
 * not joined yet, and nothing happens). Whoever chose says so. Then settles the batch of a continued run and checks the
 * options; without --layout auto that is all. */
#define TRI_LAYOUT_VARIABLE "TRIDENT_LAYOUT"
tri_status tri__cli_layout(tri_cli *cli, tri_settings *settings, const tri_launch *launch, tri_world *world);

#endif
