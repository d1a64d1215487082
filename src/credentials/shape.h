/* Names that servers take credentials from. At a host that a secret is bound to, whatever of the
 * client's own has such a name is taken out: with an account of somebody else's the code could
 * carry data there that its own account never sees (C-10). */
#pragma once

#include <stdbool.h>
#include <stddef.h>

bool shape_is_credential_header(const char *name, const char *value);
/* `name` as it stands in the query, not decoded. */
bool shape_is_credential_member(const char *name, size_t len);
