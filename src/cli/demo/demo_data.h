/* demo_data.h - the demo's data set: deliveries, and whether the customer will escalate. */
#pragma once

#include "base/base.h"

/* Rows; percent of labels that are flipped. */
enum { TRI_DEMO_TRAIN = 3000, TRI_DEMO_VALID = 500, TRI_DEMO_TEST = 500, TRI_DEMO_NOISE = 2 };

/* The texts of all training rows, for a vocabulary. */
typedef struct tri_demo_texts {
    char **at; /* [n]; owned */
    int64_t n;
} tri_demo_texts;

/* Writes train.csv, valid.csv and test.csv into an existing folder. The same seed gives the same bytes. */
tri_status tri__demo_write(const char *folder, uint32_t seed, tri_demo_texts *texts);
void tri__demo_texts_free(tri_demo_texts *texts);
