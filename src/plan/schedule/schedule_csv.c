/* schedule_csv.c - the compute order as text that PyTorch's pipelining and torchtitan read. */
#include "plan/schedule/schedule.h"

const char *tri__schedule_csv(tri_arena *arena, const tri_pipeline *pipeline, const tri_actions *orders) {
    static const char letter[] = {[TRI_ACT_F] = 'F', [TRI_ACT_B] = 'I', [TRI_ACT_W] = 'W', [TRI_ACT_BW] = 'B'};
    enum { LONGEST = 24 }; /* two numbers of an int, a letter, a comma */
    size_t room = 1, used = 0;
    for (int rank = 0; rank < pipeline->n_ranks; rank++) room += 1 + LONGEST * (size_t)orders[rank].n;
    char *text = tri__arena_alloc(arena, room);
    for (int rank = 0; rank < pipeline->n_ranks; rank++) {
        for (int i = 0; i < orders[rank].n; i++) {
            const tri_action *a = &orders[rank].at[i];
            used += (size_t)snprintf(text + used, room - used, "%s%d%c%d", i ? "," : "", a->stage, letter[a->act],
                                     a->mb);
        }
        text[used++] = '\n';
    }
    return text;
}
