/* isa.h - for files that are compiled once per instruction set, TRI_ISA: the Makefile does that for all that include
 * this. What one of them exports has the instruction set in its name: PER_ISA(tri__gemm) is tri__gemm_avx2. */
#ifndef TRI_DEVICE_CPU_FAST_RUNTIME_ISA_H
#define TRI_DEVICE_CPU_FAST_RUNTIME_ISA_H

#define TRI_JOINED(name, isa) name##_##isa
#define TRI_JOIN(name, isa) TRI_JOINED(name, isa)
#define PER_ISA(name) TRI_JOIN(name, TRI_ISA)

#endif
