/* embedded.h - files that are part of the program, as the assembler includes them. */
#pragma once

/* At file scope: the bytes of `path`, from the project's root, between symbol and symbol_end; a 0 follows them. The
 * object is made anew when the file changes only if the Makefile says so. */
#define TRI_EMBEDDED(symbol, path) \
    __asm__(".section .rodata\n" #symbol ":\n.incbin \"" path "\"\n" #symbol "_end:\n.byte 0\n.previous\n"); \
    extern const char symbol[] __attribute__((visibility("hidden"))), \
        symbol##_end[] __attribute__((visibility("hidden")))
