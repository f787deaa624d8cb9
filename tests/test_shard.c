/* test_shard.c - data parallelism: the programs of all ranks fit together. */
#include "tiny.h"
#include "program/text.h"
#include <stdio.h>
#include <stdlib.h>

static const char *const kinds[] = {"none", "zero1", "zero2", "zero3", "hybrid"};

static void all(void **state) {
    (void)state;
    for (int kind = 0; kind < 5; kind++)
        for (int dp = 2; dp <= 4; dp++)
            for (int n_mb = 1; n_mb <= 3; n_mb += 2) for (int wrap = 0; wrap < 2; wrap++) for (int reshard = 0; reshard < 3; reshard++) for (int prefetch = 0; prefetch < 4; prefetch++) {
                if (kind == 4 && dp != 4) continue;
                tiny *t = calloc((size_t)dp, sizeof *t);
                const tri_program *p[4], *q[4];
                for (int r = 0; r < dp; r++) {
                    tiny_open_rank(&t[r], "cpu", 2, 3, 0.1, n_mb, &(tiny_rank){dp, r, {.kind = kind, .size = 2, .prefetch = prefetch, .wrap = wrap, .wrap_min_params = 3000, .reshard = reshard}});
                    p[r] = t[r].program[0], q[r] = t[r].program[1];
                }
                OK(tri__check(p, dp));
                OK(tri__check(q, dp));
                if (dp == 2 && wrap == 0 && reshard == 0 && prefetch == 1) {
                    char name[64];
                    snprintf(name, sizeof name, "/tmp/plan_%s_%d.txt", kinds[kind], n_mb);
                    FILE *out = fopen(name, "w");
                    tri__program_print(p[0], out);
                    fclose(out);
                }
                for (int r = 0; r < dp; r++) tiny_close(&t[r]);
                free(t);
            }
}
int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(all)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
