/* Names of images, and digests. Both come from command lines, policies and archives, and end as
 * parts of paths and as arguments of other programs; so there is one strict spelling of each.
 *
 * IM-1  A digest is "sha256:" and 64 lower-case digits, checked before any use.
 *       A name begins with a letter or digit, has no transport before it, no user, no blank. */
#pragma once

#include "base/err.h"

#include <stdbool.h>

#define DIGEST_SIZE    72 /* with the final NUL */
#define REFERENCE_MAX  255
#define IMAGE_ROOT     "image:" /* before the reference, as value of filesystem.root */
#define REFERENCE_SIZE (REFERENCE_MAX + 1)

struct reference {
    char name[REFERENCE_SIZE]; /* with its tag: "python:3.12-slim", "localhost:5000/a/b:latest" */
    char digest[DIGEST_SIZE];  /* that it is pinned to; empty: none */
};

bool digest_valid(const char *text); /* NULL is none */
/* NAME[:TAG][@sha256:…]; without TAG it is "latest". */
int reference_parse(const char *text, struct reference *ret, struct err *err);
/* Of a value of filesystem.root: the reference behind "image:", NULL where it is none. */
const char *reference_of_root(const char *root);
