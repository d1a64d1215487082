/* What an attack says from inside, line by line. Hostile input as far as this side is concerned. */
#pragma once

#include "verify/attack.h"

enum report_kind {
    REPORT_NOTHING, /* not one of ours: the output of something else, or nonsense */
    REPORT_OUTCOME,
    REPORT_LOOK, /* now is the time to look at it */
    REPORT_HOME, /* where it keeps its files */
};

struct report {
    enum report_kind kind;
    char id[24];
    struct outcome outcome;
    char home[160];
};

/* Without its newline. */
void report_parse(const char *line, size_t len, struct report *ret);
