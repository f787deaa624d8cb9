/* kernel_cases.c - see kernel_cases.h. */
#include "tests/lib/kernel_cases.h"

#include "layout/mask_bits.h"
#include "layout/runs.h"

#include <string.h>

static const int32_t kernel_lengths[][MAX_SEQUENCES + 1] = {
    {0},                         /* no sequence at all */
    {1},
    {2, 1, 3},
    {1, 1, 1, 1, 1},
    {5, 16, 1, 17},
    {63, 64, 65},
    {129},
    {1, 130, 7, 200, 2},
    {3, 4, 5, 6, 7, 8, 9, 10, 11, 12},
    {600, 257, 3, 256},
    {8300, 20},
    {64, 128, 16, 192, 48},
};

static const tri_pattern kernel_patterns[] = {
    {.mode = TRI_PATTERN_WINDOW, .block = 16, .window = 32},
    {.mode = TRI_PATTERN_BIGBIRD, .block = 16, .num_random_blocks = 1, .num_sliding_window_blocks = 1,
     .num_global_blocks = 1, .different_layout_per_head = 1, .seed = 9},
    {.mode = TRI_PATTERN_OFFSETS, .block = 32, .offsets = {{0, -2}, 2}, .global_block_indices = {{3}, 1}},
    {.mode = TRI_PATTERN_WINDOW, .block = 64, .window = 1},
    {.mode = TRI_PATTERN_OFFSETS, .block = 16, .offsets = {{-1, 2}, 2}, .global_block_indices = {{0}, 1}},
    {.mode = TRI_PATTERN_WINDOW, .block = 16, .window = 64},
    {.mode = TRI_PATTERN_WINDOW, .block = 64, .window = 128},
    {.mode = TRI_PATTERN_BIGBIRD, .block = 32, .num_random_blocks = 1, .num_sliding_window_blocks = 3,
     .num_global_blocks = 1, .different_layout_per_head = 1, .seed = 5},
    {.mode = TRI_PATTERN_OFFSETS, .block = 16, .offsets = {{0, -1}, 2}, .global_block_indices = {{515}, 1}},
};
enum { KERNEL_PATTERNS = sizeof kernel_patterns / sizeof *kernel_patterns };
const int32_t kernel_windows[] = {[5] = 13, [6] = 64, [7] = 40};

/* The last pattern is of longer sequences: of more blocks than a GPU's kernels look at together. */
static int64_t kernel_longest(int64_t number) { return number == KERNEL_PATTERNS - 1 ? 8300 : KERNEL_LONGEST; }

/* Made on first use, and kept. */
static tri_blocks kernel_blocks(int64_t number) {
    static tri_blocks made[KERNEL_PATTERNS];
    static tri_arena arena[KERNEL_PATTERNS];
    if (made[number].word) return made[number];
    if (tri__arena_open(&arena[number], 1 << 20) != TRI_OK) abort();
    made[number] = tri__pattern_blocks(&arena[number], &kernel_patterns[number], kernel_longest(number), KERNEL_HEADS,
                                       0);
    return made[number];
}

/* Ragged on purpose: around vector widths, tiles and the columns of real models; some large enough for several
 * threads. */
#define ROWS "T=0,1,2,3,5,16,17,63,64,129"
const kernel_grid kernel_grids[] = {
    {"norm norm_din norm_dw dropout dropout_din add add_din dropout_add_norm dropout_add_norm_din "
     "scale scale_din skip skip_din {act} {act}_din {act}_din_db",
     ROWS " H=1,3,8,20,64,100,384"},
    {"norm norm_din norm_dw dropout_add_norm dropout_add_norm_din gelu gelu_din_db", "T=4,300 H=768,1025"},
    {"embed embed_dw", ROWS " H=1,3,8,20,64,100,384 V=37 P=130 Y=2"},
    {"embed embed_dw", "T=300 H=20 V=1000,4000 P=512 Y=1"},
    {"linear linear_gelu linear_gelu_din linear_din linear_dw", ROWS " O=1,3,20,100 I=1,3,8,20,64"},
    {"linear linear_gelu linear_gelu_din linear_din linear_dw", "T=65 O=384,100 I=100,384"},
    {"linear linear_gelu linear_gelu_din linear_din linear_dw", "T=300 O=530,2 I=70"},
    {"linear linear_gelu linear_gelu_din linear_din linear_dw", "T=270 O=200 I=530"},
    {FUSED, "T=0,1,16 O=1,20,100 I=3,64"},
    {"linear{act} linear{act}_din", "T=17,70 O=130 I=530"},
    {"linear_experts{act}", "C=3 R=0,1,17 O=1,20 I=1,64"},
    {"linear linear_din linear_dw", "T=530 O=70 I=200"},
    {"embed_int8", "T=0,1,3,17,64 H=1,3,20,100,384 V=37 P=130 Y=2"},
    {"quantize_int8 quantize_fp8", ROWS " I=1,3,16,20,100,384 M=0,2"},
    {"row_max quantize_din", ROWS " I=1,3,16,20,100,384"},
    {QUANTIZED, "T=0,1,2,3,17,63 O=1,3,20,100 I=1,3,20,64"},
    {QUANTIZED, "T=65 O=100 I=384"},
    {QUANTIZED, "T=70 O=130,2 I=530"},
    {"fp8_cast", "T=0,1,3,16,48 I=1,3,16,100,384 G=0,1"},
    {WEIGHTS_8_BITS, "T=0,1,16 I=3,20 M=10"},
    {WEIGHTS_8_BITS, "T=5 I=7 O=1,16 H=20 N=3 C=4 B=16 D=48 M=10"},
    {"fp8_scales fp8_history", "K=3,6,300 M=1,16"},
    {"fp8_check", "K=3,6,300"},
    {SCALED, "T=0,1,16,48 O=1,16,100 I=1,16,64"},
    {NORMS_SCALED, "T=0,1,16,48 H=1,3,16,100,384"},
    {ATTENTION_SCALED, "L=0,1,2,4,8 A=1,3 E=1,20,32"},
    {ATTENTION_SCALED, "L=0,2,4,5,7 X=0,3 M=1 A=3 E=20"},
    {"bias_dw", ROWS ",1000 O=1,3,8,20,64,100,384"},
    {ATTENTION, "L=0,1,2,3,4,8 A=1,2,3 E=1,4,8,20,32,64"},
    {ATTENTION, "L=5,6,7 A=2 E=16,20"},
    {ATTENTION, "L=7 A=3 E=32"},
    {ATTENTION, "L=0,4 X=3 A=2 E=20"},
    {"attention_bits attention_din attention_din_db", "L=0,2,4,5,7 X=0,3 M=1 A=1,3 E=20"},
    {"attention_first attention_first_din", "L=9 A=2 E=20,64"},
    {SPARSE, "L=0,1,2,4 W=0 A=1,3 E=1,20,32"},
    {SPARSE, "L=5,6,7 W=0,1,2,3,4 A=2 E=16,20"},
    {SPARSE, "L=7 W=1 A=3 E=64"},
    {SPARSE, "L=0,4 W=1 X=3 A=2 E=20"},
    {SPARSE, "L=0,4 W=5 A=2 E=16"}, /* windows */
    {SPARSE, "L=5,7 W=5,6,7 A=1 E=20"},
    {"gated gated_din", "T=0,1,2,17,65 H=1,3,20,100 Y=0,1,2,3"},
    {"gated gated_din", "T=300 H=200 Y=0,3"},
    {"rope rope_din", "T=0,1,17,130 A=1,3 E=2,6,64 P=100"},
    {"rope rope_din", "T=5 A=2 E=20 P=8192"}, /* more positions than rows */
    {"table table_dw", "B=0,2,12 V=12,13 H=1,20,100"},
    {BIASED, "L=0,1,2,4,8 B=16 A=3 E=1,20"},
    {BIASED, "L=5,7 B=20 A=1 E=16"},
    {BIASED, "L=0,4 X=3 B=20 A=2 E=32"},
    {DISENTANGLED, "L=0,1,2,4,8 B=34 G=3 A=3 E=1,20"},
    {DISENTANGLED, "L=4 B=34 G=1,2 A=1 E=32"},
    {DISENTANGLED, "L=5,7 B=40 G=3 A=1 E=16"},
    {DISENTANGLED, "L=0,4 X=3 B=40 G=3 A=2 E=20"},
    {"pool_first pool_first_din pool_mean pool_mean_din", "L=0,4 X=3 H=20"},
    {"pool_first pool_first_din pool_mean pool_mean_din", "L=0,1,2,3,4,5,6,7,8 H=1,3,8,20,64,100,384"},
    {"pool_first pool_first_din pool_mean pool_mean_din", "L=2,4 X=-2 Z=0,1 H=20"}, /* runs of the tokens */
    {"pool_first pool_first_din pool_mean pool_mean_din", "L=0,2,4 J=3 Z=0,1,2 H=20"},
    {RING_ATTENTION, "L=0,2,4,5 J=2 Z=0,1 U=0,1 A=1,3 E=1,20"},
    {RING_ATTENTION, "L=7 J=3 Z=0 U=2 A=2 E=20,32"},
    {RING_ATTENTION, "L=1,2 J=4 X=3 Z=1 U=0,3 A=2 E=4"}, /* fewer tokens than ranks */
    {RING_SPARSE, "L=0,2,4,5 J=2 Z=0,1 U=0,1 W=0 A=1,3 E=1,20"},
    {RING_SPARSE, "L=6,7 J=3 Z=0,2 U=0,1,2 W=1,2,3,4 A=2 E=16"},
    {RING_SPARSE, "L=7 J=4 X=3 Z=1 U=0,3 W=1 A=3 E=64"},
    {RING_SPARSE, "L=4,6 J=3 Z=0,2 U=0,1,2 W=5,6,7 A=1 E=16"},
    {"kv_part kv_part_din attention_join", "T=0,1,17,300 A=1,3 E=1,20"},
    {"attention_first_join", "N=0,1,5 J=3 A=1,3 E=1,20"},
    {"heads_part heads_part_din heads_join heads_join_din", "R=0,1,5,17 D=3,9,60,180"},
    {"heads_own heads_own_din", "N=0,1,5 C=1,20 H=60,100"},
    {"route route_din balance balance_din", "L=0,2,4,8 C=1,8 K=1 R=0,2"},
    {"route route_din balance balance_din", "L=0,4,5 X=0,3 C=2,8 K=2 R=1"},
    {"balance_none", "C=1"},
    {MOVES, "T=0,1,17,65 C=4 K=1,2 R=3 H=1,20,100"},
    {DENSE_EXPERTS, "C=3 R=0,1,2,17 O=1,20 I=1,20,64"},
    {DENSE_EXPERTS, "C=2 G=1,3 R=7 O=20 I=9"},
    {DENSE_EXPERTS, "C=4 R=70 O=100 I=70"},
    {"linear_experts linear_experts_din", "C=2 G=2 R=150 O=130 I=400"}, /* blocks of factors, and tiles of rows */
    {"linear_experts_dw bias_experts_dw", "C=2 R=1100 O=20 I=20"},
    {"linear_experts_dw", "C=2 R=9 O=1030 I=9"},
    {"tokens_own tokens_whole_din", "T=10 R=0,1,5 H=1,20,100"},
    {"concat concat_din", "N=0,1,2,5,17 A=1,8,20 B=0,3,64 C=0,7,20"},
    {"concat concat_din", "N=0,1,17 A=8 B=0,24 C=0,40 S=2,8"}, /* rows of the result */
    {"gate gate_din", ROWS " H=1,3,8,100"},
    {"columns columns_dw", "N=0,1,5,17 C=1,4 U=0,1,2 H=1,3,16"},
    {"columns columns_dw", "N=0,1,17 C=1,4 U=0,2 G=1 K=1,5 H=1,16"},
    {"columns columns_dw", "N=70 C=19 U=2 G=0,1 K=9 H=20"},
    {"columns columns_dw", "N=0,1,17 C=1,4,9 U=3 G=0,1 K=2 H=1,16"},
    {"cross_entropy cross_entropy_din", "N=0,1,2,3,5,16,17,63,64,129 C=1,2,3,8,20"},
    {"cross_entropy cross_entropy_din", "N=0,1,17,300 C=1,2,3,20 G=1,2,3"},
    {"cross_entropy_weighted cross_entropy_weighted_din", "N=0,1,17,129 C=1,2,3,20 G=0,1,2,3"},
    {"regress regress_din regress_weighted regress_weighted_din", "N=0,1,2,17,129 C=1,2,5 J=1 G=0,1,2,3,4,5"},
    {"regress regress_din regress_weighted regress_weighted_din", "N=0,1,17,129 C=5 J=5 G=1,5"},
    {"cast", "R=0,1,5,17 C=1,64,2100"},
    {"adam sgd lamb_moments lamb_step lamb_refresh lamb_frozen", "K=0,1,3,20,64,100,4096,4097,70000"},
    {"lamb_average lamb_factor", "K=0,1,3,64,300"},
    {"accumulate zero sumsq adamw adamw_copy", "K=0,1,3,8,20,64,100,1000,4095,4096,4097,70000,1100000"},
    {"clip", "K=1,2,30"},
    {"momentum momentum_in momentum_alone adamw_frozen adamw_meet", "K=0,1,3,8,20,100,4095,4097,70000"},
    {"local_delta outer_step outer_take swap commit average", "K=0,1,3,8,20,100,4095,16385,70000"},
    {CODED, "F=1,2,3,4,5 M=1,2,7 K=0,1,3,16,255,256,257,600,4097"},
    {CODED, "F=1,2,3,4,5 M=2 K=70000"},
};
const int kernel_n_grids = sizeof kernel_grids / sizeof *kernel_grids;

int64_t kernel_capacity(const kernel_case *at, int64_t length) {
    int64_t C = at->dim['C' - 'A'], choices = at->dim['K' - 'A'] * length;
    return choices > C ? (choices + C - 1) / C : 1;
}

void kernel_columns(kernel_case *at, int32_t *words) {
    int64_t *rows[] = {&at->dim['P' - 'A'], &at->dim['V' - 'A'], &at->dim['B' - 'A']}, K = at->dim['K' - 'A'];
    int64_t *numbers = &at->dim['D' - 'A'];
    *rows[0] = *rows[1] = *rows[2] = *numbers = 0;
    for (int64_t c = 0; c < at->dim['C' - 'A']; c++) {
        int category = at->dim['U' - 'A'] == 1 || (at->dim['U' - 'A'] >= 2 && c % 2 == 0);
        int hashed = category && at->dim['U' - 'A'] == 3 && c % 4 == 0;
        int periodic = !category && at->dim['G' - 'A'];
        int64_t count = category ? 3 + c : periodic ? 2 * K : 1 + 2 * (c % 4), all = count + (!category && c % 3 == 0);
        const int32_t made[] = {hashed     ? TRI_COLUMN_HASHED
                                : category ? TRI_COLUMN_CATEGORY
                                : periodic ? TRI_COLUMN_PERIODIC : TRI_COLUMN_PIECEWISE,
                                (int32_t)*rows[category], (int32_t)count, (int32_t)all,
                                periodic ? (int32_t)*rows[2] : 0, (int32_t)*numbers};
        if (words) memcpy(words + c * TRI_COLUMN_WORDS, made, sizeof made);
        *rows[category] += all, *rows[2] += periodic, *numbers += hashed ? count : 1;
    }
    at->dim['Y' - 'A'] = at->dim['C' - 'A'] * at->dim['H' - 'A'];
}

unsigned kernel_case_spare(const kernel_case *at) {
    const tri_op_row *row = tri__variant_row(at->variant);
    int key = kernel_case_arg(at, "key"), s = kernel_case_arg(at, "s");
    return (key >= 0 && row->arg[key].optional ? 1u << key : 0) | (s >= 0 && row->arg[s].optional ? 1u << s : 0);
}

/* Derives dependent extents, and visits the case. */
static void kernel_case_done(kernel_case *at, int has_lengths, kernel_visit *visit, void *context) {
#define DIM(letter) at->dim[(letter) - 'A']
    at->lengths = has_lengths ? kernel_lengths[DIM('L')] : NULL;
    if (has_lengths) {
        int64_t n = 0, sum = 0;
        for (; at->lengths[n]; n++) sum += at->lengths[n];
        int64_t rows = DIM('J') ? tri__ring_rows(sum, n, DIM('J'), DIM('J')) / DIM('J') : sum;
        DIM('T') = rows + DIM('X'), DIM('N') = n, DIM('S') = n + 1;
    }
    if (DIM('E')) DIM('H') = DIM('A') * DIM('E'), DIM('D') = 3 * DIM('H');
    if (kernel_case_rings(at)) {
        int first = at->op == TRI_OP_attention_first_join ||
                    (at->op == TRI_OP_attention_part && tri__variant_row(at->variant)->facts & TRI_FACT_FIRST);
        DIM('K') = DIM('J') * DIM('T'), DIM('G') = first ? DIM('J') * (DIM('H') + DIM('A')) : 2 * DIM('H');
    }
    if (DIM('F'))
        DIM('B') = tri__coded_row((tri_code)DIM('F'), DIM('K'),
                                  tri__variant_row(at->variant)->facts & TRI_FACT_SUM ? 1 : (int)DIM('M'));
    else if (DIM('M') && kernel_case_arg(at, "bits") >= 0)
        while (DIM('T') && !tri__mask_fits(DIM('T'), DIM('M'), DIM('N'), DIM('A'), KERNEL_LONGEST)) DIM('M')++;
    else if (!kernel_case_fp8(at)) DIM('M') *= DIM('T');
    at->blocks = NULL;
    if (kernel_case_arg(at, "blocks") >= 0) {
        tri_blocks blocks = kernel_blocks(DIM('W'));
        at->pattern = &kernel_patterns[DIM('W')], at->blocks = blocks.word;
        *(kernel_case_rings(at) ? &DIM('B') : &DIM('K')) = blocks.n;
    }
    if (at->op == TRI_OP_heads) /* three ranks: kernel_call.c's members */
        DIM('T') = 3 * DIM('R'), DIM('G') = DIM('D') / 3;
    if (kernel_case_experts(at)) {
        int64_t more = DIM('R'), each = more + (has_lengths ? 0 : kernel_capacity(at, DIM('T')));
        for (int64_t s = 0; s < DIM('N'); s++) each += kernel_capacity(at, at->lengths[s]);
        DIM('R') = DIM('C') * each, DIM('P') = DIM('C') * DIM('O');
        if (kernel_case_is(at, TRI_FACT_EXPERTS)) DIM('T') = DIM('C') * more * (DIM('G') ? DIM('G') : 1);
    }
    if (kernel_case_columns(at)) kernel_columns(at, NULL);
    if (at->op == TRI_OP_gated || at->op == TRI_OP_gated_din) DIM('D') = 2 * DIM('H');
    if (at->op == TRI_OP_concat || at->op == TRI_OP_concat_din) {
        int64_t split = DIM('S') > 1 ? DIM('S') : 1; /* of a row */
        DIM('R') = DIM('N') * split, DIM('Y') = (DIM('A') + DIM('B') + DIM('C')) / split;
    }
#undef DIM
    visit(at, context);
}

static void kernel_case_expand(kernel_case *at, const char *dims, int has_lengths, kernel_visit *visit, void *context) {
    while (*dims == ' ') dims++;
    if (!*dims) {
        kernel_case made = *at; /* an extent may be derived from itself */
        kernel_case_done(&made, has_lengths, visit, context);
        return;
    }
    const char *rest = dims + strcspn(dims, " ");
    for (const char *value = dims + 2; value < rest; value++) {
        char *end;
        at->dim[dims[0] - 'A'] = strtol(value, &end, 10);
        value = end;
        kernel_case_expand(at, rest, has_lengths || dims[0] == 'L', visit, context);
    }
}

static void kernel_cases_of(const char *name, const char *dims, kernel_visit *visit, void *context) {
    int variant = tri__variant_find(name);
    if (variant < 0) {
        fprintf(stderr, "kernel_cases.c: no operation '%s'\n", name);
        abort();
    }
    kernel_case at = {.op = tri__variant_row(variant)->op, .variant = variant};
    kernel_case_expand(&at, dims, 0, visit, context);
}

void kernel_cases(const kernel_grid *grids, int n, kernel_visit *visit, void *context) {
    for (int g = 0; g < n; g++) {
        const char *name = grids[g].ops;
        while (*name) {
            char word[64], each[64];
            int length = (int)strcspn(name, " ");
            snprintf(word, sizeof word, "%.*s", length, name);
            char *brace = strstr(word, "{act}");
            if (!brace) kernel_cases_of(word, grids[g].dims, visit, context);
            for (int act = 0; brace && act < TRI_ACTIVATION_COUNT; act++) {
                snprintf(each, sizeof each, "%.*s%s%s%s", (int)(brace - word), word, brace > word ? "_" : "",
                         tri__activations[act].name, brace + strlen("{act}"));
                kernel_cases_of(each, grids[g].dims, visit, context);
            }
            name += length;
            name += strspn(name, " ");
        }
    }
}

const char *kernel_case_text(const kernel_case *at, char text[static 160]) {
    int used = snprintf(text, 160, "%s", tri__variant_row(at->variant)->name);
    for (int i = 0; i < 26; i++)
        if (at->dim[i] && used < 140)
            used += snprintf(text + used, (size_t)(160 - used), " %c=%lld", 'A' + i, (long long)at->dim[i]);
    return text;
}
