/* Where secrets stand in a request; what inject.c and strip.c share. */
#pragma once

#include "policy/egress/egress.h"

/* As the most lenient servers compare them (http/name.h). */
bool same_header(const char *a, const char *b);
/* The header that this secret is put into, or NULL. */
const char *header_of(const struct egress_secret *s);
/* The placeholder is exactly the user or the password of a Basic header. */
bool is_basic_of(const char *header, const char *placeholder);
