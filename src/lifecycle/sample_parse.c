/* Reads the numbers that sampling needs out of files of /proc, whose texts the code can
 * influence. */
#include "lifecycle/sample_parse.h"

#include "base/text.h"

#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

/* The number at *at, and past it; 0 and no further if there is none. */
static uint64_t take_number(const char **at, int base)
{
    char *end;
    uint64_t number = strtoull(*at, &end, base);
    *at = end;
    return number;
}

static void skip_words(const char **at, int count)
{
    while (count-- > 0) {
        *at += strspn(*at, " \t");
        *at += strcspn(*at, " \t");
    }
}

uint64_t sample_kib_parse(const char *text, const char *name)
{
    const char *at = strstr(text, name);
    if (!at)
        return 0;
    at += strlen(name);
    uint64_t kib = take_number(&at, 10);
    return kib > UINT64_MAX / 1024 ? UINT64_MAX : kib * 1024;
}

uint64_t sample_memory_parse(const char *text)
{
    static const char *const parts[] = {
        "\nRssAnon:", "\nRssShmem:", "\nVmPTE:", "\nVmSwap:", "\nHugetlbPages:"};
    uint64_t sum = 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        uint64_t part = sample_kib_parse(text, parts[i]);
        sum = part > UINT64_MAX - sum ? UINT64_MAX : sum + part;
    }
    return sum;
}

bool sample_has_memory(const char *text)
{
    return strstr(text, "\nRssAnon:") != NULL;
}

/* "FROM-TO RIGHTS OFFSET DEVICE INODE   PATH (deleted)" */
bool sample_mapping_parse(const char *line, struct sample_mapping *ret)
{
    static const size_t tail = sizeof SAMPLE_DELETED - 1;
    size_t len = strlen(line);
    const char *at = line;
    if (len <= tail || strcmp(line + len - tail, SAMPLE_DELETED) != 0)
        return false;
    ret->from = take_number(&at, 16);
    if (*at++ != '-')
        return false;
    ret->to = take_number(&at, 16);
    skip_words(&at, 2);
    uint64_t major = take_number(&at, 16);
    if (*at++ != ':')
        return false;
    uint64_t minor = take_number(&at, 16); /* makedev may be a macro that takes it twice */
    ret->dev = makedev((unsigned)major, (unsigned)minor);
    ret->ino = take_number(&at, 10);
    at += strspn(at, " ");
    ret->path = at;
    return *at == '/' && at + tail < line + len;
}

static uint64_t number_after(const char *text, const char *name)
{
    const char *at = strstr(text, name);
    if (!at)
        return 0;
    at += strlen(name);
    return take_number(&at, 10);
}

uint64_t sample_flight_parse(const char *text)
{
    return number_after(text, "scm_fds:");
}

uint64_t sample_sockstat_parse(const char *text)
{
    return number_after(text, "sockets: used");
}

bool sample_is_lock(const char *line)
{
    return text_begins(line, "lock:");
}

/* "SK ETH PID GROUPS RECEIVED SENT …" */
uint64_t sample_netlink_parse(const char *line)
{
    const char *at = line;
    skip_words(&at, 4);
    uint64_t received = take_number(&at, 10), sent = take_number(&at, 10);
    return received > UINT64_MAX - sent ? UINT64_MAX : received + sent;
}
