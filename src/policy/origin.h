/* Where a value of the policy came from. */
#pragma once

#include <stdint.h>

#define POLICY_UNLIMITED UINT64_MAX

enum origin_kind {
    ORIGIN_DEFAULT, /* same at every level */
    ORIGIN_LEVEL,
    ORIGIN_FILE,
    ORIGIN_OPTION,
};

struct origin {
    enum origin_kind kind;
    unsigned line; /* ORIGIN_FILE */
    unsigned column;
    /* ORIGIN_OPTION: "--memory"; ORIGIN_LEVEL: "high"; ORIGIN_FILE: the file's last path component,
     * cut to fit */
    char name[64];
};
