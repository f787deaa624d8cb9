/* demo_data.c - generates deliveries whose label needs all three inputs.
 *
 * Three hidden bits, each fair and independent:
 *   doubt    the customer does not accept the agent's answer; shown by how a reply is worded (dialogue)
 *   bounced  the parcel came back after it had gone out; shown by the order of two events (shiptrack), both of which
 *            always occur
 *   silent   more days late than updates sent; shown by comparing two columns, each of which alone says little
 *
 * The label is their majority, flipped in TRI_DEMO_NOISE percent of the rows. Knowing one or two of the bits gives at
 * most 75 % of the labels (before noise), all three give all. Every random number is Philox of (seed, split, row,
 * draw). */
#include "cli/demo/demo_data.h"

#include "base/file.h"
#include "report/text/json_numbers.h"

typedef struct dice {
    uint32_t seed, split, row, drawn;
} dice;

/* A number below n. */
static uint32_t roll(dice *d, uint32_t n) {
    tri_random random = tri__philox(d->seed, tri__random_id("demo"), d->row, d->drawn++, d->split, 3);
    return (uint32_t)((uint64_t)random.word[0] * n >> 32);
}

#define PICK(d, list) ((list)[roll((d), sizeof(list) / sizeof *(list))])

static const char *const openings[] = {
    "hello, my {item} has not arrived",          "hi, where is my {item}",
    "i ordered a {item} and it is late",         "the tracking page for my {item} has not changed",
    "can you check on my {item} please",         "good morning, i am waiting for a {item}",
    "my {item} should have been here last week", "i need to know when the {item} will come",
    "please tell me what happened to my {item}",
};
static const char *const items[] = {"lamp", "kettle", "bicycle", "jacket", "printer", "sofa", "guitar", "tent",
                                    "camera", "desk", "radio", "blender"};
static const char *const answers[] = {
    "i am sorry, the parcel is on its way",     "thank you for waiting, it should come {when}",
    "i will ask the depot and call you {when}", "the courier says it will arrive {when}",
    "i apologise, we had a delay at the depot", "let me check, it left the depot and is moving again",
    "our manager is looking into it",           "the page will change {when}, please wait a bit longer",
};
static const char *const whens[] = {"tomorrow", "next week", "in two days", "on monday", "on friday", "soon"};
static const char *const fillers[] = {
    "the order number is {number}",      "i live on the {floor} floor",
    "the parcel is for my neighbour",    "i paid by card",
    "you can leave it with a neighbour", "my phone number has changed",
    "it is a present",                   "the invoice says {number}",
};
static const char *const floors[] = {"first", "second", "third", "top"};
static const char *const closings[] = {
    "is there anything else", "have a good day",           "i have added a note",
    "thank you for the call", "i will send you a message", "goodbye",
};

/* The two pools share their words, so that no single word decides. */
static const char *const accepts[] = {
    "thank you, that is all i needed to know",    "no rush, {when} is fine for me",
    "i can wait a bit longer, no problem",        "good to know, i am happy with that answer",
    "fine, i will look at the page again {when}", "that makes sense, thanks for the help",
    "alright, i trust you to sort it out",        "it is not urgent, i just wanted to check",
    "no need to call the manager, it is fine",    "okay, then i will not worry about it",
    "great, that is a real answer",               "i understand, these things happen",
    "perfect, {when} is good enough",             "no problem at all, i have time",
};
static const char *const refuses[] = {
    "that is not good enough, i needed it last week",    "i have waited long enough, this is no answer",
    "no thanks, i want to speak to the manager",         "you told me the same last week and nothing happened",
    "this is not fine, i will not order here again",     "i do not trust that page at all",
    "how much longer must i wait, i need a real answer", "that makes no sense, i want my money back",
    "i am not happy, you always say {when}",             "it is urgent, and you have no idea where it is",
    "{when} is too late, this is a problem",             "i do not understand how this can happen",
    "sorry is not enough, i have no time for this",      "i will complain if it is not here {when}",
};

static const char *const places[] = {"leipzig", "hamburg", "porto", "lyon",  "gdansk",
                                     "turin",   "bergen",  "ghent", "malmo", "brno"};
static const char *const starts[] = {"label created", "picked up", "handed in", "order received"};
static const char *const scans[] = {"arrived at hub", "departed hub",    "sorted",
                                    "scanned",        "customs cleared", "in transit"};
static const char *const goes[] = {"out for delivery", "loaded on van", "with courier"};
static const char *const fails[] = {"held at depot", "address unclear", "sent back", "on hold"};

/* Appends with {slots} filled in; `line` is large enough (all texts are constants and short). */
static void say(dice *d, char *line, size_t room, const char *pattern) {
    size_t at = strlen(line);
    while (*pattern && at + 1 < room) {
        if (*pattern != '{') {
            line[at++] = *pattern++;
            continue;
        }
        char word[16];
        const char *end = strchr(pattern, '}'), *value = word;
        size_t length = (size_t)(end - pattern) - 1;
        if (!strncmp(pattern + 1, "item", length)) value = PICK(d, items);
        else if (!strncmp(pattern + 1, "when", length)) value = PICK(d, whens);
        else if (!strncmp(pattern + 1, "floor", length)) value = PICK(d, floors);
        else snprintf(word, sizeof word, "%u", 1000 + roll(d, 9000));
        at += (size_t)snprintf(line + at, room - at, "%s", value);
        pattern = end + 1;
    }
    TRI_ASSERT(at + 1 < room);
    line[at] = 0;
}

static void dialogue(dice *d, int doubt, char *out, size_t room) {
    const char *verdict = doubt ? PICK(d, refuses) : PICK(d, accepts);
    *out = 0;
    say(d, out, room, "customer: ");
    say(d, out, room, PICK(d, openings));
    if (roll(d, 2)) say(d, out, room, ". "), say(d, out, room, PICK(d, fillers));
    say(d, out, room, ". agent: ");
    say(d, out, room, PICK(d, answers));
    say(d, out, room, ". customer: ");
    int first = roll(d, 2);
    if (first) say(d, out, room, verdict), say(d, out, room, ". ");
    if (roll(d, 3) == 0) say(d, out, room, PICK(d, fillers)), say(d, out, room, ". ");
    if (!first) say(d, out, room, verdict), say(d, out, room, ". ");
    say(d, out, room, "agent: ");
    say(d, out, room, PICK(d, closings));
    say(d, out, room, ".");
}

static void event(dice *d, char *out, size_t room, const char *status) {
    if (*out) say(d, out, room, "; ");
    if (roll(d, 2)) say(d, out, room, PICK(d, places)), say(d, out, room, " ");
    say(d, out, room, status);
}

static void track(dice *d, int bounced, char *out, size_t room) {
    const char *go = PICK(d, goes), *fail = PICK(d, fails);
    *out = 0;
    event(d, out, room, PICK(d, starts));
    for (uint32_t i = 1 + roll(d, 2); i > 0; i--) event(d, out, room, PICK(d, scans));
    event(d, out, room, bounced ? go : fail);
    if (roll(d, 2)) event(d, out, room, PICK(d, scans));
    event(d, out, room, bounced ? fail : go);
}

typedef struct row {
    char dialogue[512], track[512], value[16];
    int late, updates, claims, label;
} row;

static void make(uint32_t seed, uint32_t split, uint32_t index, row *out) {
    dice d = {.seed = seed, .split = split, .row = index};
    int doubt = (int)roll(&d, 2), bounced = (int)roll(&d, 2), silent = (int)roll(&d, 2);
    dialogue(&d, doubt, out->dialogue, sizeof out->dialogue);
    track(&d, bounced, out->track, sizeof out->track);
    int small = (int)roll(&d, 11), large = small + 2 + (int)roll(&d, 5); /* differ by at least 2 */
    out->late = silent ? large : small;
    out->updates = silent ? small : large;
    out->claims = (int)roll(&d, 4);
    out->value[0] = 0; /* one in fifty is missing */
    if (roll(&d, 50)) snprintf(out->value, sizeof out->value, "%u.%02u", 5 + roll(&d, 400), roll(&d, 100));
    out->label = (doubt + bounced + silent >= 2) ^ (roll(&d, 100) < TRI_DEMO_NOISE);
}

/* Texts contain commas, so they are quoted; they never contain quotes. */
static tri_status write_split(const char *folder, const char *name, uint32_t seed, uint32_t split, uint32_t rows,
                              char **texts) {
    TRI_PATH(path, folder, name);
    TRI_OWNED(tri__free_at) char *data = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&data, &size);
    if (!file) return tri__fail(TRI_RESOURCE, "out of memory while generating %s", name);
    int failed = 0;
    fprintf(file, "dialogue,shiptrack,days_late,updates_sent,declared_value,prior_claims,label\n");
    for (uint32_t i = 0; i < rows; i++) {
        row r;
        make(seed, split, i, &r);
        fprintf(file, "\"%s\",\"%s\",%d,%d,%s,%d,%d\n", r.dialogue, r.track, r.late, r.updates, r.value, r.claims,
                r.label);
        if (texts) failed |= !(texts[2 * i] = strdup(r.dialogue)) || !(texts[2 * i + 1] = strdup(r.track));
    }
    if (!tri__memstream_close(file, &data) || failed)
        return tri__fail(TRI_RESOURCE, "out of memory while generating %s", name);
    return tri__file_write(path, data, size);
}

tri_status tri__demo_write(const char *folder, uint32_t seed, tri_demo_texts *texts) {
    *texts = (tri_demo_texts){.at = calloc(2 * TRI_DEMO_TRAIN, sizeof(char *)), .n = 2 * TRI_DEMO_TRAIN};
    if (!texts->at) return tri__fail(TRI_RESOURCE, "out of memory while generating the demo's data");
    TRI_TRY(write_split(folder, "train.csv", seed, 0, TRI_DEMO_TRAIN, texts->at));
    TRI_TRY(write_split(folder, "valid.csv", seed, 1, TRI_DEMO_VALID, NULL));
    return write_split(folder, "test.csv", seed, 2, TRI_DEMO_TEST, NULL);
}

void tri__demo_texts_free(tri_demo_texts *texts) {
    for (int64_t i = 0; texts->at && i < texts->n; i++) free(texts->at[i]);
    free(texts->at);
    *texts = (tri_demo_texts){0};
}
