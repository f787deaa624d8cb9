/* replay.c - a target without libFuzzer: feeds it every file of its corpus and of its regressions, then each of them
 * cut short and with single bytes changed, the same ones each time. `make test` runs it, with any compiler.
 *   BUILD/tests/test_fuzz_NAME             all of fuzz/corpus/NAME and fuzz/regress/NAME
 *   BUILD/tests/test_fuzz_NAME FILE...     these files as they are, e.g. a finding */
#include "fuzz.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VARIANTS = 600, INPUT_MAX = 4 << 20 };

/* In memory of exactly its size, so that sanitizers see a read past its end. */
static void feed(const uint8_t *data, size_t size) {
    uint8_t *copy = malloc(size ? size : 1);
    FUZZ_CHECK(copy != NULL);
    memcpy(copy, data, size);
    LLVMFuzzerTestOneInput(copy, size);
    free(copy);
}

/* Returns how many inputs were fed; -1 when the file cannot be read. */
static long feed_file(const char *path, int variants) {
    FILE *in = fopen(path, "rb");
    uint8_t *data = malloc(INPUT_MAX);
    if (!in || !data) {
        perror(path);
        if (in) fclose(in);
        free(data);
        return -1;
    }
    size_t size = fread(data, 1, INPUT_MAX, in);
    fclose(in);
    feed(data, size);
    long n = 1;
    uint32_t random = 1;
    for (int i = 0; i < variants && size; i++, n++) {
        random = random * 1664525u + 1013904223u;
        size_t at = ((uint64_t)random * size) >> 32;
        uint8_t kept = data[at];
        if (i & 1) {
            data[at] = i & 2 ? (uint8_t)(kept ^ 1u << (random & 7)) : (uint8_t) "\0\xFF\"{[}],:\n0"[(random >> 3) % 11];
            feed(data, size);
            data[at] = kept;
        } else {
            feed(data, at);
        }
    }
    free(data);
    return n;
}

static long feed_folder(const char *kind, const char *name, long *files) {
    char folder[512], path[1024];
    snprintf(folder, sizeof folder, "fuzz/%s/%s", kind, name);
    struct dirent **entry;
    int n = scandir(folder, &entry, NULL, alphasort);
    long fed = 0;
    for (int i = 0; i < n; i++) {
        if (entry[i]->d_name[0] != '.' && fed >= 0) {
            snprintf(path, sizeof path, "%s/%s", folder, entry[i]->d_name);
            long more = feed_file(path, VARIANTS);
            fed = more < 0 ? -1 : fed + more;
            ++*files;
        }
        free(entry[i]);
    }
    if (n >= 0) free(entry);
    return fed;
}

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++)
        if (feed_file(argv[i], 0) < 0) return 1;
    if (argc > 1) return 0;
    const char *base = strrchr(argv[0], '/') ? strrchr(argv[0], '/') + 1 : argv[0];
    const char *name = strncmp(base, "test_fuzz_", 10) == 0 ? base + 10 : base;
    long files = 0, corpus = feed_folder("corpus", name, &files), regress = feed_folder("regress", name, &files);
    if (corpus <= 0 || regress < 0) {
        fprintf(stderr, "fuzz/corpus/%s: nothing to feed; run this from the repository's root\n", name);
        return 1;
    }
    printf("%s: %ld files, %ld inputs\n", name, files, corpus + regress);
    return 0;
}
