/* foreign.h - options known from torchrun, PyTorch, Lightning, Hugging Face, DeepSpeed and Megatron: a row says what a
 * name (and value) means here. docs/guide/coming-from-pytorch.md lists the rows. */
#ifndef TRI_SETTINGS_FOREIGN_H
#define TRI_SETTINGS_FOREIGN_H

#include "base/json.h"

enum { TRI_FOREIGN_TEXT = 96 }; /* bytes of a value */

typedef struct tri_foreign {
    const char *name;    /* with underscores; "a|b": either; "ddp_*": any name that begins so */
    const char *value;   /* values it matches, ignoring case; "true", "false": all words for them; NULL: any */
    const char *option;  /* our option that it maps to; NULL: held or refused */
    const char *to;      /* the value of our option; NULL: the given one */
    int held;            /* 1: always the case here; 0: refused */
    /* an object of the configuration file, as the value of our option; NULL: it has no such form */
    tri_status (*read)(const char *origin, const tri_json *value, char out[static TRI_FOREIGN_TEXT]);
    const char *words;   /* held, refused: why, and which option to use */
} tri_foreign;

extern const tri_foreign tri__foreign[]; /* ends with a NULL name */

/* The row for a name with a value (NULL: none was given, as for a switch); NULL: there is none. */
const tri_foreign *tri__foreign_find(const char *name, const char *value);
/* Does the name take true, false or nothing? */
int tri__foreign_is_switch(const char *name);
/* 1, 0: a word for true, for false; -1: neither. */
int tri__foreign_truth(const char *word);

#endif
