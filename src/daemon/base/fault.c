/* Only in the programs of tests/weak: see fault.h. */
#include "daemon/base/fault.h"

#include "base/num.h"
#include "base/quote.h"
#include "base/text.h"

#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static const char *const names[FAULT_COUNT] = {
#define X(id, name) [FAULT_##id] = name,
    FAULT_POINTS(X)
#undef X
};

bool fault_armed;
static enum fault_id armed_at;
static bool armed_pause;
static uint64_t armed_left;

static int find(const char *name, size_t len)
{
    for (int i = 0; i < FAULT_COUNT; i++)
        if (strlen(names[i]) == len && memcmp(names[i], name, len) == 0)
            return i;
    return -1;
}

int fault_init(const char *spec, struct err *err)
{
    struct quoted q;
    fault_armed = false;
    if (!spec || !*spec)
        return 0;
    size_t len = strcspn(spec, ":@");
    int at = find(spec, len);
    if (at < 0)
        return err_set(err, ERR_USAGE, "%s is not a fault point", quote(&q, spec));
    const char *rest = spec + len;
    armed_pause = text_begins(rest, ":pause");
    if (armed_pause)
        rest += 6;
    else if (text_begins(rest, ":kill"))
        rest += 5;
    armed_left = 1;
    if (*rest == '@' && (num_parse_uint(rest + 1, &armed_left, err) < 0 || armed_left == 0))
        return err_set(err, ERR_USAGE, "%s: after @ stands how often the point is passed", spec);
    if (*rest && *rest != '@')
        return err_set(err, ERR_USAGE, "%s: expected :kill or :pause", quote(&q, spec));
    armed_at = (enum fault_id)at;
    fault_armed = true;
    return 0;
}

/* The filter of the daemon lets few calls through: among them this way to sleep, and a trap. */
void fault_hit(enum fault_id id)
{
    static const uint32_t word;
    struct timespec two_seconds = {.tv_sec = 2};
    if (id != armed_at || --armed_left > 0)
        return;
    fault_armed = false;
    ssize_t ignored = write(2, names[id], strlen(names[id]));
    ignored = write(2, "\n", 1);
    (void)ignored;
    if (armed_pause)
        syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &two_seconds, NULL, 0);
    else
        __builtin_trap();
}

void fault_list(struct buf *out)
{
    for (int i = 0; i < FAULT_COUNT; i++)
        buf_fmt(out, "%s\n", names[i]);
}
