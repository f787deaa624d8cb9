/* fuzz_program.c - a program's text. What is accepted can be checked, and prints as text that is accepted and prints
 * the same. */
#include "fuzz.h"

#include "program/check.h"
#include "program/text.h"

#include <stdlib.h>
#include <string.h>

/* The text as it prints again; NULL when it is refused. */
static char *reprint(const char *text, int check) {
    tri_arena arena;
    tri_program *program;
    char *printed = NULL;
    FUZZ_CHECK(tri__arena_open(&arena, (size_t)1 << 28) == TRI_OK);
    tri_status status = tri__program_parse(&arena, "input", text, &program);
    FUZZ_CHECK(status == TRI_OK || status == TRI_DATA);
    if (status == TRI_OK && check) {
        status = tri__check((const tri_program *const[]){program}, 1);
        FUZZ_CHECK(status == TRI_OK || status == TRI_INTERNAL);
        status = TRI_OK;
    }
    if (status == TRI_OK) FUZZ_CHECK(tri__program_text(program, &printed) == TRI_OK);
    tri__arena_close(&arena);
    return printed;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = malloc(size + 1);
    FUZZ_CHECK(text != NULL);
    memcpy(text, data, size);
    text[size] = 0;
    char *first = reprint(text, 1), *second = first ? reprint(first, 0) : NULL;
    FUZZ_CHECK(!first || second);
    FUZZ_CHECK(!first || strcmp(first, second) == 0);
    free(second);
    free(first);
    free(text);
    return 0;
}
