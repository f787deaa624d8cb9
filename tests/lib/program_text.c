/* program_text.c - see program_text.h. */
#include "tests/lib/program_text.h"

#include "tests/lib/tiny.h"

const char *program_text_edited(tri_arena *arena, const char *text, const char *find, const char *put) {
    const char *at = find ? strstr(text, find) : text;
    assert_non_null(at);
    return find ? tri__arena_print(arena, "%.*s%s%s", (int)(at - text), text, put, at + strlen(find)) : text;
}

const tri_program *program_text_parse(tri_arena *arena, const char *name, const char *text, const char *find,
                                      const char *put) {
    tri_program *program;
    OK(tri__program_parse(arena, name, program_text_edited(arena, text, find, put), &program));
    return program;
}

/* Removes scratch memory, whose size depends on kernels and so on the machine. */
static char *program_text_cut(const char *text) {
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

void program_text_check(const char *path, const tri_program *const *programs, int n) {
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

tri_program *program_text_again(tri_arena *arena, const tri_program *program, const char *line) {
    char *first, *second;
    tri_program *parsed;
    OK(tri__program_text(program, &first));
    assert_non_null(strstr(first, line));
    OK(tri__program_parse(arena, "again", first, &parsed));
    OK(tri__program_text(parsed, &second));
    assert_string_equal(first, second);
    assert_true(tri__program_equal(program, parsed));
    free(first), free(second);
    return parsed;
}
