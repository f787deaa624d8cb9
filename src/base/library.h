/* library.h - plug-ins: shared libraries of ours that are found and loaded at run time. */
#ifndef TRI_BASE_LIBRARY_H
#define TRI_BASE_LIBRARY_H

/* Opens the plug-in of that name: from beside this library or program, then ../lib and .. of either, then where the
 * system looks. Its symbols are everybody's if `global`. NULL when it does not load; *why then says so, until the next
 * call. */
void *tri__library_open(const char *name, int global, const char **why);

#endif
