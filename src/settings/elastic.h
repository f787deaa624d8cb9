/* elastic.h - the mesh of a run that goes on with another number of ranks (--elastic). */
#pragma once

#include "settings/settings.h"

/* Stages and replicas of a mesh. */
typedef struct tri_elastic_mesh {
    int stages, replicas;
    int ranks; /* that it uses */
} tri_elastic_mesh;

/* The meshes that at most `alive` ranks can form, best first: at most `max` of them; returns how many. Tensor, context
 * and expert groups stay as they are: their weights and tokens are split by them. A mesh that uses more ranks is
 * better, then one with as many stages as were asked for, then one with more, whose ranks need less memory. Stages that
 * were cut by hand (--stages) stay. */
int tri__elastic_meshes(const tri_settings *asked, int alive, tri_elastic_mesh *out, int max);
/* The settings with this mesh and the same global batch and microbatches; borrows what `asked` owns. */
tri_settings tri__elastic_settings(const tri_settings *asked, int stages, int replicas);
