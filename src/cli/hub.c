/* hub.c - where Hugging Face keeps models, by the variables that its own programs read. */
#include "cli/hub.h"

#include "base/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *given(char *(*lookup)(const char *), const char *name) {
    const char *value = lookup(name);
    return value && *value ? value : NULL;
}

tri_status tri__cli_hub(char *(*lookup)(const char *), char **out) {
    static const struct {
        const char *variable, *below;
    } rows[] = {{"HF_HUB_CACHE", ""},
                {"HF_HOME", "/hub"},
                {"XDG_CACHE_HOME", "/huggingface/hub"},
                {"HOME", "/.cache/huggingface/hub"}};
    char path[TRI_PATH_MAX];
    *out = NULL;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *value = given(lookup, rows[i].variable), *home = given(lookup, "HOME");
        if (!value) continue;
        int in_home = strncmp(value, "~/", 2) == 0 && home; /* a shell does not expand it inside quotes */
        int length = snprintf(path, sizeof path, "%s%s%s", in_home ? home : "", value + in_home, rows[i].below);
        if (length >= TRI_PATH_MAX) return tri__fail(TRI_USAGE, "%s: the path is too long", rows[i].variable);
        *out = strdup(path);
        return *out ? TRI_OK : tri__fail(TRI_RESOURCE, "out of memory");
    }
    return TRI_OK;
}
