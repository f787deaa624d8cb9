/* forms.h - option values with a syntax: each has one function that parses it, or fails with TRI_USAGE, naming the
 * option and what is expected. */
#ifndef TRI_SETTINGS_FORMS_H
#define TRI_SETTINGS_FORMS_H

#include "base/limits.h"
#include "base/option.h"
#include "base/status.h"

/* --separator: "auto" or NULL (0: recognise it), "comma", "semicolon", "tab", "pipe", or the character itself. */
tri_status tri__separator_parse(const char *text, char *separator);

/* --memory-limit: "8G" in bytes; NULL: 0, no limit. */
tri_status tri__memory_limit_parse(const char *text, int64_t *bytes);

/* --profile: "wait=1,warmup=1,active=3", PyTorch's words for steps to skip, to run without recording, and to record. */
typedef struct tri_profile_steps {
    int64_t wait, warmup, active;
} tri_profile_steps;
tri_status tri__profile_parse(const char *text, tri_profile_steps *out);

/* --layer-drop: "theta=0.5,gamma=0.001"; "none": theta is 0. gamma is -1 where it is left out. */
tri_status tri__layer_drop_parse(const char *text, double *theta, double *gamma);

/* --freeze: "embeddings", and the first layers of each encoder as "layers=N" or "layers=all", INT64_MAX. */
tri_status tri__freeze_parse(const tri_texts *texts, int *embeddings, int64_t *layers);
/* --average-weights: "ema" or "ema:0.999" (a decay), "last:3" (epochs); "none": both are 0. */
typedef struct tri_average_form {
    double decay;   /* of an exponential average; 0: it is another */
    int64_t epochs; /* whose ends are averaged; 0: it is another */
} tri_average_form;
tri_status tri__average_parse(const char *text, tri_average_form *out);

enum { TRI_STDOUT = 1, TRI_STDERR = 2 };
/* --redirects, --tee (option): "3" for all n ranks of a machine, or "0:3,1:2" for some; bits as above. */
tri_status tri__streams_parse(const char *option, const char *text, int n, uint8_t out[static TRI_RANKS_PER_NODE]);
/* --local-ranks-filter: the ranks to show, "0,2", as 0 in `hidden`; "" shows all. */
tri_status tri__streams_filter(const char *option, const char *text, int n, uint8_t hidden[static TRI_RANKS_PER_NODE]);

#endif
