/* test_hardware.c - hardware files: every built-in one and one with all sections, printed and read back; each missing
 * or impossible figure is refused with its key; sizes of calls. */
#include "tests/lib/test.h"
#include "tests/lib/scratch.h"
#include "device/device.h"
#include "sim/hardware_keys.h"
#include "sim/sizes.h"

#define OK(call) assert_int_equal((call), TRI_OK)

static const char FLAT[] =
    "\"f32_flops\": 1e9, \"half_flops\": 2e9, \"attention_share\": 0.5, \"memory_bytes_per_s\": 1e9,"
    "\"copy_bytes_per_s\": 1e9, \"launch_seconds\": 1e-6, \"ranks_per_node\": 2,"
    "\"near_latency\": 1e-6, \"near_bytes_per_s\": 1e9, \"far_latency\": 1e-5,"
    "\"far_bytes_per_s\": 1e8, \"overlap\": false";

static tri_status read_text(tri_arena *arena, const char *text, tri_hardware *out) {
    tri_json *root;
    OK(tri__json_parse(text, strlen(text), "mine.json", TRI_DATA, &root));
    tri_status status = tri__hardware_read(arena, "mine.json", root, out);
    tri__json_decref(root);
    return status;
}

static char *print(const tri_hardware *hardware) {
    tri_json *json = tri__hardware_json(hardware);
    char *text = tri__json_line(json);
    assert_non_null(text);
    tri__json_decref(json);
    return text;
}

/* Printed, read and printed again: the same text. */
static void prints_back(tri_arena *arena, const tri_hardware *hardware) {
    tri_hardware again;
    char *first = print(hardware);
    OK(read_text(arena, first, &again));
    char *second = print(&again);
    assert_string_equal(first, second);
    free(first), free(second);
}

TEST(built_in) {
    static const char *const names[] = {"h200x8", "a100x8", "cpu"};
    for (int i = 0; i < 3; i++) {
        tri_arena arena = {0};
        tri_hardware h;
        OK(tri__hardware_open(&arena, names[i], &h));
        assert_string_equal(h.name, names[i]);
        assert_string_equal(h.device, i < 2 ? "cuda" : "cpu");
        assert_non_null(strstr(tri__hardware_names(), names[i]));
        assert_true(h.origin.assumed.n > 0); /* each says what is not measured */
        prints_back(&arena, &h);
        tri__arena_close(&arena);
    }
    assert_string_equal(tri__hardware_of("cuda"), "h200x8");
    assert_string_equal(tri__hardware_of("null"), "cpu");
}

TEST_IN(whole_file, setup, teardown) {
    tri_arena arena = {0};
    tri_hardware h;
    char text[4096], path[256];
    snprintf(text, sizeof text,
             "{%s, \"_comments\": \"mine\", \"device\": \"cuda\", \"memory_bytes\": 8e9, \"cores\": 4,"
             "\"queue_seconds\": 1e-6, \"lane_share\": 1.2, \"node_bytes_per_s\": 2e8, \"peak_flops\": {\"bf16\": 3e9},"
             "\"host\": {\"start_seconds\": 0.5, \"token_seconds\": 1e-7}, \"offload\": {\"in_bytes_per_s\": 5e8},"
             "\"watts\": {\"idle\": 10, \"busy\": 100},"
             "\"origin\": {\"measured\": [\"f32_flops\"], \"machine\": \"a box\", \"date\": \"2026-11-16\"},"
             "\"kernels\": [{\"op\": \"linear\", \"dtype\": \"f32\", \"threads\": 2, \"adds\": true,"
             "\"tile\": [256, 192],"
             "\"points\": [[8, 64, 32, 1e-5, 1e-7], [16, 64, 32, 2e-5, 0]]}],"
             "\"links\": [{\"kind\": \"all_reduce\", \"ranks\": 2, \"nodes\": 1, \"points\": [[4, 1e-6, 0],"
             "[262144, 2e-6, 0]]}],"
             "\"target\": {\"granule\": 8, \"lanes\": 2, \"kernels\": {\"f32\": {\"linear\": [0, 4], \"add\": []}}}}",
             FLAT);
    snprintf(path, sizeof path, "%s/machine.json", folder);
    OK(tri__file_write(path, text, strlen(text)));
    OK(tri__hardware_open(&arena, path, &h));
    assert_string_equal(h.name, path);
    assert_true(h.memory == 8e9 && h.cores == 4 && h.lane_share == 1.2 && h.peak[TRI_BF16] == 3e9);
    assert_true(h.host.start == 0.5 && h.host.token == 1e-7 && h.offload.in == 5e8 && h.watts.busy == 100);
    assert_int_equal(h.n_kernels, 1);
    assert_int_equal(h.kernel[0].variant, tri__variant_find("linear"));
    assert_int_equal(h.kernel[0].n, 2);
    assert_true(h.kernel[0].point[1].size[0] == 16 && h.kernel[0].point[1].seconds == 2e-5);
    assert_int_equal(h.link[0].kind, TRI_LINK_ALL_REDUCE);
    assert_true(h.link[0].point[1].bytes == 262144);
    assert_string_equal(h.target->name, "cuda");
    int add = tri__variant_find("add"), linear = tri__variant_find("linear");
    assert_true(h.target->has[add][TRI_F32] && !h.target->has[add][TRI_BF16]);
    assert_true(h.target->work[linear][TRI_F32].row == 4 && h.target->granule == 8 && h.target->lanes == 2);
    assert_string_equal(h.origin.measured.at[0], "f32_flops");
    prints_back(&arena, &h);
    tri__arena_close(&arena);
}

/* Each required figure left out is named. */
TEST(missing) {
    char text[1024];
    tri_arena arena = {0};
    tri_hardware h;
    for (const tri_hardware_key *key = tri__hardware_keys; key->key; key++) {
        if (!key->required || key->kind == TRI_KEY_SWITCH) continue;
        snprintf(text, sizeof text, "{%s}", FLAT);
        char *at = strstr(text, key->key), want[64];
        assert_non_null(at);
        char *end = strchr(at, ',') + 1;
        memmove(at - 1, end, strlen(end) + 1);
        assert_int_equal(read_text(&arena, text, &h), TRI_DATA);
        snprintf(want, sizeof want, "mine.json: %s is missing", key->key);
        assert_non_null(strstr(tri_error(), want));
    }
    tri__arena_close(&arena);
}

/* A file with one more member: refused, and the message has these words. */
static void refused(const char *member, const char *words) {
    char text[2048];
    tri_arena arena = {0};
    tri_hardware h;
    snprintf(text, sizeof text, "{%s, %s}", FLAT, member);
    tri_status status = read_text(&arena, text, &h);
    if (status != TRI_DATA || !strstr(tri_error(), words)) fail_msg("%s: %s", member, tri_error());
    tri__arena_close(&arena);
}

TEST(impossible) {
    refused("\"half_flop\": 1", "did you mean \"half_flops\"");
    refused("\"memory_bytes\": -1", "memory_bytes has to be a number from");
    refused("\"cores\": 1.5", "cores has to be a whole number");
    refused("\"device\": 3", "device has to be a text");
    refused("\"host\": []", "host has to be an object");
    refused("\"host\": {\"start_second\": 1}", "unknown key \"host.start_second\"; did you mean \"start_seconds\"?");
    refused("\"host\": {\"start_seconds\": -1}", "host.start_seconds has to be a number from 0");
    refused("\"watts\": {\"busy\": \"many\"}", "watts.busy has to be a number");
    refused("\"origin\": {\"maker\": [1]}", "origin.maker has to be a list of keys");
    refused("\"kernels\": {}", "kernels has to be a list");
    refused("\"kernels\": [{\"op\": \"linea\", \"dtype\": \"f32\", \"threads\": 1, \"points\": []}]", "kernels[0].op");
    refused("\"kernels\": [{\"op\": \"wait\", \"dtype\": \"f32\", \"threads\": 1, \"points\": []}]", "kernels[0].op");
    refused("\"kernels\": [{\"op\": \"add\", \"dtype\": \"f33\", \"threads\": 1, \"points\": []}]", "kernels[0].dtype");
    refused("\"kernels\": [{\"op\": \"add\", \"dtype\": \"f32\", \"threads\": 1, \"points\": []}]",
            "kernels[0].points");
    refused("\"kernels\": [{\"op\": \"add\", \"dtype\": \"f32\", \"threads\": 1, \"points\": [[1, 2, 0, 0]]}]",
            "kernels[0].points[0] has to be 2 sizes");
    refused("\"links\": [{\"kind\": \"all\", \"ranks\": 2, \"nodes\": 1, \"points\": [[1, 1, 0]]}]", "links[0].kind");
    refused("\"links\": [{\"kind\": \"send\", \"ranks\": 0, \"nodes\": 1, \"points\": [[1, 1, 0]]}]", "links[0].ranks");
    refused("\"links\": [{\"kind\": \"send\", \"ranks\": 2, \"nodes\": 1, \"points\": [[2, 1, 0], [1, 1, 0]]}]",
            "links[0].points have to be in order of bytes");
    refused("\"links\": [{\"kind\": \"send\", \"ranks\": 2, \"nodes\": 2, \"points\": [[8, 1, 0], [256, 1, 0]]}]",
            "send of 2 ranks on 2 nodes, ends at 256 bytes");
    refused("\"target\": {\"kernels\": {}}", "device is missing");
    refused("\"device\": \"cuda\", \"target\": {\"kernels\": {\"f32\": {\"linea\": []}}}", "no operation linea");
    refused("\"device\": \"cuda\", \"target\": {\"kernels\": {\"f32\": {\"linear\": [-1]}}}",
            "target.kernels.f32.linear");
    refused("\"device\": \"cuda\", \"target\": {\"lanes\": 9, \"kernels\": {}}", "target.lanes");
}

/* Points of attention from before raggedness was measured are those of sequences of equal length. */
TEST(without_raggedness) {
    char text[1024];
    tri_arena arena = {0};
    tri_hardware h;
    snprintf(text, sizeof text,
             "{%s, \"kernels\": [{\"op\": \"attention\", \"dtype\": \"f32\", \"threads\": 1,"
             "\"points\": [[64, 16, 2, 8, 1e-5, 1e-7], [64, 16, 2, 8, 1.5, 2e-5, 0]]}]}",
             FLAT);
    OK(read_text(&arena, text, &h));
    const tri_kernel_point *p = h.kernel[0].point;
    assert_true(p[0].size[4] == 1 && p[0].seconds == 1e-5 && p[0].spread == 1e-7);
    assert_true(p[1].size[4] == 1.5 && p[1].seconds == 2e-5);
    prints_back(&arena, &h);
    tri__arena_close(&arena);
    refused("\"kernels\": [{\"op\": \"attention\", \"dtype\": \"f32\", \"threads\": 1, \"points\": [[1, 1, 1, 1, 0]]}]",
            "kernels[0].points[0] has to be 5 sizes");
}

TEST(unknown_name) {
    tri_arena arena = {0};
    tri_hardware h;
    assert_int_equal(tri__hardware_open(&arena, "h300x8", &h), TRI_USAGE);
    assert_non_null(strstr(tri_error(), "h200x8, a100x8, cpu"));
    tri__arena_close(&arena);
}

static char *target_line(const tri_target *target) {
    tri_json *json = tri__target_json(target);
    char *line = tri__json_line(json);
    tri__json_decref(json);
    return line;
}

/* Plans for GPUs that are not here are those of GPUs: a plug-in's table is that of one of the files. */
TEST(built_in_targets_are_the_plugins) {
    const tri_device *device;
    tri_target own;
    int same = 0;
    if (tri__device_get("cuda", &device) != TRI_OK) skip();
    OK(tri__device_target(device, &own));
    char *mine = target_line(&own);
    for (int i = 0; i < 2; i++) {
        tri_arena arena = {0};
        tri_hardware h;
        OK(tri__hardware_open(&arena, i ? "a100x8" : "h200x8", &h));
        assert_string_equal(h.target->name, own.name);
        char *line = target_line(h.target);
        same |= strcmp(line, mine) == 0;
        free(line);
        tri__arena_close(&arena);
    }
    if (!same) fail_msg("neither h200x8.json nor a100x8.json has the kernels %s", mine);
    free(mine);
}

int main(int argc, char **argv) { return run_listed(argc, argv, NULL, NULL); }
