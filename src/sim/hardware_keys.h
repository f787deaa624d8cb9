/* hardware_keys.h - the figures of a hardware file: one row each, for reading and writing. */
#ifndef TRI_SIM_HARDWARE_KEYS_H
#define TRI_SIM_HARDWARE_KEYS_H

#include "sim/hardware.h"

typedef struct tri_hardware_key {
    const char *section;   /* the object that holds it; NULL: the file itself */
    const char *key;
    size_t offset;         /* of a double, or an int with `whole` */
    double min, max;
    int required, whole;   /* one that is not required is left out if 0 */
} tri_hardware_key;

const tri_hardware_key *tri__hardware_keys(int *n);
/* Members of the file that are not figures. */
const char *const *tri__hardware_parts(int *n);

/* The target as data, "target" of a file. */
tri_json *tri__target_json(const tri_target *target);
tri_status tri__target_read(tri_arena *arena, const char *name, const tri_json *value, const char *device,
                            const tri_target **out);
/* TRI_DATA: "NAME: SECTION.KEY …" where an object has a key that is not among `known`. */
tri_status tri__hardware_refuse(const char *name, const char *section, const tri_json *object,
                                const char *const *known, int n);

#endif
