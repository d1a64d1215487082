/* What the template files share. */
#pragma once

#include "warden/template.h"

bool template_name_ok(const char *name);
void template_drop_modules(struct template *t);
/* Lays a file over what is already in t. `name` is for messages. After a failure t is only good for
 * being freed. */
int template_parse(struct template *t, const char *name, const char *text, size_t len,
                   struct err *err);
/* Can the daemon use it? */
int template_check(const struct template *t, struct err *err);
