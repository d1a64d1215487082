/* Where the daemon's state and runtime folders are, and how an API key is made. */
#include "cli/state.h"

#include "cli/path.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

int state_folder(const char *given, struct buf *out, struct err *err)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    if (given)
        return path_resolve(given, out, err);
    if (geteuid() == 0)
        buf_str(out, "/var/lib/brig/serve");
    else if (state && state[0] == '/')
        buf_fmt(out, "%s/brig/serve", state);
    else if (home && home[0] == '/')
        buf_fmt(out, "%s/.local/state/brig/serve", home);
    else
        return err_set(err, ERR_USAGE, "no HOME to keep the state in; name a folder with --state");
    return out->failed ? err_set(err, ERR_LIMIT, "the state folder's name is too long") : 0;
}

void state_runtime(char ret[static STATE_RUNTIME_SIZE])
{
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    ret[0] = '\0';
    if (geteuid() == 0)
        snprintf(ret, STATE_RUNTIME_SIZE, "/run/brig");
    else if (runtime && runtime[0] == '/' && strlen(runtime) < STATE_RUNTIME_SIZE - 6)
        snprintf(ret, STATE_RUNTIME_SIZE, "%s/brig", runtime);
}

int api_key_make(char ret[static API_KEY_SIZE], struct err *err)
{
    static const char digits[] = "0123456789abcdef";
    uint8_t bytes[API_KEY_DIGITS / 2];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return err_sys(err, "random key");
    size_t used = (size_t)snprintf(ret, API_KEY_SIZE, API_KEY_PREFIX);
    for (size_t i = 0; i < sizeof bytes; i++) {
        ret[used++] = digits[bytes[i] >> 4];
        ret[used++] = digits[bytes[i] & 15];
    }
    ret[used] = '\0';
    explicit_bzero(bytes, sizeof bytes);
    return 0;
}

int api_key_read(int fd, const char *file, char ret[static API_KEY_SIZE], struct err *err)
{
    ssize_t n = read(fd, ret, API_KEY_SIZE - 1);
    if (n < 0)
        return err_sys(err, "read the key file %s", file);
    ret[n] = '\0';
    ret[strcspn(ret, "\r\n")] = '\0';
    if (api_key_ok(ret))
        return 0;
    explicit_bzero(ret, API_KEY_SIZE);
    err_set(err, ERR_USAGE, "the key file %s holds no key", file);
    return err_hint(err, "a key is " API_KEY_PREFIX " and 32 to 96 digits of 0-9 a-f, alone in its "
                         "first line: brig keys add makes one");
}
