/* The source env:NAME: a secret from a variable of the caller. */
#include "credentials/source.h"

#include <stdlib.h>
#include <string.h>

int source_env(const char *name, struct secret **ret, struct err *err)
{
    const char *value = getenv(name);
    if (!value) {
        err_set(err, ERR_REFUSED, "the variable %s is not set", name);
        return err_hint(err, "export %s before you start brig", name);
    }
    if (secret_new(value, strlen(value), ret, err) < 0)
        return err_wrap(err, "variable %s", name);
    return 0;
}
