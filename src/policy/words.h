/* The words of the enumerated fields: the only place where they are spelled. Private to policy/. */
#pragma once

#include "policy/fields.h"

/* NULL if the value is out of range or the type has no words. */
const char *word_of(enum field_type type, uint64_t value);
/* 0 and *ret, or negative; err says which words there are. */
int word_parse(enum field_type type, const char *text, uint64_t *ret, struct err *err);
/* "off, auto or require" */
void words_list(enum field_type type, struct buf *out);
bool type_has_words(enum field_type type);
