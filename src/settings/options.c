/* options.c - expands options.def into the run's rows and into what options need. Choices come from the tables of what
 * is chosen. */
#include "settings/settings.h"

#include "device/device.h"
#include "plan/choices.h"
#include "settings/forms.h"

/* Commands that share options. */
#define TRAIN "train"
#define PLANNING "train,plan,choose,simulate"
#define READING "train,eval,predict,plan,choose,simulate"
#define RUNNING "train,eval,predict,serve"
#define COMPUTING "train,eval,predict,serve,plan,choose,simulate"
#define ALL \
    "train,eval,predict,serve,plan,choose,simulate,calibrate,report,trace,inspect,demo,export,quantize,digest," \
    "checkpoint,supervise,doctor,tokenize,vocab,mesh,bench,check,watch,explain"

#define OPTIMISATION .heading = "optimisation"
#define TORCHRUN .heading = "torchrun"
#define RANGE(least, most) .min = (least), .max = (most)
#define FROM(least) RANGE(least, INFINITY)
#define RANKS RANGE(1, 1 << 20)
#define TORCH_TYPES "torch.float32=fp32|torch.bfloat16=bf16|torch.float16=fp16"
#define SEED RANGE(0, 4294967295.0)

static const char optimizers[] =
#define TRI_OPTIMIZER(id, word, ...) word "|"
#include "plan/optimizer/optimizers.def"
    "OneBitAdam=onebit-adam|OneBitLamb=onebit-lamb|ZeroOneAdam=zero-one-adam|FusedLamb=lamb";
static const char schedules[] =
#define TRI_SCHEDULE(id, word, ...) word "|"
#include "plan/schedule/schedules.def"
    "ScheduleGPipe=gpipe|Schedule1F1B=1f1b|ScheduleInterleaved1F1B=interleaved|ScheduleZBVZeroBubble=zbv";
static const char rate_schedules[] =
#define TRI_RATE(id, word, ...) word "|"
#include "settings/learning_rates.def"
    ;
static const char losses[] =
#define TRI_LOSS(id, word, task, ...) word "|"
#include "settings/losses.def"
    ;
static const char figures[] =
#define TRI_FIGURE(id, word, ...) word "|"
#include "score/figures.def"
    ;

/* A value with a syntax is right if it can be parsed. */
#define CHECK(name, form, parse) \
    static tri_status name(const char *text) { \
        form out; \
        return parse(text, &out); \
    }
CHECK(check_profile, tri_profile_steps, tri__profile_parse)
CHECK(check_average, tri_average_form, tri__average_parse)
CHECK(check_threshold, tri_threshold, tri__threshold_parse)
CHECK(check_limit, int64_t, tri__memory_limit_parse)

static tri_status check_split(const char *text) { return tri__split_parse(text, (double[3]){0}); }

static tri_status check_layer_drop(const char *text) { return tri__layer_drop_parse(text, &(double){0}, &(double){0}); }

static tri_status check_order(const char *text) {
    tri_mesh mesh = {.pp = 1, .tp = 1, .dp = 1};
    return tri__mesh_set_order(&mesh, text, 1);
}

const tri_option tri__run_options[] = {
#define TRI_OPTION(kind_, field_, effect_, value_, commands_, help_, ...) \
    TRI_OPTION_ROW(tri_settings, kind_, field_, effect_, value_, commands_, help_, __VA_ARGS__),
#define TRI_NEEDS(...)
#include "settings/options.def"
    {0}};

/* ---- What options need ---- */

static const unsigned takes[] = {
#define TRI_OPTIMIZER(id, word, takes, ...) takes,
#include "plan/optimizer/optimizers.def"
};

#define TRI_OPTION(...)
#define TAKES(what) (takes[s->optimizer] & TRI_TAKES_##what)
#define TRI_NEEDS(field, condition, message) \
    static int has_meaning_##field(const tri_settings *s) { return (condition) != 0; }
#include "settings/options.def"

#define WITH(what) ": has a meaning with " what " only: give that, or leave it out"
#define DIVIDES " says how one table is divided: give --split, for example 0.8,0.1,0.1, or --folds"

tri_status tri__settings_needs(const tri_settings *s) {
    static const struct {
        const char *name;
        int (*holds)(const tri_settings *s);
        const char *message;
    } needs[] = {
#define TRI_OPTION(...)
#define TRI_NEEDS(field, condition, message) {#field, has_meaning_##field, message},
#include "settings/options.def"
    };
    for (size_t i = 0; i < sizeof needs / sizeof *needs; i++) {
        const tri_option *run = tri__option_find(tri__run_options, needs[i].name),
                         *row = run ? run : tri__option_find(tri__model_options, needs[i].name);
        char flag[TRI_OPTION_FLAG];
        if (!needs[i].holds(s) && !tri__option_is_default(row, run ? (const void *)s : &s->model))
            return tri__fail(TRI_USAGE, "%s%s", tri__option_flag(row->name, flag), needs[i].message);
    }
    return TRI_OK;
}
