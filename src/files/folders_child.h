/* The folders that a WATCH watches: slots that know their name and the slot above, so that the path
 * of an event can be told. Part of the file worker. */
#pragma once

#include <stdint.h>

#define FOLDERS_TOP  0
#define FOLDERS_NONE UINT32_MAX

/* The inotify descriptor. */
int folders_begin(void);
/* Watches the folder behind `fd`. The first one is the top. */
int folders_add(int fd, uint32_t above, const char *name, uint32_t *ret);
uint32_t folders_find(int wd);
uint32_t folders_child(uint32_t above, const char *name);
/* Ends the watch of this one and of all below it. Takes FOLDERS_NONE. */
void folders_forget(uint32_t slot);
/* Of `name` in a folder, below the top; NULL if it is too long. Valid until the next call. */
const char *folders_path(uint32_t slot, const char *name);
