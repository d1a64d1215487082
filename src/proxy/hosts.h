/* The host's /etc/hosts, read once before the process is sealed. */
#pragma once

#include "http/host.h"

struct hosts_entry {
    struct host name, address;
};
struct hosts {
    struct hosts_entry *entries;
    size_t count;
};
/* A file that cannot be read is an empty one; lines that are not understood are left out. */
void hosts_read(struct hosts *h, const char *path);
void hosts_parse(struct hosts *h, const char *text, size_t len);
void hosts_done(struct hosts *h);
void hosts_find(const struct hosts *h, const struct host *name,
                void (*fn)(void *ctx, const struct host *address), void *ctx);
