/* The filter that a configuration brings, compiled. It is loaded on top of brig's own, and the
 * kernel takes the stricter answer of the two: it can only narrow. */
#pragma once

#include "base/err.h"
#include "base/json.h"

#include <linux/filter.h>
#include <stdint.h>

#define OCI_FILTER_MAX 4096u

struct oci_filter {
    struct sock_filter code[OCI_FILTER_MAX];
    uint16_t len;   /* 0: none */
    unsigned flags; /* of seccomp(2) */
};

/* `seccomp` may be NULL. OC-1: what cannot be compiled is refused by its name. */
int oci_filter_compile(const struct json *seccomp, struct oci_filter *ret, struct err *err);
