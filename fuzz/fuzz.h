/* fuzz.h - what fuzz targets share. A target is one file fuzz_NAME.c that defines LLVMFuzzerTestOneInput;
 * docs/internals/fuzzing.md */
#ifndef TRI_FUZZ_FUZZ_H
#define TRI_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>

/* Feeds one input to a parser. Returns 0; a finding is a crash, a sanitizer's report, or a broken promise
 * (FUZZ_CHECK). */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FUZZ_CHECK(condition) ((condition) ? (void)0 : fuzz_broken(__FILE__, __LINE__, #condition))
void fuzz_broken(const char *file, int line, const char *condition) __attribute__((noreturn));

/* A number below n that the input's bytes choose: which of several dear checks it gets. */
unsigned fuzz_choice(const uint8_t *data, size_t size, unsigned n);

/* A file without a name that holds the input, until the next call. Returns its path. */
const char *fuzz_file(const uint8_t *data, size_t size);
/* A folder that is removed when the program ends; one for each program. */
const char *fuzz_folder(void);
/* Writes folder/name; fast when called again for the same name as last time. */
void fuzz_write(const char *name, const void *data, size_t size);
/* folder/name in memory: no file, but what tri__file_read and tri__file_there find there, without a system call. What
 * tri__file_write writes into the folder is held too. Returns its path. */
const char *fuzz_hold(const char *name, const void *data, size_t size);
/* Writes folder/name as a safetensors file: the header's length, the header, `bytes` bytes of data. */
void fuzz_shard(const char *name, const char *header, size_t bytes);

#endif
