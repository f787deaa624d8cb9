/* hardware.c - where the file of a calibrated machine is. */
#include "cli/hardware.h"

#include "sim/hardware.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

tri_status tri__cli_calibrated(const tri_cli *cli, const char *device, char path[static TRI_PATH_MAX]) {
    const char *config = cli->lookup("XDG_CONFIG_HOME"), *home = cli->lookup("HOME");
    int is_config = config && *config == '/', length; /* a relative one is to be ignored */
    if (!is_config && !(home && *home))
        return tri__fail(TRI_USAGE, "neither XDG_CONFIG_HOME nor HOME is set: name the file with -o");
    if (!is_config) config = home;
    length = snprintf(path, TRI_PATH_MAX, "%s%s/trident/hardware-%s.json", config, is_config ? "" : "/.config", device);
    return length < TRI_PATH_MAX ? TRI_OK : tri__fail(TRI_USAGE, "%s: the path is too long", config);
}

tri_status tri__cli_hardware(const tri_cli *cli, tri_settings *settings, int needs) {
    char path[TRI_PATH_MAX];
    const char *device = strcmp(settings->device, "cuda") == 0 ? "cuda" : "cpu";
    int there = 0;
    if (tri__cli_calibrated(cli, device, path) == TRI_OK) TRI_TRY(tri__file_there(path, &there));
    if (there) {
        settings->calibrated = strdup(path);
        if (!settings->calibrated) return tri__fail(TRI_RESOURCE, "out of memory");
    }
    if (!needs || settings->hardware) return TRI_OK;
    settings->hardware = strdup(settings->calibrated ? settings->calibrated : tri__hardware_of(device));
    return settings->hardware ? TRI_OK : tri__fail(TRI_RESOURCE, "out of memory");
}
