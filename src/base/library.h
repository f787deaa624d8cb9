/* library.h - plug-ins: our own shared libraries, found and loaded at run time. */
#pragma once

/* Opens the plug-in of that name: from the folder of this library or program, then ../lib and .. of either, then the
 * system's search path. global: RTLD_GLOBAL. NULL if it does not load; *why is the reason, valid until the next
 * call. */
void *tri__library_open(const char *name, int global, const char **why);
/* Whether a library did not load because memory ran out; to be asked at once. why: dlerror's text; NULL: none. */
int tri__library_no_memory(const char *why);
