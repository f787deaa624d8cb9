/* column_info.h - the Multimodal-Toolkit's column_info.json: the roles of a table's columns. */
#pragma once

#include "settings/settings.h"

typedef struct tri_column_info {
    char *label;        /* label_col */
    tri_texts text;     /* text_cols, at least one */
    tri_texts columns;  /* num_cols, then cat_cols */
    tri_texts categorical, labels; /* cat_cols, label_list */
} tri_column_info;

/* Other keys are ignored; num_cols, cat_cols and label_list may be missing or empty. TRI_USAGE. */
tri_status tri__column_info_read(const char *path, tri_column_info *out);
void tri__column_info_free(tri_column_info *info);
/* Reads the column_info.json that is named, or the data folder's where no text column is named, and takes keys that are
 * not given otherwise. */
tri_status tri__column_info_adopt(tri_settings *settings);
