/* jsonl.h - one line of JSON: a flat object. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Positions of a key and its value in the line. */
typedef struct tri_jsonl_member {
    uint32_t key;                 /* a number that the caller assigns */
    uint32_t key_begin, key_end;  /* without its quotes */
    uint32_t begin, end;          /* a string with its quotes; 0, 0: null */
} tri_jsonl_member;

typedef struct tri_jsonl_line {
    const char *text;             /* [size] */
    size_t size, at;
    uint64_t base;                /* offset of the line in its file, for messages */
    uint32_t n;
    size_t room;
    tri_jsonl_member *member;      /* [n]; the caller frees it after the last line */
    size_t wrong;                 /* position of the first fault, and its description; why[0] = 0: none */
    char why[192];
} tri_jsonl_line;

/* Parses the line. 0 if out of memory. */
int tri__jsonl_line(tri_jsonl_line *line);
/* Records a fault, if it is the first. */
void tri__jsonl_blame(tri_jsonl_line *line, size_t at, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* The number of bytes of a member's key that fit in a message. */
int tri__jsonl_shown(const tri_jsonl_line *line, const tri_jsonl_member *member);
/* Replaces the escapes of a valid string in place; returns its new length, which is never larger. */
size_t tri__jsonl_decode(char *text, size_t length);
