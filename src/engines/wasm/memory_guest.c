/* The module's memory: every address and length that a module says is checked here, and nowhere
 * else (WA-2). Memory is little-endian, as both architectures are. */
#include "engines/wasm/wasi.h"

#include "os/weaken.h"

#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "values are copied as they are");

void *wasi_span(const struct wasi *w, uint64_t at, uint64_t len)
{
    /* Both come from 32-bit numbers, but nothing here relies on that. */
    bool inside = at <= w->memory_size && len <= w->memory_size - at;
    if (!w->memory || (!inside && !guard_left_out(GUARD_WASM_MEMORY)))
        return NULL;
    return w->memory + at;
}

static uint32_t put(struct wasi *w, uint64_t at, const void *value, size_t size)
{
    void *place = wasi_span(w, at, size);
    if (!place)
        return WE_FAULT;
    memcpy(place, value, size);
    return WE_SUCCESS;
}

uint32_t wasi_put32(struct wasi *w, uint64_t at, uint32_t value)
{
    return put(w, at, &value, sizeof value);
}

uint32_t wasi_put64(struct wasi *w, uint64_t at, uint64_t value)
{
    return put(w, at, &value, sizeof value);
}

static bool get(const struct wasi *w, uint64_t at, void *value, size_t size)
{
    const void *place = wasi_span(w, at, size);
    if (place)
        memcpy(value, place, size);
    return place != NULL;
}

bool wasi_get32(const struct wasi *w, uint64_t at, uint32_t *ret)
{
    return get(w, at, ret, sizeof *ret);
}
