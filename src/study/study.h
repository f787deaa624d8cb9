/* study.h - plans that are looked at and not run, as the commands ask for them. */
#ifndef TRI_STUDY_STUDY_H
#define TRI_STUDY_STUDY_H

#include "base/log.h"
#include "base/stop.h"
#include "engine/engine.h"
#include "settings/settings.h"

/* All ranks' programs, planned and checked, and what they were planned from. */
typedef struct tri_study {
    tri_assets assets;
    tri_engine engine; /* of rank 0; not bound to memory */
    tri_programs all;
} tri_study;

/* Plans and checks settings->world_size ranks. *out: zeroed before; closed already when this fails. */
tri_status tri__study_open(const tri_settings *settings, const tri_log *log, tri_study *out);
void tri__study_close(tri_study *study);

/* Plans settings->world_size ranks without touching data beyond its lengths. Prints, checks; facts as JSON (new
 * reference): per rank bytes of each class, instructions, flops a step; with --timeline or --hardware `simulation`,
 * with --csv `csv`, with --params `params` (study/views.h). `program`: text of --print-program, or NULL; the caller
 * frees it. */
tri_status tri__study_plan(const tri_settings *settings, const tri_log *log, tri_json **facts, char **program);

/* Proves printed programs: those of all ranks of a mesh, in any number of files. TRI_DATA at the first defect, which
 * begins with file and line. facts (new reference): checked, programs: [{title, ranks, instructions, transfers,
 * peak_bytes}]. */
tri_status tri__study_check(const char *const *paths, int n, tri_json **facts);
/* Times them on --hardware (left out: cpu). facts as `simulation` of a plan, without what only the plan knows:
 * bubble and microbatches_held. */
tri_status tri__study_simulate(const tri_settings *settings, const char *const *paths, int n, tri_json **facts);

/* The program as it stands after the pass --print-after, of the ranks that --print-program asks for. The caller frees
 * it. Passes behind that one are not run. */
tri_status tri__study_passes(const tri_settings *settings, const tri_log *log, char **program);

/* Before ranks are started on this machine: makes the token stores, plans and checks all ranks, and compares what they
 * need together with the memory there is (TRI_RESOURCE with figures). TRI_STOPPED when `stop` (NULL: nobody asks) ended
 * it. */
tri_status tri__study_prepare(const tri_settings *settings, const tri_stop *stop);

#endif
