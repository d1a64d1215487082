/* Between clone and the execution of init. */
#pragma once

#include "kernel/kernel.h"

struct enter {
    const struct launch *launch;
    int image_fd;
    bool namespaced;
    bool drop_groups;
    uint64_t more_caps; /* than every set-up needs */
    uid_t uid;          /* as seen from the user namespace the child is in */
    gid_t gid;
};

void enter_child(const struct enter *e) __attribute__((noreturn));
