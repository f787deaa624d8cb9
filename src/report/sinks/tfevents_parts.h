/* tfevents_parts.h - internals of TensorBoard's event files: tfevents.c (records, scalars, the sink), tfevents_views.c
 * (what TensorBoard's plug-ins show: precision-recall curves, texts, hyperparameters). */
#pragma once

#include "report/sinks/protobuf.h"
#include "train/events.h"

/* Fields of protobuf messages, by message. */
enum {
    TRI_EVENT_FIELD_TIME = 1, TRI_EVENT_FIELD_STEP, TRI_EVENT_FIELD_VERSION, TRI_EVENT_FIELD_SUMMARY = 5,
    TRI_EVENT_FIELD_SESSION = 7,
    TRI_SUMMARY_VALUE = 1,
    TRI_VALUE_TAG = 1, TRI_VALUE_SIMPLE = 2, TRI_VALUE_TENSOR = 8, TRI_VALUE_METADATA = 9,
    TRI_METADATA_PLUGIN = 1, TRI_METADATA_NAME, TRI_METADATA_TEXT
};

/* Each appends values to a Summary message. */

/* The precision-recall curve of a class, from scores->above. */
void tri__tfevents_curve(tri_buffer *summary, const tri_scores *scores, int class);
/* The configuration of the START event as a table. */
void tri__tfevents_config(tri_buffer *summary, const tri_json *facts);
/* Hyperparameters: the scalar members of the START event's configuration; and the end of the run. */
void tri__tfevents_hyper(tri_buffer *summary, const tri_json *facts, double time);
void tri__tfevents_hyper_end(tri_buffer *summary, double time);

/* A class's name in a tag: short, and unlike every other's. */
enum { TRI_CLASS_TAG = 160 };
const char *tri__tfevents_class(const tri_scores *scores, int class, char out[static TRI_CLASS_TAG]);
