/* What an image of the host's own packages is made of. Private to images/load/. */
#pragma once

#include "base/err.h"

#include <stddef.h>

/* Texts that are owned. */
struct host_list {
    char **items;
    size_t count, room;
};
int host_list_add(struct host_list *l, const char *text, struct err *err);
void host_list_done(struct host_list *l);
/* Sorted, each once. */
void host_list_settle(struct host_list *l);
int host_list_has(const struct host_list *l, const char *text); /* of a settled one */

/* host_packages.c: the paths of the files of these packages (separated by commas), of all that they
 * depend on, and of what the distribution calls essential; as dpkg lists them. */
int host_packages_files(const char *names, struct host_list *ret, struct err *err);

/* host_tar.c: writes them as a layer. The digest has room for DIGEST_SIZE. */
int host_tar_write(int fd, const struct host_list *files, char *digest, struct err *err);
