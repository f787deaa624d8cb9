/* safetensors.h - the file format, read and written by the reference's rules (docs/reference/formats.md). */
#pragma once

#include "base/file.h"
#include "base/json.h"
#include "layout/slice.h"

typedef struct tri_st_entry {
    const char *name;
    tri_dtype dtype;
    tri_shape shape;
    int64_t begin, end;    /* bytes, from the start of the data */
} tri_st_entry;

typedef struct tri_st_file {
    char *path;            /* NULL: closed */
    int fd;                /* read by position, not mapped: the file may be truncated meanwhile */
    size_t size;
    uint64_t data;         /* offset of the data in the file */
    tri_st_entry *entry;   /* [n], sorted by offset */
    int n;
    tri_json *header;        /* owns the names */
} tri_st_file;

/* Checks every rule of the reference reader; TRI_DATA naming the file, the tensor and the rule. */
tri_status tri__st_open(const char *path, tri_st_file *file);
/* A shard listed in an index or a manifest: as tri__file_open_listed. */
tri_status tri__st_open_listed(const char *folder, const char *name, tri_st_file *file);
void tri__st_close(tri_st_file *file);
const tri_st_entry *tri__st_find(const tri_st_file *file, const char *name);
/* Elements [begin, begin + n) of a tensor, in its dtype. TRI_IO if the file is now too short. */
tri_status tri__st_read(const tri_st_file *file, const tri_st_entry *entry, int64_t begin, int64_t n, void *out);
/* The same converted to fp32, from F32, F16 or BF16. */
tri_status tri__st_read_f32(const tri_st_file *file, const tri_st_entry *entry, int64_t begin, int64_t n, float *out);

/* What was written, with hashes computed while writing. */
typedef struct tri_st_written {
    int64_t bytes;
    char xxh3[33];         /* of the file */
    char (*piece)[33];     /* [n] of each piece's data, in the order of the pieces; caller-owned, or NULL */
} tri_st_written;

/* Writes whole pieces (each slice must be a whole tensor) in the reference writer's order and padding. metadata: an
 * object of strings, or NULL. fsyncs; the file must not exist. written: may be NULL. */
tri_status tri__st_write(const char *path, const tri_piece *pieces, int n, const tri_json *metadata,
                         tri_st_written *written);
