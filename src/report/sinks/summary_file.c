/* summary_file.c - summary.json: the result of a run, machine-readable. */
#include "report/sinks/sinks.h"

#include "base/file.h"

/* context: the folder */
static tri_status emit(void *context, const tri_event *event) {
    int found = event->kind == TRI_EVENT_UNCHANGED; /* whoever waits for this run's results sees that it had them */
    if (!found && (event->kind != TRI_EVENT_END || !event->facts)) return TRI_OK;
    TRI_PATH(path, context, "summary.json");
    if (found) return tri__file_touch(path) ? tri__fail_errno("touch", path, TRI_IO) : TRI_OK;
    return tri__json_save(path, event->facts);
}

tri_status tri__summary_open(const char *folder, tri_sink *sink) {
    TRI_PATH(path, folder, "summary.json");
    TRI_TRY(tri__file_check_own(path)); /* fail now, not after the last step */
    return tri__folder_sink(folder, emit, "the summary", sink);
}
