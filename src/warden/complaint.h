/* What an engine complains of: a piece of text from beside hostile code, shown to people. */
#pragma once

#include <stddef.h>

struct complaint {
    char text[256];
    size_t len;
};
/* One piece of what is there, of which more may be there than is kept: who writes without an end
 * must not keep the reader. */
void complaint_take(struct complaint *c, int fd);
/* Without the program's own name before it; "": nothing was said. */
const char *complaint_text(const struct complaint *c);
