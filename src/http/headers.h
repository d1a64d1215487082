/* What the files of this room share about header fields. */
#pragma once

#include "http/message.h"

/* How many bytes from the start are those of a token; of a field value. */
size_t token_span(const char *text, size_t len);
size_t value_span(const char *text, size_t len);
bool is_blank(char c);
bool list_has_token(const char *list, const char *token);
