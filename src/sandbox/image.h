/* An image as the root of a sandbox. */
#pragma once

#include "images/store.h"
#include "policy/policy.h"

/* What the policy's root names; an image_init'ed one where that is no image. It stays usable until
 * image_done. */
int sandbox_image_open(const struct policy *p, struct image *ret, struct err *err);
/* Lays what the image's config says under what the policy says: variables that it does not set, the
 * user id and the working folder where nobody chose them. Nothing else of it counts. */
int sandbox_image_apply(struct policy *p, const struct image *image, struct err *err);
/* Entry point and arguments: what is to be run, where `command` is what the caller gave. The array
 * is the caller's to free, its texts are not. */
char **sandbox_image_argv(const struct image *image, char *const *command);
