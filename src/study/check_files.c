/* check_files.c - checks printed programs and reports what was checked, in figures. */
#include "study/programs.h"
#include "study/study.h"

/* Transfers counted at this rank: each is counted once, at the sender or at the group's first place. */
static int64_t transfers_of(const tri_program *p) {
    int64_t n = 0;
    for (int i = 0; i < p->n_instrs; i++) {
        const tri_instr *instr = &p->instr[i];
        if (instr->op == TRI_OP_send_post) n++;
        else if (tri__is_post(instr->op) && instr->op != TRI_OP_recv_post)
            n += tri__transfer_place(&p->mesh, p->rank, &instr->attr) == 0;
    }
    return n;
}

static tri_json *set_json(const tri_program_set *set) {
    int64_t instructions = 0, transfers = 0, bytes = 0;
    for (int rank = 0; rank < set->world; rank++) {
        const tri_program *p = set->rank[rank].parsed->program;
        instructions += p->n_instrs;
        transfers += transfers_of(p);
        if (tri__program_bytes(p) > bytes) bytes = tri__program_bytes(p);
    }
    return tri__json_pack("{s:s, s:i, s:I, s:I, s:I}", "title", set->title, "ranks", set->world, "instructions",
                          (tri_json_int)instructions, "transfers", (tri_json_int)transfers, "peak_bytes",
                          (tri_json_int)bytes);
}

static tri_status describe(tri_arena *arena, const tri_program_sets *sets, void *data) {
    tri_json **out = data, *programs = tri__json_array();
    (void)arena;
    for (int i = 0; i < sets->n; i++) tri__json_append_new(programs, set_json(&sets->at[i]));
    *out = tri__json_pack("{s:b, s:o}", "checked", 1, "programs", programs);
    return *out ? TRI_OK : tri__fail(TRI_RESOURCE, "out of memory");
}

tri_status tri__study_check(const char *const *paths, int n, tri_json **facts) {
    *facts = NULL;
    return tri__programs_read(paths, n, describe, facts);
}
