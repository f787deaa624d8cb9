/* program_text.h - compares programs with their committed texts. A change to a pass shows as a text difference: run
 * with TRIDENT_UPDATE_GOLDEN=1 and review it. */
#ifndef TESTS_PROGRAM_TEXT_H
#define TESTS_PROGRAM_TEXT_H

#include "program/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Parses a text with its first `find` replaced by `put`; find NULL: as it is. `name` stands in messages. */
static inline const tri_program *program_text_parse(tri_arena *arena, const char *name, const char *text,
                                                    const char *find, const char *put) {
    const char *at = find ? strstr(text, find) : text;
    tri_program *program;
    assert_non_null(at);
    const char *rest = find ? at + strlen(find) : text, *with = find ? put : "";
    OK(tri__program_parse(arena, name, tri__arena_print(arena, "%.*s%s%s", (int)(at - text), text, with, rest),
                          &program));
    return program;
}

/* Removes scratch memory, whose size depends on kernels and so on the machine. */
static inline char *program_text_cut(const char *text) {
    char *out = calloc(1, strlen(text) + 1), *end = out;
    for (const char *line = text; *line;) {
        size_t length = strcspn(line, "\n");
        length += line[length] == '\n';
        int skip = strncmp(line, "# peak", 6) == 0 || strncmp(line, "slot work ", 10) == 0;
        const char *work = strncmp(line, "bytes", 5) == 0 ? strstr(line, " work=") : NULL;
        if (work && work >= line + length) work = NULL; /* of another program */
        size_t kept = work ? (size_t)(work - line) : length;
        if (!skip) memcpy(end, line, kept), end += kept;
        if (work) *end++ = '\n';
        line += length;
    }
    return out;
}

/* n programs, one after the other. */
static inline void program_text_check(const char *path, const tri_program *const *programs, int n) {
    char *text = NULL, *golden = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    for (int i = 0; i < n; i++) tri__program_print(programs[i], out);
    fclose(out);
    if (getenv("TRIDENT_UPDATE_GOLDEN")) {
        FILE *file = fopen(path, "w");
        assert_non_null(file);
        fputs(text, file);
        fclose(file);
    }
    FILE *in = fopen(path, "r");
    if (!in) fail_msg("%s is missing: run with TRIDENT_UPDATE_GOLDEN=1 and review it", path);
    golden = calloc(1, 2 * size + 1);
    assert_true(fread(golden, 1, 2 * size, in) > 0);
    fclose(in);
    char *got = program_text_cut(text), *want = program_text_cut(golden);
    if (strcmp(got, want) != 0) {
        int line = 1;
        size_t at = 0;
        for (; got[at] == want[at]; at++) line += got[at] == '\n';
        while (at > 0 && got[at - 1] != '\n') at--;
        fail_msg("%s, line %d without scratch space: the plan says \"%.*s\"", path, line, (int)strcspn(got + at, "\n"),
                 got + at);
    }
    free(got), free(want), free(golden), free(text);
}

#endif
