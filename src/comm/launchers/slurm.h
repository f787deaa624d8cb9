/* slurm.h - Slurm's two small grammars: tasks per machine, "2(x3),1", and names of machines, "n[01-03,07],gpu5". */
#pragma once

#include <stddef.h>

/* Tasks of machine `node` (from 0); 0 when the text is malformed or lists fewer machines. */
int tri__slurm_tasks(const char *text, int node);
/* Name of machine `node` (from 0) into out[size], leading zeros kept; 0 if the text is malformed, lists fewer machines,
 * or does not fit. */
int tri__slurm_host(const char *text, int node, char *out, size_t size);
