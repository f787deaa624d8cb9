/* http_head.h - what stands before and around a request's body (RFC 9112), read strictly: where two programs could
 * read the same bytes as different requests, the rest of one request becomes another one, of somebody else. So what is
 * ambiguous is refused, and nothing is guessed. Pure functions of bytes. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { TRI_HTTP_FIELDS = 100, TRI_HTTP_QUERIES = 16 };

typedef struct tri_http_pair {
    const char *name, *value;
} tri_http_pair;

typedef struct tri_http_head {
    const char *method, *path; /* the path is decoded, without its query */
    int minor;                 /* of HTTP/1.minor: 0 or 1 */
    int n_fields, n_queries;
    tri_http_pair field[TRI_HTTP_FIELDS], query[TRI_HTTP_QUERIES];
    uint64_t length;           /* of the body, unless it is chunked */
    int chunked, keep_alive, expects; /* expects: 100-continue */
} tri_http_head;

/* Bytes of the head at the beginning of text[n], with its empty line; 0: it is not complete; -1: there is a byte that
 * no head has. *seen: how many were looked at before; 0 at first. */
ptrdiff_t tri__http_head_size(const char *text, size_t n, size_t *seen);
/* Reads a head of that size in text[size], into which the result points. 0, or the status of the refusal, and *why. */
int tri__http_head_read(char *text, size_t size, tri_http_head *out, const char **why);
/* The value of a header; NULL: none. */
const char *tri__http_field(const tri_http_head *head, const char *name);

/* A chunked body. Initialised with zeros. */
typedef struct tri_http_chunks {
    int state;                 /* TRI_CHUNKS_... */
    uint64_t left;             /* of the chunk */
    size_t trailer;            /* bytes of it */
} tri_http_chunks;
enum { TRI_CHUNKS_SIZE, TRI_CHUNKS_DATA, TRI_CHUNKS_AFTER, TRI_CHUNKS_TRAILER, TRI_CHUNKS_DONE };
enum { TRI_HTTP_CHUNK_LINE = 1024 };
/* Reads on in text[n]: how many bytes were used, of which *data [*size] belong to the body; 0: more are needed; -1:
 * malformed. */
ptrdiff_t tri__http_chunks_read(tri_http_chunks *chunks, const char *text, size_t n, const char **data, size_t *size);
