/* fuzz_program.c - a text of programs. What is accepted can be checked, alone and, where all ranks of a mesh are there,
 * together and timed; and prints as text that is accepted and prints the same. */
#include "fuzz.h"

#include "program/check.h"
#include "program/text.h"
#include "sim/timeline.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_RANKS = 8 };

static const char *line_of(const void *data, int rank, int instr, int slot, char text[static TRI_ORIGIN_TEXT]) {
    const tri_parsed *parsed = (const tri_parsed *)data + rank;
    int line = instr >= 0 ? parsed->instr_line[instr] : slot >= 0 ? parsed->slot_line[slot] : parsed->line;
    snprintf(text, TRI_ORIGIN_TEXT, "input:%d", line);
    return text;
}

/* Read once: it is not what is tried here, and takes a hundred times as long as an input. */
static const tri_hardware *a_machine(void) {
    static tri_arena arena;
    static tri_hardware hardware;
    if (arena.chunk) return &hardware;
    FUZZ_CHECK(tri__arena_open(&arena, 1 << 20) == TRI_OK);
    FUZZ_CHECK(tri__hardware_open(&arena, "h200x8", &hardware) == TRI_OK);
    return &hardware;
}

/* Each alone; and together, when they are those of all ranks in order. */
static void check(tri_arena *arena, const tri_parsed *parsed, int n) {
    const tri_program *program[MOST_RANKS] = {NULL};
    tri_classes ranks;
    tri_timeline line;
    for (int i = 0; i < n; i++) {
        tri_status status = tri__check((const tri_program *const[]){parsed[i].program}, 1);
        FUZZ_CHECK(status == TRI_OK || status == TRI_INTERNAL);
        if (i < MOST_RANKS) program[i] = parsed[i].program;
        const tri_mesh *mesh = &parsed[i].program->mesh;
        if (mesh->pp < 1 || mesh->tp < 1 || mesh->dp < 1 || (double)mesh->pp * mesh->tp * mesh->dp > MOST_RANKS) return;
    }
    if (n > MOST_RANKS || tri__classes_list(&ranks, arena, program, n) != TRI_OK) return;
    for (int i = 1; i < n; i++)
        if (program[i]->n_mb != program[0]->n_mb || memcmp(&program[i]->max, &program[0]->max, sizeof(tri_counts)) != 0)
            return;
    tri_status status = tri__check_read(&ranks, &(tri_origin){line_of, parsed});
    FUZZ_CHECK(status == TRI_OK || status == TRI_DATA);
    if (status != TRI_OK) return;
    FUZZ_CHECK(tri__timeline(arena, &ranks, &(tri_costs){.hardware = a_machine()}, &line) == TRI_OK);
    FUZZ_CHECK(line.seconds >= 0);
}

/* The text as it prints again; NULL when it is refused. */
static char *reprint(const char *text, int checks) {
    static tri_arena arena; /* kept, and emptied for each text: mapping one takes as long as parsing */
    tri_parsed *parsed;
    int n;
    char *printed = NULL;
    size_t size;
    if (arena.chunk) tri__arena_rewind(&arena, 0);
    else FUZZ_CHECK(tri__arena_open(&arena, 1 << 20) == TRI_OK);
    tri_status status = tri__programs_parse(&arena, "input", text, &parsed, &n);
    FUZZ_CHECK(status == TRI_OK || status == TRI_DATA);
    if (status == TRI_OK) {
        if (checks) check(&arena, parsed, n);
        FILE *out = open_memstream(&printed, &size);
        FUZZ_CHECK(out != NULL);
        for (int i = 0; i < n; i++) tri__program_print(parsed[i].program, out);
        FUZZ_CHECK(fclose(out) == 0 && printed);
    }
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
