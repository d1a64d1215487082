/* No project is offered yet. */
#include "daemon/review.h"

void review_diff(struct box *b, enum review_format format, review_fn *fn, void *ctx)
{
    struct err err = ERR_INIT;
    (void)b, (void)format;
    err_set(&err, ERR_REFUSED, "this sandbox has no project to review");
    fn(ctx, NULL, 0, &err);
}
