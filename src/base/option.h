/* option.h - options as table rows. One row drives parsing of the command line and of the configuration file, help, the
 * man page, shell completion, the recorded configuration, and the effect of a change on a resumed run. A module that
 * reads options owns their rows and the struct they fill. Adding an option: a row and a field.
 * docs/extending/adding-an-option.md */
#pragma once

#include "base/json.h"

typedef enum tri_option_kind {
    TRI_OPTION_BOOL,    /* int */
    TRI_OPTION_INT,     /* int64_t */
    TRI_OPTION_REAL,    /* double */
    TRI_OPTION_TEXT,    /* char *, owned; NULL when unset */
    TRI_OPTION_CHOICE,  /* int: index into choices */
    TRI_OPTION_TEXTS,   /* tri_texts, owned: a JSON array of strings, or comma-separated on the command line */
    TRI_OPTION_REALS,   /* tri_reals, owned: likewise of numbers; or one of the choices */
    TRI_OPTION_OBJECT   /* tri_json *, owned: an object; not on the command line */
} tri_option_kind;

/* The effect on a resumed run of a value that differs from the checkpoint's. Rows of all kinds but the first are keys
 * of the configuration file and are recorded. */
typedef enum tri_effect {
    TRI_EFFECT_UNRECORDED = 1, /* not a key of the configuration file: how to start, print or write */
    TRI_EFFECT_NOTHING,        /* none: the same numbers */
    TRI_EFFECT_ROUNDING,       /* the same sums in another order, or on other ranks */
    TRI_EFFECT_LENGTH,         /* the run's length: a finished run may be extended; else it is a different run */
    TRI_EFFECT_BATCH,          /* the samples of a step: compared by their number, whichever options set it */
    TRI_EFFECT_RUN             /* a different run */
} tri_effect;

typedef struct tri_texts {
    char **at;
    int n;
} tri_texts;

/* Takes the text over, also on failure; NULL, or no room: TRI_RESOURCE. */
tri_status tri__texts_push(tri_texts *texts, char *text);
int tri__texts_has(const tri_texts *texts, const char *text);
void tri__texts_free(tri_texts *texts);

typedef struct tri_reals {
    double *at;
    int n;
    int word;              /* 1 + the index of the choice that was given; n is then 0. 0: numbers */
} tri_reals;

/* The type of a field by the kind of its row. */
#define TRI_FIELD_BOOL int
#define TRI_FIELD_INT int64_t
#define TRI_FIELD_REAL double
#define TRI_FIELD_TEXT char *
#define TRI_FIELD_CHOICE int
#define TRI_FIELD_TEXTS tri_texts
#define TRI_FIELD_REALS tri_reals
#define TRI_FIELD_OBJECT tri_json *

typedef struct tri_option {
    const char *name;      /* with underscores; dashes are equivalent */
    tri_option_kind kind;
    size_t offset;         /* of the field in the module's struct */
    const char *value;     /* default, as text; NULL: unset / 0 / empty */
    double min, max;       /* INT and REAL; both 0: any */
    int repeats;           /* TEXTS: 1: repeating it on the command line appends to the list */
    int pairs;             /* TEXTS: 1: items are "key=value": an object of texts, or one text, is taken too */
    const char *choices;   /* CHOICE, TEXTS: "none|zero1|zero2"; a choice "a=b" makes a an alias of b; INT: "auto=0",
                              words for numbers; REALS: words that stand for a list */
    tri_status (*check)(const char *text); /* TEXT: validates the format; NULL: accepts any */
    const char *alias;     /* another name, e.g. PyTorch's; NULL */
    const char *commands;  /* that take it, comma-separated */
    tri_effect effect;
    const char *heading;   /* heading in help (cli/help.c); NULL: with the command's other options */
    const char *help;      /* one line */
} tri_option;

/* The row of a field of a struct. */
#define TRI_OPTION_ROW(type, kind_, field_, effect_, value_, commands_, help_, ...) \
    {.name = #field_, .kind = TRI_OPTION_##kind_, .offset = offsetof(type, field_), .value = value_, \
     .effect = TRI_EFFECT_##effect_, .commands = commands_, .help = help_, __VA_ARGS__}

/* A list X(enumerator, word)... as enumerators, as the choices of a row, and as names by enumerator. */
#define TRI_ENUMERATOR(id, word) id,
#define TRI_WORD(id, word) word "|"
#define TRI_NAMED(id, word) [id] = word,

/* Rows and the struct that they fill. */
typedef struct tri_option_set {
    const tri_option *rows;
    void *into;
} tri_option_set;

/* Rows end with a NULL name. */
tri_status tri__options_init(const tri_option *rows, void *into); /* sets defaults; TRI_RESOURCE: all are unset */
void tri__options_free(const tri_option *rows, void *into);    /* frees what is owned */
/* Finds a row by name or alias, dashes = underscores; NULL if there is none. */
const tri_option *tri__option_find(const tri_option *rows, const char *name);
/* TRI_USAGE with option, value and the expected form. `origin`: "--lr", or "config.json: lr". */
tri_status tri__option_set_text(const tri_option *row, void *into, const char *origin, const char *text);
tri_status tri__option_set_json(const tri_option *row, void *into, const char *origin, const tri_json *value);
/* Whether the field has the row's default. Not for lists. */
int tri__option_is_default(const tri_option *row, const void *from);
/* A new reference; JSON null when unset. */
tri_json *tri__option_json(const tri_option *row, const void *from);
/* A value as it would be typed, a list of texts with `between` between them: into `out`, or the text itself; NULL: none
 * of these, or too long. */
enum { TRI_OPTION_TYPED = 256 };
const char *tri__option_typed(const tri_json *value, char between, char out[static TRI_OPTION_TYPED]);
/* Whether it is an option of this command or, for "config", a key of the configuration file. Options of "train" are
 * also those of "sweep", which trains. */
int tri__option_listed(const tri_option *row, const char *command);
enum { TRI_OPTION_FLAG = 64 }; /* bytes of a flag's text */
/* 1, 0: a word for true, for false, in any case; -1: neither. */
int tri__option_truth(const char *word);
/* "batch_size" as the command line writes it, --batch-size, into `out`, which is returned. */
const char *tri__option_flag(const char *name, char out[static TRI_OPTION_FLAG]);
/* The word of a choice by its index, into `out`, which is returned. */
const char *tri__option_word(const tri_option *row, int index, char out[static TRI_OPTION_FLAG]);
