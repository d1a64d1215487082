/* From a member to what it is part of: the loop hands callbacks the io, timer or task that it
 * knows, and its owner is around it. A pointer to anything but that member does not compile. */
#pragma once

#include <stddef.h>

#define container_of(ptr, type, member)                                                            \
    ({                                                                                             \
        __typeof__(((type *)(void *)(ptr))->member) *member_of_ = (ptr);                           \
        (type *)((char *)member_of_ - offsetof(type, member));                                     \
    })
