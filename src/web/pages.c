/* pages.c - the files, as the assembler includes them. */
#include "web/pages.h"

#define PAGE(symbol, file) \
    __asm__(".section .rodata\n" #symbol ":\n.incbin \"src/web/" file "\"\n" #symbol "_end:\n.byte 0\n.previous\n"); \
    extern const char symbol[] __attribute__((visibility("hidden"))), \
        symbol##_end[] __attribute__((visibility("hidden")))

PAGE(tri__page_try_text, "try.html");
PAGE(tri__page_openapi_text, "openapi.json");

const char *tri__page_try(size_t *size) {
    *size = (size_t)(tri__page_try_text_end - tri__page_try_text);
    return tri__page_try_text;
}

const char *tri__page_openapi(size_t *size) {
    *size = (size_t)(tri__page_openapi_text_end - tri__page_openapi_text);
    return tri__page_openapi_text;
}
