/* machine_files.h - files about this machine: the hardware that commands predict with where none is given, its peaks,
 * and Hugging Face's cache of models. */
#pragma once

#include "base/file.h"
#include "cli/cli.h"

/* The file of the peaks that were measured: peaks.json in $XDG_CACHE_HOME/trident or ~/.cache/trident. The caller frees
 * *out; NULL: neither variable is set. */
tri_status tri__cli_peaks(char **out);
/* The file of `trident calibrate` for a device: hardware-DEVICE.json in $XDG_CONFIG_HOME/trident or
 * ~/.config/trident. TRI_USAGE when neither variable is set. */
tri_status tri__cli_calibrated(const char *device, char path[static TRI_PATH_MAX]);
/* Sets settings->calibrated if there is such a file; with `needs`, also --hardware where it was not given: to that file
 * or the device's built-in hardware. */
tri_status tri__cli_hardware(tri_settings *settings, int needs);
/* The folder of the cache: HF_HUB_CACHE, else HF_HOME/hub, else huggingface/hub of XDG_CACHE_HOME or ~/.cache. The
 * caller frees *out; NULL: none of them is set. */
tri_status tri__cli_hub(char **out);
