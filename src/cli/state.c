/* Where the daemon's state and runtime folders are, and how an API key is made. */
#include "cli/state.h"

#include "cli/path.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define KEY_PREFIX "brig_"
#define KEY_BYTES  32
#define KEY_CHARS  43

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
    static const char alphabet[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    uint8_t bytes[KEY_BYTES + 1] = {0};
    if (getrandom(bytes, KEY_BYTES, 0) != KEY_BYTES)
        return err_sys(err, "random key");
    size_t used = (size_t)snprintf(ret, API_KEY_SIZE, KEY_PREFIX);
    for (unsigned i = 0; i < KEY_CHARS; i++) {
        unsigned bit = i * 6;
        unsigned pair = (unsigned)bytes[bit / 8] << 8 | bytes[bit / 8 + 1];
        ret[used++] = alphabet[pair >> (10 - bit % 8) & 63];
    }
    ret[used] = '\0';
    explicit_bzero(bytes, sizeof bytes);
    return 0;
}
