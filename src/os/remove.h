/* Emptying a folder that hostile code filled, by descriptor, without following anything, in bounded
 * memory whatever its depth: sub-folders are moved up to the top before they are emptied. */
#pragma once

/* 0: it is empty now. Otherwise as much of it is gone as could be, and this is a negative errno of
 * the first that could not. Raw system calls only, so that the guardian may use it too. */
__attribute__((warn_unused_result)) int remove_contents(int dir_fd);
/* The same, and then the folder itself, which is called `name` in `parent`. What was killed a
 * moment ago may still be writing its last: tries again for a second. 0, or a negative errno if it
 * is still there. Without a descriptor of it (-1) only an empty folder goes. */
int remove_folder(int parent, const char *name, int dir_fd);
