/* QuickJS, as its authors publish it, and the two things that its interface lacks. */
#pragma once

#include "quickjs.h"

/* With an allocator that knows the size of what it gave, so that garbage is collected in time. */
JSRuntime *engine_new(void);
/* What was declared at the top, by let, const, class, var and function, becomes what may be
 * declared anew: so a cell can be run twice. 0, or -1 with an exception. */
int engine_loosen(JSContext *ctx);
