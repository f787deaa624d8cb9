/* foreign.h - options known from torchrun, PyTorch, Lightning, Hugging Face, DeepSpeed and Megatron: a row says what a
 * name (and value) means here. docs/guide/coming-from-pytorch.md lists the rows. */
#pragma once

#include "base/json.h"

enum { TRI_FOREIGN_TEXT = 96, TRI_FOREIGN_NAME = 160 }; /* bytes of a value, of a name */

typedef struct tri_foreign {
    const char *name;    /* with underscores; "a|b": either; "ddp_*": any name that begins so */
    const char *value;   /* values it matches, ignoring case; "true", "false": all words for them; NULL: any */
    const char *option;  /* our option that it maps to; NULL: held or refused */
    const char *to;      /* the value of our option; NULL: the given one */
    double scale;        /* our value is the given number times this; 0: as it is */
    int held;            /* 1: always the case here; 0: refused */
    const char *device;  /* held: on this device only */
    int more;            /* of a file's key: the next row that matches counts as well */
    int refines;         /* wins over a row without this that sets the same option */
    /* an object of the configuration file, as the value of our option; NULL: it has no such form */
    tri_status (*read)(const char *origin, const tri_json *value, char out[static TRI_FOREIGN_TEXT]);
    /* Held, refused: why, and which option to use; held and NULL: in silence; mapped: what to know, NULL: nothing. */
    const char *words;
} tri_foreign;

extern const tri_foreign tri__foreign[]; /* ends with a NULL name */

/* Keys of files: rows that count before tri__foreign; a name is a path, "fp16.enabled". An item of a list of numbers
 * is named by its index. docs/guide/files-of-others.md lists the rows. */
extern const tri_foreign tri__deepspeed_rows[], tri__accelerate_rows[], tri__arguments_rows[];
extern const char tri__foreign_file[]; /* the `to` of a row whose option is to name the file itself */

/* The first row from `row` on for a name with a value; whether a row, or one for something inside, has the name. */
const tri_foreign *tri__foreign_next(const tri_foreign *row, const char *name, const char *value);
int tri__foreign_known(const tri_foreign *row, const char *name);
/* The row for a name with a value (NULL: none was given, as for a switch); NULL: there is none. */
const tri_foreign *tri__foreign_find(const char *name, const char *value);
/* Does the name take true, false or nothing? */
int tri__foreign_is_switch(const char *name);

/* ---- files (foreign_read.c) ---- */

#define TRI_FOREIGN_OBJECT "{...}" /* the text of an object that is not walked through */

/* A key of a file with a value, or an object that a row answers as a whole. */
typedef struct tri_foreign_key {
    const char *path;        /* the file */
    const char *origin;      /* "ds.json:3: fp16.enabled" */
    const char *name, *leaf; /* "fp16.enabled", "enabled" */
    const char *text;        /* the value as it would be typed; NULL: null, "auto", empty, or an object that is off */
    tri_json *value;
    const tri_json_lines *lines; /* where keys inside the value are searched from */
    const tri_foreign *row;  /* NULL: no row for the value */
    int is_known;            /* there are rows for other values */
    int is_ours;             /* without a row, the leaf may be an option of ours */
} tri_foreign_key;

typedef tri_status (*tri_foreign_take)(void *context, const tri_foreign_key *key);

/* The rows for the file that an option of ours names; NULL: it names none. */
const tri_foreign *tri__foreign_rows(const char *option);
/* Reads the file that `option` names. TRI_DATA: it is not JSON, or not YAML. */
tri_status tri__foreign_read_file(const char *option, const char *path, tri_foreign_take take, void *context);
/* The same for an object inside a file, whose keys' lines are searched from `lines` on. */
tri_status tri__foreign_read_object(const char *option, const char *path, tri_json_lines lines, tri_json *object,
                                    tri_foreign_take take, void *context);
