/* Where brig keeps what is its own: keys, records, reviews, sockets. None of it may enter a
 * sandbox, wherever it was put (FS-5). A folder of it is known in three ways: by the places that
 * brig would use for this caller, by a list of the places that were named (`brig serve --state`,
 * …), which lies in the caller's state folder, and by a mark in the folder itself, which stays when
 * it is moved or belongs to somebody else. */
#pragma once

#include <limits.h>
#include <stdbool.h>

#define KEEP_MARK ".brig-state"

/* A folder: marks it and puts it on the list. Does what it can: where there is no place for a list,
 * the mark must do. */
void keep_folder(int dir);
/* The mark alone, for the usual places. True: it is new. */
bool keep_mark(int dir);
/* A file or socket that lies somewhere else: on the list alone. */
void keep_file(const char *path);
/* The folder is about to be removed. */
void keep_forget(int dir);
/* Does this path, which has no links, lead to such a place, into one, or to a folder that holds
 * one? *ret is the place. A path that cannot be walked to its end counts as one. */
bool keep_holds(const char *path, char ret[static PATH_MAX]);
