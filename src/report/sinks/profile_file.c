/* profile_file.c - profile-rank<r>.json: the recorded steps of a rank; train/record/profile.h has its format. */
#include "report/sinks/sinks.h"

#include "base/file.h"

/* context: the folder */
static tri_status emit(void *context, const tri_event *event) {
    if (event->kind != TRI_EVENT_PROFILE || !event->facts) return TRI_OK;
    TRI_PATH(path, context, TRI_TEXT(64, "profile-rank%d.json", event->rank));
    TRI_OWNED(tri__free_at) char *text = tri__json_line(event->facts);
    if (!text) return tri__fail(TRI_RESOURCE, "no memory for %s", path);
    return tri__file_write(path, text, strlen(text));
}

tri_status tri__profile_file_open(const char *folder, tri_sink *sink) {
    return tri__folder_sink(folder, emit, "the profile", sink);
}
