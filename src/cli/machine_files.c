/* machine_files.c - where the files about this machine are. */
#include "cli/cli.h"

#include "sim/hardware.h"

/* "<$variable>/trident/<name>", else "~<below>/trident/<name>"; a relative folder is to be ignored. 0: neither is
 * set. */
static int file_of(const char *variable, const char *below, const char *name, char path[static TRI_PATH_MAX]) {
    const char *folder = getenv(variable), *home = getenv("HOME");
    int is_given = folder && *folder == '/';
    if (!is_given && !(home && *home)) return 0;
    int length = snprintf(path, TRI_PATH_MAX, "%s%s/trident/%s", is_given ? folder : home, is_given ? "" : below, name);
    return length < TRI_PATH_MAX;
}

tri_status tri__cli_peaks(char **out) {
    char path[TRI_PATH_MAX];
    *out = NULL;
    if (!file_of("XDG_CACHE_HOME", "/.cache", "peaks.json", path)) return TRI_OK;
    *out = strdup(path);
    return *out ? TRI_OK : tri__fail(TRI_RESOURCE, "out of memory");
}

tri_status tri__cli_calibrated(const char *device, char path[static TRI_PATH_MAX]) {
    char name[64];
    snprintf(name, sizeof name, "hardware-%.40s.json", device);
    if (file_of("XDG_CONFIG_HOME", "/.config", name, path)) return TRI_OK;
    return tri__fail(TRI_USAGE, "neither XDG_CONFIG_HOME nor HOME is set, or their path is too long: name the file "
                                "with -o");
}

tri_status tri__cli_hardware(tri_settings *settings, int needs) {
    char path[TRI_PATH_MAX];
    const char *device = strcmp(settings->device, "cuda") == 0 ? "cuda" : "cpu";
    int there = 0;
    if (tri__cli_calibrated(device, path) == TRI_OK) TRI_TRY(tri__file_there(path, &there));
    if (there) {
        settings->calibrated = strdup(path);
        if (!settings->calibrated) return tri__fail(TRI_RESOURCE, "out of memory");
    }
    if (!needs || settings->hardware) return TRI_OK;
    settings->hardware = strdup(settings->calibrated ? settings->calibrated : tri__hardware_of(device));
    return settings->hardware ? TRI_OK : tri__fail(TRI_RESOURCE, "out of memory");
}

static const char *given(const char *name) {
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

tri_status tri__cli_hub(char **out) {
    static const struct {
        const char *variable, *below;
    } rows[] = {{"HF_HUB_CACHE", ""},
                {"HF_HOME", "/hub"},
                {"XDG_CACHE_HOME", "/huggingface/hub"},
                {"HOME", "/.cache/huggingface/hub"}};
    char path[TRI_PATH_MAX];
    *out = NULL;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *value = given(rows[i].variable), *home = given("HOME");
        if (!value) continue;
        int in_home = strncmp(value, "~/", 2) == 0 && home; /* a shell does not expand it inside quotes */
        int length = snprintf(path, sizeof path, "%s%s%s", in_home ? home : "", value + in_home, rows[i].below);
        if (length >= TRI_PATH_MAX) return tri__fail(TRI_USAGE, "%s: the path is too long", rows[i].variable);
        *out = strdup(path);
        return *out ? TRI_OK : tri__fail(TRI_RESOURCE, "out of memory");
    }
    return TRI_OK;
}
