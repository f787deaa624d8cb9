/* test_calibrate_links.c - transfers measured between ranks that are threads: every kind has a curve that grows. The
 * host's figures are positive. */
#include "study/calibrate_host.h"
#include "study/calibrate_links.h"

#include "base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static void threads(void **state) {
    tri_arena arena;
    tri_hardware h = {.ranks_per_node = 4};
    unsigned seen = 0;
    (void)state;
    assert_int_equal(tri__arena_open(&arena, 1 << 16), TRI_OK);
    double begin = tri__clock();
    assert_int_equal(tri__calibrate_links(&arena, NULL, 3, 0.6, &h), TRI_OK);
    assert_true(tri__clock() - begin < 20); /* sizes are left out, not calls of the first two */
    assert_true(h.near.latency > 0 && h.near.bytes > 0);
    assert_true(h.node_bytes == 0 && h.far.bytes == 0);
    for (int i = 0; i < h.n_links; i++) {
        const tri_link_curve *c = &h.link[i];
        seen |= 1u << (c->kind + (c->ranks == 3 ? TRI_LINK_KINDS : 0));
        assert_true(c->nodes == 1 && (c->ranks == 2 || c->ranks == 3) && c->n >= 2);
        for (int k = 0; k < c->n; k++) {
            assert_true(c->point[k].seconds > 0 && c->point[k].spread >= 0);
            assert_true(!k || (c->point[k].bytes > c->point[k - 1].bytes &&
                               c->point[k].seconds >= c->point[k - 1].seconds));
        }
    }
    unsigned all = 1u << TRI_LINK_ALL_REDUCE | 1u << TRI_LINK_ALL_GATHER | 1u << TRI_LINK_REDUCE_SCATTER |
                   1u << TRI_LINK_ALL_TO_ALL | 1u << TRI_LINK_BROADCAST | 1u << TRI_LINK_CONTROL;
    assert_int_equal(seen, all | 1u << TRI_LINK_SEND | all << TRI_LINK_KINDS); /* messages are between two */
    tri__arena_close(&arena);
}

static void host(void **state) {
    tri_hardware h = {0};
    (void)state;
    assert_int_equal(tri__calibrate_host(&h), TRI_OK);
    assert_true(h.copy > 1e7 && h.copy < 1e13);
    assert_true(h.host.row + h.host.token > 0 && h.host.row < 1e-2 && h.host.token < 1e-4);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(threads), cmocka_unit_test(host)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
