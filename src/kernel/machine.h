/* What the kernel boundary is told of a machine of the vm tier. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* For the receipt, and what its monitor is handed. */
#define KERNEL_HANDED 4
struct kernel_machine {
    char release[64], kernel_hash[72], initramfs_hash[72];
    uint64_t memory;
    unsigned cpus;
    unsigned first_tree; /* its descriptors follow those of the file system boundary */
    bool later;          /* a session: the monitor alone gets them, when init has started it */
    bool cloned;         /* it was not booted, but made from one that was parked */
};
