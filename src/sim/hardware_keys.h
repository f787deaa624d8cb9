/* hardware_keys.h - the members of a hardware file but for its curves and its target: one row each, for reading and
 * writing. */
#pragma once

#include "sim/hardware.h"

typedef struct tri_hardware_key {
    const char *section;   /* the object that holds it; NULL: the file itself */
    const char *key;
    size_t offset;         /* of the field, whose type follows from the kind */
    enum { TRI_KEY_NUMBER, TRI_KEY_WHOLE, TRI_KEY_SWITCH, TRI_KEY_TEXT, TRI_KEY_TEXTS } kind;
    int required;          /* 0: left out if 0 or NULL */
    double min, max;       /* of numbers */
} tri_hardware_key;

extern const tri_hardware_key tri__hardware_keys[]; /* ends with a NULL key */

/* The target as data, "target" of a file. */
tri_json *tri__target_json(const tri_target *target);
tri_status tri__target_read(tri_arena *arena, const char *name, const tri_json *value, const char *device,
                            const tri_target **out);
/* TRI_DATA: "NAME: SECTION.KEY …" where an object has a key that is not among `known`. */
tri_status tri__hardware_refuse(const char *name, const char *section, const tri_json *object,
                                const char *const *known, int n);
