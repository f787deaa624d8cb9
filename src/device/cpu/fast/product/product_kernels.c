/* product_kernels.c - the kernels of bf16 and int8 products that this CPU has. */
#include "device/cpu/fast/product/gemm_half.h"
#include "device/cpu/fast/product/gemm_int8.h"

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
enum { HAS_DOTPROD = 1 << 20, HAS_BF16 = 1 << 14, HAS_I8MM = 1 << 13 }; /* of AT_HWCAP; the others of AT_HWCAP2 */
#endif

const tri_half_product *tri__half_product(void) {
#if defined(__x86_64__)
    if (tri__amx_granted()) return &tri__half_product_amx;
    if (__builtin_cpu_supports("avx512bf16") && tri__half_vectors()) return &tri__half_product_avx512;
#elif defined(__aarch64__)
    if (getauxval(AT_HWCAP2) & HAS_BF16) return &tri__half_product_bfmmla;
#endif
    return NULL;
}

#if defined(__x86_64__)
/* Compilers' own tests of this one are too new to rely on. */
static int has_avxvnni(void) {
    enum { LEAF = 7, PART = 1, AVX_VNNI = 1 << 4 };
    unsigned eax, ebx, ecx, edx;
    return __builtin_cpu_supports("avx2") && __get_cpuid_count(LEAF, PART, &eax, &ebx, &ecx, &edx) && (eax & AVX_VNNI);
}
#endif

int tri__int8_products(const tri_int8_product *list[TRI_INT8_PRODUCTS]) {
    int n = 0;
#if defined(__x86_64__)
    if (tri__amx_int8_granted()) list[n++] = &tri__int8_product_amx;
    if (__builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bw"))
        list[n++] = &tri__int8_product_avx512vnni;
    if (has_avxvnni()) list[n++] = &tri__int8_product_avxvnni;
    if (__builtin_cpu_supports("avx2")) list[n++] = &tri__int8_product_avx2;
#elif defined(__aarch64__)
    if (getauxval(AT_HWCAP2) & HAS_I8MM) list[n++] = &tri__int8_product_smmla;
    if (getauxval(AT_HWCAP) & HAS_DOTPROD) list[n++] = &tri__int8_product_sdot;
#endif
    list[n++] = &tri__int8_product_plain;
    return n;
}

const tri_int8_product *tri__int8_product(void) {
    const tri_int8_product *list[TRI_INT8_PRODUCTS];
    tri__int8_products(list);
    return list[0];
}
