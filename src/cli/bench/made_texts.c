/* made_texts.c - a vocabulary of one-token words, and texts of any length from them, the same on every run. */
#include "cli/bench/made_texts.h"

#include "report/text/stream.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static const char *const specials[] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
enum { SPECIALS = sizeof specials / sizeof *specials };

tri_status tri__made_open(const char *folder, const char *name, char path[static TRI_PATH_MAX], FILE **out) {
    TRI_TRY(tri__path_join(path, folder, name));
    int fd;
    TRI_TRY(tri__file_own(path, TRI_OWN_FRESH, &fd));
    *out = tri__stream_open(fd, "w");
    if (!*out) close(fd);
    return *out ? TRI_OK : tri__fail(TRI_RESOURCE, "no memory to write %s", path);
}

tri_status tri__made_close(FILE *file, const char *path) {
    int failed = ferror(file);
    return fclose(file) || failed ? tri__fail(TRI_IO, "cannot write %s: %s", path, strerror(errno)) : TRI_OK;
}

static tri_status write_vocabulary(const char *folder, int n) {
    char path[TRI_PATH_MAX];
    FILE *out;
    TRI_TRY(tri__made_open(folder, "vocab.txt", path, &out));
    for (int i = 0; i < n; i++) {
        if (i < SPECIALS) fprintf(out, "%s\n", specials[i]);
        else fprintf(out, "word%d\n", i);
    }
    return tri__made_close(out, path);
}

tri_status tri__made_folders(const char *folder, int n, char vocab[static TRI_PATH_MAX],
                             char data[static TRI_PATH_MAX]) {
    TRI_TRY(tri__path_join(vocab, folder, "vocab"));
    TRI_TRY(tri__path_join(data, folder, "data"));
    TRI_TRY(tri__folder_make(vocab));
    TRI_TRY(tri__folder_make(data));
    return write_vocabulary(vocab, n);
}

void tri__made_text(FILE *out, int tokens, int vocabulary, uint32_t *random) {
    for (int i = 0; i < tokens - 2; i++) {
        *random = *random * 1664525u + 1013904223u;
        fprintf(out, "%sword%d", i ? " " : "", SPECIALS + (int)((*random >> 8) % (uint32_t)(vocabulary - SPECIALS)));
    }
}
