/* plan.c - plans all ranks of a job without running it: prints what each needs, proves that their programs fit
 * together, and writes one rank's program. Takes the options of `trident plan`:
 *   plan --config configs/reviews.json --world-size 16 --pp-size 4 --shard zero1 > rank0.txt */
#include <trident.h>

#include <stdio.h>
#include <stdlib.h>

static int failed(tri_status status) {
    if (status != TRI_OK) fprintf(stderr, "plan: %s\n", tri_error());
    return status != TRI_OK;
}

int main(int argc, char **argv) {
    tri_plan *plan;
    tri_status status = tri_plan_open(argc - 1, (const char *const *)argv + 1, &plan);
    if (failed(status)) return status;
    for (int rank = 0; rank < tri_plan_size(plan) && status == TRI_OK; rank++) {
        tri_rank_facts facts;
        status = tri_plan_rank(plan, rank, &facts);
        if (status == TRI_OK)
            fprintf(stderr, "rank %2d: %6lld instructions, %8.1f MiB, %8.1f GFLOP a step\n", rank,
                    (long long)facts.instructions, (double)facts.bytes / (1 << 20), facts.flops / 1e9);
    }
    if (status == TRI_OK) status = tri_plan_check(plan);
    if (status == TRI_OK) fprintf(stderr, "checked: the programs of %d ranks fit together\n", tri_plan_size(plan));
    char *text = NULL;
    if (status == TRI_OK) status = tri_plan_print(plan, 0, TRI_TRAIN, &text);
    if (status == TRI_OK) fputs(text, stdout);
    free(text);
    failed(status);
    tri_plan_close(plan);
    return status;
}
