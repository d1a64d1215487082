/* Pipes for splice(2). They are large, so a tunnel has one only while bytes flow. */
#pragma once

#include <stdbool.h>

struct pipe_pair {
    int read_fd, write_fd; /* -1: none */
};
bool pipe_take(struct pipe_pair *ret);
/* `empty`: nothing is left in it, so that another tunnel may have it. Takes a pair without a pipe.
 */
void pipe_give_back(struct pipe_pair *p, bool empty);
