/* isa.h - for files that are compiled once per instruction set, TRI_ISA: the Makefile does that for all that include
 * name it. What one of them exports has the instruction set in its name: PER_ISA(tri__gemm) is tri__gemm_avx2. */
#pragma once

#define TRI_JOINED(name, isa) name##_##isa
#define TRI_JOIN(name, isa) TRI_JOINED(name, isa)
#define PER_ISA(name) TRI_JOIN(name, TRI_ISA)

/* Whether this CPU has an instruction set. */
#define HAS_sse2 1
#define HAS_avx2 (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
#define HAS_avx512 (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq"))
#define HAS_avx512_bf16 (HAS_avx512 && __builtin_cpu_supports("avx512bf16"))
#define HAS_neon 1
