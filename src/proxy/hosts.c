/* Reads /etc/hosts and answers from it. */
#include "proxy/hosts.h"

#include "base/cleanup.h"
#include "os/fd.h"

#include <fcntl.h>
#include <string.h>

#define FILE_MAX    (256u * 1024)
#define ENTRIES_MAX 1024

static bool word(const char **at, const char *end, const char **ret, size_t *ret_len)
{
    const char *p = *at;
    while (p < end && (*p == ' ' || *p == '\t' || *p == '\r'))
        p++;
    *ret = p;
    while (p < end && *p != ' ' && *p != '\t' && *p != '\r' && *p != '#')
        p++;
    *ret_len = (size_t)(p - *ret);
    *at = p;
    return *ret_len > 0;
}

static void add(struct hosts *h, const struct host *name, const struct host *address)
{
    if (h->count == ENTRIES_MAX)
        return;
    if ((h->count & (h->count - 1)) == 0) {
        size_t room = h->count ? h->count * 2 : 1;
        struct hosts_entry *entries = reallocarray(h->entries, room, sizeof *entries);
        if (!entries)
            return;
        h->entries = entries;
    }
    h->entries[h->count++] = (struct hosts_entry){*name, *address};
}

static void parse_line(struct hosts *h, const char *at, const char *end)
{
    const char *text;
    size_t len;
    struct host address, name;
    if (!word(&at, end, &text, &len) || host_parse(text, len, false, &address, NULL) < 0 ||
        address.kind == HOST_NAME)
        return;
    while (word(&at, end, &text, &len))
        if (host_parse(text, len, false, &name, NULL) >= 0 && name.kind == HOST_NAME)
            add(h, &name, &address);
}

void hosts_parse(struct hosts *h, const char *text, size_t len)
{
    const char *end = text + len;
    while (text < end) {
        const char *line_end = memchr(text, '\n', (size_t)(end - text));
        if (!line_end)
            line_end = end;
        parse_line(h, text, line_end);
        text = line_end + 1;
    }
}

void hosts_read(struct hosts *h, const char *path)
{
    cleanup_free char *text = malloc(FILE_MAX);
    ssize_t len = text ? file_read(AT_FDCWD, path, text, FILE_MAX) : -1;
    if (len > 0)
        hosts_parse(h, text, (size_t)len);
}

void hosts_done(struct hosts *h)
{
    free(h->entries);
    *h = (struct hosts){0};
}

void hosts_find(const struct hosts *h, const struct host *name,
                void (*fn)(void *ctx, const struct host *address), void *ctx)
{
    for (size_t i = 0; i < h->count; i++)
        if (host_equal(&h->entries[i].name, name))
            fn(ctx, &h->entries[i].address);
}
