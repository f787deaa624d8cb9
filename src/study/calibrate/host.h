/* host.h - measures the host's side of a step. */
#ifndef TRI_STUDY_CALIBRATE_HOST_H
#define TRI_STUDY_CALIBRATE_HOST_H

#include "sim/hardware.h"

/* Sets copy (memory to memory, as a CPU's inputs are copied) and the loader's host.row and host.token. */
tri_status tri__calibrate_host(tri_hardware *out);

#endif
