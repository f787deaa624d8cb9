/* joined.c - names of tensors that files have joined. */
#include "checkpoint/joined.h"

enum { MOST_PARTS = 3 };
static const struct {
    const char *tensor, *part[MOST_PARTS];
} joined[] = {{".Wqkv.", {"query.", "key.", "value."}}, {".Wi.", {"input.", "gate.", NULL}}};

int tri__joined_parts(const char *name, int *part, char whole[static TRI_PATH_MAX]) {
    for (size_t i = 0; i < sizeof joined / sizeof *joined; i++) {
        const char *at = strstr(name, joined[i].tensor);
        int n = joined[i].part[MOST_PARTS - 1] ? MOST_PARTS : MOST_PARTS - 1;
        if (!at) continue;
        at += strlen(joined[i].tensor);
        for (*part = 0; *part < n; (*part)++) {
            const char *word = joined[i].part[*part];
            if (!tri__text_begins(at, word)) continue;
            snprintf(whole, TRI_PATH_MAX, "%.*s%s", (int)(at - name), name, at + strlen(word));
            return n;
        }
    }
    return 0;
}
