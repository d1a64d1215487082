/* What a sandbox changed in the project that it was given a copy-on-write view of (docs/review.md).
 * The front cannot look at files of the host: the warden does the work and hands over a descriptor
 * with finished bytes. */
#pragma once

#include "daemon/box/box.h"

/* Called exactly once, also when the sandbox ends meanwhile. `text` is valid during the call; NULL
 * on failure. */
typedef void review_fn(void *ctx, const char *text, size_t len, const struct err *err);

enum review_format {
    REVIEW_TEXT, /* unified diff, as `brig diff` prints it into a file */
    REVIEW_JSON, /* {"id","project","digest","summary","changes":[…]}, as `brig diff --json` */
    REVIEW_STAT, /* the same without the contents */
};
/* A sandbox without a project fails with ERR_REFUSED. */
void review_diff(struct box *b, enum review_format format, review_fn *fn, void *ctx);
/* {"files":[…],"trust":[…],"digest":"…","dry_run":bool}, all of them optional. The answer is a JSON
 * object: {"applied":[…]}. RV-9: `by` is an operator's key, whoever's the sandbox is: files of the
 * host are changed, and "trust" names those that the host executes. */
void review_take(struct box *b, const struct key *by, const struct json *request, review_fn *fn,
                 void *ctx);
/* Forgets what was changed; the sandbox must not go on with it, so that it is ended. */
void review_drop(struct box *b, const struct key *by, review_fn *fn, void *ctx);
