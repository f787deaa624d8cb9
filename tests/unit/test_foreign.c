/* test_foreign.c - safetensors files from other writers, most of them hostile (fault F38): every rule of the reference
 * reader broken, and traps that caught other readers. Each is accepted or refused with a reason, using little memory.
 *
 *   test_foreign               runs the tests
 *   test_foreign make FOLDER   writes all the files there
 *   test_foreign read FOLDER   a line per *.safetensors file in it: name, tab, "accepted" with types and shapes, or the
 *                              reason for refusing it
 *
 * tools/parity_safetensors.py gives these files, and others, to both readers. */
#include "checkpoint/safetensors.h"
#define SCRATCH_IN "/dev/shm"
#include "tests/lib/test.h"
#include "tests/lib/scratch.h"

#include <dirent.h>
#include <sys/resource.h>
#include <unistd.h>

#define A4 "\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}"
#define TENSOR(dtype, shape, offsets) \
    "{\"a\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}}"

/* A header, its true length before it, and `data` zero bytes behind it. */
static const struct {
    const char *header;
    size_t data;
    const char *word; /* in the message; NULL: it is well-formed */
} headers[] = {
    {"{" A4 "}", 4, NULL},
    {"{" A4 "}   ", 4, NULL},
    {"{}", 0, NULL},
    {"{\"__metadata__\":{}}", 0, NULL},
    {TENSOR("F32", "[]", "[0,4]"), 4, NULL},
    {TENSOR("F32", "[0]", "[0,0]"), 0, NULL},
    {"{" A4 ",\"z\":{\"dtype\":\"F32\",\"shape\":[0,9],\"data_offsets\":[4,4]}}", 4, NULL},
    {" {" A4 "}", 4, "begin with '{'"},
    {"[]", 0, "begin with '{'"},
    {"", 0, "begin with '{'"},
    {"{" A4, 4, ".safetensors:1"},
    {"{" A4 "}x", 4, ".safetensors:1"},
    {"{" A4 "," A4 "}", 4, "duplicate"},
    {"{\"\xff\":{}}", 4, ".safetensors:"},
    {"{" A4 "}", 3, "cut short"},
    {"{" A4 "}", 5, "cut short"},
    {"{\"a\":3}", 4, "no dtype"},
    {"{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4, "shape"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "data_offsets"},
    {TENSOR("F8_E8M0", "[4]", "[0,4]"), 4, "F8_E8M0"},
    {TENSOR("f32", "[1]", "[0,4]"), 4, "dtype f32"},
    {TENSOR("F32", "[1]", "[4,8]"), 8, "a hole"},
    {TENSOR("F32", "[1]", "[4,0]"), 4, "do not fit"},
    {TENSOR("F32", "[1]", "[0,8]"), 8, "do not fit"},
    {TENSOR("F32", "[2]", "[0,4]"), 4, "do not fit"},
    {TENSOR("F32", "[-1]", "[0,4]"), 4, "negative"},
    {TENSOR("F32", "[1.0]", "[0,4]"), 4, "not a size"},
    {TENSOR("F32", "[1]", "[0,4,4]"), 4, "data_offsets"},
    {TENSOR("F32", "[1]", "[-4,0]"), 4, "negative"},
    {TENSOR("F32", "[1,1,1,1,1,1,1,1,1]", "[0,4]"), 4, "9 dims"},
    {TENSOR("F32", "[4294967296,4294967296]", "[0,0]"), 0, "overflows"},
    {TENSOR("F32", "[4611686018427387904]", "[0,0]"), 0, "overflows"},
    {TENSOR("F32", "[1]", "[9223372036854775804,9223372036854775807]"), 4, "do not fit"},
    {"{" A4 ",\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "an overlap"},
    {"{" A4 ",\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[8,12]}}", 12, "a hole"},
    {"{\"__metadata__\":{\"step\":1}," A4 "}", 4, "not a string"},
    {"{\"__metadata__\":[]," A4 "}", 4, "not an object"},
    {"{\"__metadata__\":null," A4 "}", 4, "not an object"},
    {"{\"__metadata__\":{\"a\":{\"b\":\"c\"}}," A4 "}", 4, "not a string"},
    {"{\"__metadata__\":{\"a\":\"b\",\"a\":\"c\"}," A4 "}", 4, "duplicate"},
    {"{\"\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, NULL}, /* a name may be empty */
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"more\":1}}", 4, NULL},
    {"{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "duplicate"},
    {"{\"a\":{\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "no dtype"},
    {"{\"a\":{\"dtype\":null,\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "no dtype"},
    {"{\"a\":{\"dtype\":1,\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "no dtype"},
    {"{\"a\":[]}", 4, "no dtype"},
    {"{\"a\":null}", 4, "no dtype"},
    {TENSOR("", "[1]", "[0,4]"), 4, "dtype"},
    {TENSOR("F32 ", "[1]", "[0,4]"), 4, "dtype"},
    {TENSOR("BOOL", "[4]", "[0,4]"), 4, "BOOL"},
    {TENSOR("F4", "[8]", "[0,4]"), 4, "F4"},
    {TENSOR("F32", "1", "[0,4]"), 4, "not a list"},
    {TENSOR("F32", "null", "[0,4]"), 4, "not a list"},
    {TENSOR("F32", "[[1]]", "[0,4]"), 4, "not a size"},
    {TENSOR("F32", "[null]", "[0,4]"), 4, "not a size"},
    {TENSOR("F32", "[true]", "[0,4]"), 4, "not a size"},
    {TENSOR("F32", "[\"1\"]", "[0,4]"), 4, "not a size"},
    {TENSOR("U8", "[1e3]", "[0,1000]"), 1000, "not a size"},
    {TENSOR("F32", "[01]", "[0,4]"), 4, ".safetensors:1"},
    {TENSOR("F32", "[0x1]", "[0,4]"), 4, ".safetensors:1"},
    {TENSOR("F32", "[9223372036854775808]", "[0,4]"), 4, ".safetensors:1"},
    {TENSOR("F32", "[NaN]", "[0,4]"), 4, ".safetensors:1"},
    {TENSOR("F32", "[9223372036854775807]", "[0,4]"), 4, "overflows"},
    {TENSOR("F32", "[2305843009213693953]", "[0,4]"), 4, "overflows"}, /* 4 bytes each: 2^63 + 4 */
    {TENSOR("F64", "[4294967296,536870912]", "[0,0]"), 0, "overflows"},
    {TENSOR("U8", "[1099511627776,1099511627776]", "[0,0]"), 0, "overflows"},
    {TENSOR("U8", "[4294967297,4294967295,3]", "[0,3]"), 3, "overflows"},
    {TENSOR("U8", "[1099511627776]", "[0,1099511627776]"), 4, "cut short"},
    {TENSOR("F32", "[1]", "[0]"), 4, "data_offsets"},
    {TENSOR("F32", "[1]", "[]"), 4, "data_offsets"},
    {TENSOR("F32", "[1]", "{}"), 4, "data_offsets"},
    {TENSOR("F32", "[1]", "4"), 4, "data_offsets"},
    {TENSOR("F32", "[1]", "[0.0,4.0]"), 4, "data_offsets"},
    {TENSOR("F32", "[1]", "[\"0\",\"4\"]"), 4, "data_offsets"},
    {TENSOR("F32", "[1]", "[null,4]"), 4, "data_offsets"},
    {TENSOR("F32", "[1]", "[0,18446744073709551620]"), 4, ".safetensors:1"},
    {"{" A4 ",\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[2,6]}}", 6, "an overlap"},
    {"{" A4 ",\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[1,3]}}", 4, "an overlap"},
    {"{" A4 ",\"b\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[2,2]}}", 4,
     "an overlap"},                                                                       /* empty, inside another */
    {"{" A4 ",\"b\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]}}", 4, NULL}, /* empty, at its edge */
    {"{" A4 ",\"b\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[9,9]}}", 4, "a hole"},
    {"{\"a\\u0000\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, ".safetensors:1"},
    {"{\"\\ud800\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, ".safetensors:1"},
    {"{" A4 ",}", 4, ".safetensors:1"},
    {"{" A4 "}{}", 4, ".safetensors:1"},
    {"\xef\xbb\xbf{" A4 "}", 4, "begin with '{'"},
    {"{'a':1}", 4, ".safetensors:1"},
    {"{", 4, ".safetensors:1"},
    {TENSOR("F32", "[-0]", "[0,0]"), 0, "negative"}, /* 0 to a parser of integers, a fraction to the reference */
    {TENSOR("F32", "[0]", "[-0,0]"), 0, "negative"},
    {TENSOR("F32", "[0]", "[0,-0]"), 0, "negative"},
    {"{\"a-b\\\"-\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, NULL}, /* in a name it is no sign */
    {TENSOR("F32", "[+1]", "[0,4]"), 4, ".safetensors:1"},
    {TENSOR("F32", "[1,]", "[0,4]"), 4, ".safetensors:1"},
    {TENSOR("F32", "[1 1]", "[0,4]"), 4, ".safetensors:1"},
    {TENSOR("F32", "[Infinity]", "[0,4]"), 4, ".safetensors:1"},
    {TENSOR("F32", "[false]", "[0,0]"), 0, "not a size"},
    {TENSOR("F32", "[{}]", "[0,4]"), 4, "not a size"},
    {TENSOR("F32", "{}", "[0,4]"), 4, "not a list"},
    {TENSOR("F32", "\"[1]\"", "[0,4]"), 4, "not a list"},
    {TENSOR("F32", "[1]", "[[0],[4]]"), 4, "data_offsets"},
    {TENSOR("F32", "[1]", "[0,4e0]"), 4, "data_offsets"},
    {TENSOR("F32", "[1]", "[true,4]"), 4, "data_offsets"},
    {TENSOR("F32", "[1]", "null"), 4, "data_offsets"},
    {TENSOR("F32", "[0]", "[4,4]"), 4, "a hole"},
    {TENSOR("F32", "[1]", "[0,3]"), 3, "do not fit"},
    {TENSOR("F32", "[1]", "[9223372036854775807,3]"), 4, "do not fit"}, /* end - begin would wrap to 4 */
    {TENSOR("F32", "[1]", "[9223372036854775807,9223372036854775807]"), 4, "do not fit"},
    {TENSOR("F32", "[0,18446744073709551615]", "[0,0]"), 0, ".safetensors:1"},
    {TENSOR("U8", "[9223372036854775807,2]", "[0,18]"), 18, "overflows"},
    {TENSOR("U8", "[4294967296,4294967296,0]", "[0,0]"), 0, "overflows"}, /* on the way to 0 */
    {TENSOR("F64", "[1152921504606846976]", "[0,0]"), 0, "overflows"},
    {TENSOR("U8", "[9223372036854775807]", "[0,9223372036854775807]"), 4, "cut short"},
    {TENSOR("Q4_0", "[8]", "[0,4]"), 4, "Q4_0"},
    {TENSOR("F32\\u0000", "[1]", "[0,4]"), 4, ".safetensors:1"},
    {"{\"a\":{\"dtype\":{\"F32\":null},\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "no dtype"},
    {"{\"a\":[\"F32\",[1],[0,4]]}", 4, "no dtype"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "duplicate"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"data_offsets\":[0,4]}}", 4, "duplicate"},
    {"{" A4 ",\"\\u0061\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[4,4]}}", 4,
     "duplicate"}, /* one name, two spellings */
    {"{\"__metadata__\":{},\"__metadata__\":{}," A4 "}", 4, "duplicate"},
    {"{\"__metadata__\":{},\"\\u005f_metadata__\":{}," A4 "}", 4, "duplicate"},
    {"{\"__metadata__\":\"x\"," A4 "}", 4, "not an object"},
    {"{\"__metadata__\":{\"a\":null}," A4 "}", 4, "not a string"},
    {"{\"__metadata__\":{\"a\":[]}," A4 "}", 4, "not a string"},
    {"{\"__metadata__\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4,
     "not a string"}, /* a tensor of that name */
    {"{" A4 ",\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}", 4, "cut short"},
    {"{" A4 ",\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
     "\"c\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
     8, "an overlap"}, /* two names for one range; the sum fits */
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[0,8]},"
     "\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[2,6]}}",
     8, "an overlap"},
    {"{}", 1, "cut short"},
    {"{\"__metadata__\":{}}", 8, "cut short"},
    {"\"" A4 "\"", 4, "begin with '{'"},
    {"null", 0, "begin with '{'"},
    {"\t{" A4 "}", 4, "begin with '{'"},
    {"{" A4 "} //", 4, ".safetensors:1"},
    {"{/**/" A4 "}", 4, ".safetensors:1"},
    {"{a:1}", 4, ".safetensors:1"},
    {"{\"\xc0\x80\":{}}", 4, ".safetensors:"},
    {"{\"\xed\xa0\x80\":{}}", 4, ".safetensors:"},
    {"{\"\xf4\x90\x80\x80\":{}}", 4, ".safetensors:"},
    {"{\"\x01\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, ".safetensors:1"},
    {"{\"\\x61\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, ".safetensors:1"},
};

/* A good header with another length before it than its own. */
static const uint64_t lengths[] = {0,
                                   1,
                                   7,
                                   sizeof "{" A4 "}" - 2,
                                   sizeof "{" A4 "}",
                                   sizeof "{" A4 "}" + 4,
                                   100000000,
                                   100000001,
                                   1ull << 31,
                                   1ull << 32,
                                   INT64_MAX,
                                   1ull << 63,
                                   UINT64_MAX - 8,
                                   UINT64_MAX - 7,
                                   UINT64_MAX};

/* Whole files, from their first byte on. */
#define RAW(bytes) {bytes, sizeof bytes - 1}
static const struct {
    const char *bytes;
    size_t size;
} raws[] = {
    RAW(""),
    RAW("\2"),
    RAW("\2\0\0\0\0\0\0"),
    RAW("\2\0\0\0\0\0\0\0"),
    RAW("\2\0\0\0\0\0\0\0{"),
    RAW("\0\0\0\0\0\0\0\2{}"),                       /* the length by another order of bytes */
    RAW("\4\0\0\0\0\0\0\0{}\0\0"),                 /* padded with 0 instead of blanks */
    RAW("\5\0\0\0\0\0\0\0{\0  }"),
    RAW("\67\0\0\0\0\0\0\0{\"a\":{\"dtype\":\"F32\",\"shape\":[1\0],\"data_offsets\":[0,4]}}1234"), /* after a number */
    RAW("PK\3\4\24\0\0\0archive/data.pkl"),             /* a pickle in a zip, as torch.save writes it */
    RAW("\x80\2}q\0(X\1\0\0\0a"),                     /* a bare one */
    RAW("GGUF\3\0\0\0\0\0\0\0\0\0\0\0"),
    RAW("version https://git-lfs.github.com/spec/v1\n"), /* what a clone without its large files has */
};

/* Large headers: begin, a unit many times, end. */
static const struct {
    const char *begin, *unit, *end;
    int times;
    size_t data;
    const char *word;
} giants[] = {
    {"{\"a\":[", "{},", "{}]}", 3500000, 0, "memory"},
    {"{\"__metadata__\":{\"a\":[", "0,", "0]}}", 10100000, 0, "memory"},
    {"{\"__metadata__\":{\"a\":\"", "x", "\"}," A4 "}", (1 << 20) + 1, 4, "a string of more than"},
    {"{\"__metadata__\":{\"a\":\"", "x", "\"}," A4 "}", 1 << 20, 4, NULL},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[", "1,", "1],\"data_offsets\":[0,4]}}", 1000000, 4, "1000001 dims"},
    {"{\"a\":", "[", "", 1000000, 0, "deeper"},
    {"{" A4 "}", " ", "", 10000000, 4, NULL},
    {"{" A4 "}", " ", "", 100000000, 4, "the limit is"},
};

enum {
    HEADERS = sizeof headers / sizeof *headers,
    LENGTHS = sizeof lengths / sizeof *lengths,
    RAWS = sizeof raws / sizeof *raws,
    GIANTS = sizeof giants / sizeof *giants,
    FILES = HEADERS + LENGTHS + RAWS + GIANTS
};

static void put(FILE *out, const void *bytes, size_t size) {
    if (size && fwrite(bytes, 1, size, out) != size) fail_msg("cannot write a test's file");
}

static void put_giant(FILE *out, int i) {
    size_t begin = strlen(giants[i].begin), unit = strlen(giants[i].unit), end = strlen(giants[i].end);
    uint64_t length = begin + unit * (size_t)giants[i].times + end;
    put(out, &length, 8);
    put(out, giants[i].begin, begin);
    enum { MANY = 10000 };
    char *block = malloc(unit * MANY);
    for (int k = 0; k < MANY; k++) memcpy(block + (size_t)k * unit, giants[i].unit, unit);
    for (int left = giants[i].times; left > 0; left -= MANY)
        put(out, block, unit * (size_t)(left < MANY ? left : MANY));
    free(block);
    put(out, giants[i].end, end);
    put(out, "\0\0\0\0\0\0\0", giants[i].data);
}

/* Writes file `i` of all; returns what its refusal must say: "" for anything, NULL when it is well-formed. */
static const char *make(const char *path, int i) {
    static const char zeros[4096];
    static const char good[] = "{" A4 "}";
    const char *word = "";
    FILE *out = fopen(path, "wb");
    assert_non_null(out);
    if (i < HEADERS) {
        uint64_t length = strlen(headers[i].header);
        put(out, &length, 8);
        put(out, headers[i].header, length);
        put(out, zeros, headers[i].data);
        word = headers[i].word;
    } else if ((i -= HEADERS) < LENGTHS) {
        put(out, &lengths[i], 8);
        put(out, good, sizeof good - 1);
        put(out, zeros, 4);
    } else if ((i -= LENGTHS) < RAWS) {
        put(out, raws[i].bytes, raws[i].size);
    } else {
        put_giant(out, i - RAWS);
        word = giants[i - RAWS].word;
    }
    assert_int_equal(fclose(out), 0);
    return word;
}

static char path[128];

static int setup_path(void **state) {
    if (setup(state)) return -1;
    snprintf(path, sizeof path, "%s/t.safetensors", folder);
    return 0;
}

/* In memory that has no room for what a header only speaks of, nor for what the text of it could become. */
TEST(every_file_gets_its_verdict) {
    int refused = 0;
    for (int i = 0; i < FILES; i++) {
        tri_st_file file;
        const char *word = make(path, i);
        tri_status status = tri__st_open(path, &file);
        if (status == TRI_OK) tri__st_close(&file);
        if (status != (word ? TRI_DATA : TRI_OK) || (word && !strstr(tri_error(), word)))
            fail_msg("file %d, %.100s: status %d, \"%s\", expected \"%s\"", i, i < HEADERS ? headers[i].header : "",
                     status, tri_error(), word ? word : "");
        refused += word != NULL;
    }
    print_message("    %d files, %d of them refused\n", FILES, refused);
    assert_true(refused >= 60);
}

static int make_all(const char *into) {
    for (int i = 0; i < FILES; i++) {
        snprintf(path, sizeof path, "%.100s/%03d.safetensors", into, i);
        make(path, i);
    }
    return 0;
}

static int read_all(const char *from) {
    struct dirent *entry;
    char name[TRI_PATH_MAX], shape[128];
    DIR *all = opendir(from);
    if (!all) return 1;
    while ((entry = readdir(all))) {
        tri_st_file file;
        if (!strstr(entry->d_name, ".safetensors") || tri__path_join(name, from, entry->d_name) != TRI_OK) continue;
        tri_status status = tri__st_open(name, &file);
        printf("%s\t%s", entry->d_name, status == TRI_OK ? "accepted" : tri_error());
        for (int i = 0; status == TRI_OK && i < file.n; i++)
            printf(" %s%s", tri__dtype_file_name(file.entry[i].dtype), tri__shape_text(&file.entry[i].shape, shape));
        printf("\n");
        if (status == TRI_OK) tri__st_close(&file);
    }
    return closedir(all);
}

int main(int argc, char **argv) {
#ifndef __SANITIZE_ADDRESS__
    setrlimit(RLIMIT_AS, &(struct rlimit){400 << 20, 400 << 20});
#endif
    if (argc == 3) return strcmp(argv[1], "make") == 0 ? make_all(argv[2]) : read_all(argv[2]);
    return run_listed(argc, argv, setup_path, teardown);
}
