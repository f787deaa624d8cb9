/* test_tokenizer_golden.c - ids equal to those of the tokenizers library, from files that tools/golden_tokenizer.py and, with
 * arguments, tools/parity_tokenizer.py make: JSON lines, first {"folder": F} or {"files": {name: text}}, then {"text": T, "ids": [..]}
 * or {"a": A, "b": B, "max_len": M, "ids": [..], "types": [..]}. Each case is encoded twice: the second time the words are known. */
#include "base/file.h"
#include "base/json.h"
#include "data/tokenizer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { MAX_LEN = 1 << 22 };

static const char *const committed[] = {"tests/golden/tokenizer_components.jsonl", "tests/golden/tokenizer_folders.jsonl",
                                        "tests/golden/tokenizer_bert.jsonl", "tests/golden/tokenizer_roberta.jsonl"};
static const char *const *files = committed;
static int n_files = (int)(sizeof committed / sizeof *committed);
static int32_t ids[MAX_LEN], types[MAX_LEN];

static void must(tri_status status) {
    if (status != TRI_OK) fail_msg("%s", tri_error());
}

/* The folder that the first line names; NULL when it is not here. Or one made of the files in it, to be removed. */
static const char *open_folder(const json_t *head, char made[static 64]) {
    const char *folder = json_string_value(json_object_get(head, "folder")), *name;
    json_t *text;
    made[0] = 0;
    if (folder) return tri__is_folder(folder) ? folder : NULL;
    snprintf(made, 64, "/tmp/trident-golden-%ld", (long)getpid());
    if (tri__is_folder(made)) must(tri__folder_remove(made));
    must(tri__folder_make(made));
    json_object_foreach(json_object_get(head, "files"), name, text) {
        char path[TRI_PATH_MAX];
        must(tri__path_join(path, made, name));
        must(tri__file_write(path, json_string_value(text), json_string_length(text)));
    }
    return made;
}

static void print_row(const char *what, const int32_t *row, int n) {
    print_message("\n  %s", what);
    for (int i = 0; i < n && i < 200; i++) print_message(" %d", row[i]);
}

static void compare(const char *file, int line, const char *what, const json_t *want, const int32_t *got, int n, const json_t *one) {
    int expected = (int)json_array_size(want), same = n == expected;
    for (int i = 0; same && i < n; i++) same = json_integer_value(json_array_get(want, (size_t)i)) == got[i];
    if (same) return;
    char *text = json_dumps(one, JSON_COMPACT | JSON_ENSURE_ASCII);
    print_message("%s:%d: %s differ for %.400s", file, line, what, text);
    print_row("got", got, n);
    free(text);
    fail_msg("%d %s instead of %d", n, what, expected);
}

static void check(const tri_tokenizer *tokenizer, const char *file, int line, const json_t *one) {
    const json_t *text = json_object_get(one, "text"), *a = json_object_get(one, "a"), *b = json_object_get(one, "b");
    for (int turn = 0; turn < 2; turn++) {
        int n = text ? tri__tokenizer_encode(tokenizer, json_string_value(text), json_string_length(text), MAX_LEN, ids)
                     : tri__tokenizer_encode_pair(tokenizer, json_string_value(a), json_string_length(a), json_string_value(b),
                                                  json_string_length(b), (int)json_integer_value(json_object_get(one, "max_len")),
                                                  ids, types);
        compare(file, line, "ids", json_object_get(one, "ids"), ids, n, one);
        if (!text) compare(file, line, "types", json_object_get(one, "types"), types, n, one);
    }
}

/* A tokenizer that was saved and loaded again gives the same ids, and says so by its hash. */
static tri_tokenizer *load_again(tri_tokenizer *first) {
    char copy[64];
    snprintf(copy, sizeof copy, "/tmp/trident-golden-copy-%ld", (long)getpid());
    tri_tokenizer *second;
    must(tri__tokenizer_save(first, copy));
    must(tri__tokenizer_load(copy, &second));
    must(tri__folder_remove(copy));
    assert_true(tri__tokenizer_hash(first) == tri__tokenizer_hash(second));
    assert_int_equal(tri__tokenizer_size(first), tri__tokenizer_size(second));
    tri__tokenizer_free(first);
    return second;
}

static int check_file(const char *path) {
    FILE *in = fopen(path, "r");
    char *line = NULL, made[64] = "";
    size_t room = 0;
    ssize_t length;
    int number = 0, cases = 0;
    tri_tokenizer *tokenizer = NULL;
    if (!in) fail_msg("%s is missing", path);
    while ((length = getline(&line, &room, in)) > 0) {
        json_t *one;
        if (tri__json_parse_any(line, (size_t)length, path, TRI_DATA, &one) != TRI_OK) fail_msg("row %d: %s", number + 1, tri_error());
        number++;
        if (json_object_get(one, "folder") || json_object_get(one, "files")) { /* the cases that follow are of another tokenizer */
            tri__tokenizer_free(tokenizer);
            tokenizer = NULL;
            const char *folder = open_folder(one, made);
            if (folder) {
                must(tri__tokenizer_load(folder, &tokenizer));
                tokenizer = load_again(tokenizer);
            } else {
                print_message("%s:%d: skipped: %s is not here\n", path, number, json_string_value(json_object_get(one, "folder")));
            }
            if (made[0]) must(tri__folder_remove(made));
        } else if (tokenizer) {
            check(tokenizer, path, number, one);
            cases++;
        }
        json_decref(one);
    }
    tri__tokenizer_free(tokenizer);
    free(line);
    fclose(in);
    return cases;
}

static void equals_the_library(void **state) {
    (void)state;
    for (int i = 0; i < n_files; i++) print_message("%s: %d cases\n", files[i], check_file(files[i]));
}

int main(int argc, char **argv) {
    if (argc > 1) files = (const char *const *)argv + 1, n_files = argc - 1;
    const struct CMUnitTest tests[] = {cmocka_unit_test(equals_the_library)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
