/* What /proc tells of hostile processes: the first byte says which file it is. Whatever names they
 * gave themselves and their files, numbers stay in their fields and paths in their lines. */
#include "lifecycle/sample_parse.h"
#include "os/procfs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int condition)
{
    if (!condition)
        abort();
}

static void check_stat(const char *text)
{
    struct proc_stat s;
    if (!procfs_stat_parse(text, &s))
        return;
    require(s.ppid >= 0 && s.pgrp >= 0 && memchr(s.name, '\0', sizeof s.name));
    /* A name of the code's choosing before it changes nothing. */
    size_t room = strlen(text) + 32;
    char *longer = malloc(room);
    struct proc_stat again;
    require(longer != NULL);
    snprintf(longer, room, "1 (x) Z 7 (y%s", text);
    require(procfs_stat_parse(longer, &again) && again.ppid == s.ppid && again.own == s.own &&
            again.tasks == s.tasks && again.start == s.start && again.ended == s.ended);
    free(longer);
}

static void check_mapping(const char *text)
{
    struct sample_mapping m;
    if (!sample_mapping_parse(text, &m))
        return;
    size_t len = strlen(text), tail = strlen(SAMPLE_DELETED);
    require(m.path > text && m.path + tail < text + len && m.path[0] == '/');
    require(strcmp(m.path + strlen(m.path) - tail, SAMPLE_DELETED) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = size ? strndup((const char *)data + 1, size - 1) : NULL;
    if (!text)
        return 0;
    switch (data[0] % 4) {
    case 0:
        check_stat(text);
        break;
    case 1:
        check_mapping(text);
        break;
    case 2:
        require(sample_kib_parse(text, "\nRssAnon:") % 1024 == 0 ||
                sample_kib_parse(text, "\nRssAnon:") == UINT64_MAX);
        break;
    default:
        (void)sample_flight_parse(text);
        (void)sample_sockstat_parse(text);
        (void)sample_netlink_parse(text);
        require(!sample_is_lock(text) || strlen(text) >= strlen("lock:"));
    }
    free(text);
    return 0;
}
