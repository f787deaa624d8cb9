/* simd_body.h - the kernels' bodies, for the instruction set of the file that includes it, and their table. */
#include "device/cpu/fast/product/simd_product.h"
#include "device/cpu/fast/elementwise/simd_activation.h"
#include "device/cpu/fast/elementwise/simd_gated.h"
#include "device/cpu/fast/product/simd_quantized.h"
#include "device/cpu/fast/elementwise/simd_drop.h"
#include "device/cpu/fast/elementwise/simd_norm.h"
#include "device/cpu/fast/update/simd_update.h"
#include "device/cpu/fast/update/simd_optimizer.h"
#include "device/cpu/fast/update/simd_coded.h"
#include "device/cpu/fast/elementwise/simd_half.h"
#include "device/cpu/fast/product/simd_finish.h"
#include "device/cpu/fast/attention/simd_head.h"
#include "device/cpu/fast/attention/simd_head_din.h"
#include "device/cpu/fast/attention/simd_head_half.h"
#include "device/cpu/fast/attention/simd_head_half_din.h"
#include "device/cpu/fast/attention/simd_head_relative.h"
#include "device/cpu/fast/attention/simd_head_sparse.h"
#include "device/cpu/fast/attention/simd_head_sparse_din.h"
#include "device/cpu/fast/attention/simd_head_first.h"

/* The fields after the name are for large products. */
#define TRI_SIMD_TABLE(name_, ...) \
    { \
        .name = name_, .mr = MR, .nr = NR, __VA_ARGS__, .product = product, .act = act, .act_din = act_din, \
        .gated = gated, .gated_din = gated_din, .scale_sums = scale_sums, \
        .largest = largest, .to_int8 = to_int8, .dropout = dropout, .norm = norm, .norm_din = norm_din, \
        .column_sums = column_sums, .sumsq = sumsq, .adamw = adamw, .adamw_frozen = adamw_frozen, .adam = adam, \
        .sgd = sgd, .lamb_moments = lamb_moments, .lamb_step = lamb_step, .lamb_frozen = lamb_frozen, \
        .lamb_refresh = lamb_refresh, .momentum = momentum, .momentum_unit = momentum_unit, .coded_take = coded_take, \
        .coded_largest = coded_largest, .coded_largest_bf16 = coded_largest_bf16, .coded_replace = coded_replace, \
        .coded_signs = coded_signs, .coded_to_half = coded_to_half, .coded_from_f16 = coded_from_f16, \
        .widen = widen, .narrow = narrow, .widen_add = widen_add, .finish_half = finish_half, \
        .encode = {NULL, code_bf16, code_int8, code_int4, code_fp8, code_signs}, \
        .decode = {NULL, value_bf16, value_int8, value_int4, value_fp8, value_signs}, .head_work = head_work, \
        .head = head, .head_din_work = head_din_work, .head_din = head_din, .head_columns = HR, \
        .head_group = HEAD_GROUP, .head_half_work = head_half_work, .head_half = head_half, \
        .head_half_din_work = head_half_din_work, .head_half_din = head_half_din, \
        .head_relative_work = head_relative_work, \
        .head_relative = head_relative, .head_relative_din = head_relative_din, .head_sparse_work = head_sparse_work, \
        .head_sparse = head_sparse, .head_sparse_din_work = head_sparse_din_work, .head_sparse_din = head_sparse_din, \
        .head_first = head_first, .head_first_din = head_first_din \
    }
