/* Private to policy/. */
#pragma once

#include "base/buf.h"

/* A text as a value, in quotes where some reader could take it for anything else. */
void show_yaml_text(const char *text, struct buf *out);
