/* docs/seccomp.md, written from the table. Used by tools/gen-seccomp-doc and by the test that holds
 * the committed page against it. */
#pragma once

#include "base/buf.h"

void filter_doc_write(struct buf *out);
