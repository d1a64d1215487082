/* Before a command is started: do the rules of the policy let it, and does a person, where they ask
 * one? A guide for people; what the command can do is decided by the boundaries. */
#pragma once

#include "sandbox/sandbox.h"

/* The folders in which a command of this request may do as it likes. `roots` has room for `max`.
 * Strings belong to the request and its policy. */
size_t gate_roots(const struct policy *p, const char *project, const char **roots, size_t max);
/* Negative: it is not to be started; err says which rule says so. */
int gate_command(const struct run_request *request, struct run_result *result, struct err *err);
/* Keeps what was asked and answered in the result. */
void gate_note(struct run_result *result, const char *id, const char *kind, const char *text,
               const char *reason, const char *answer, const char *by);
