#include "daemon/fault.h"

#include "base/num.h"
#include "base/quote.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const names[FAULT_COUNT] = {
#define X(id, name) [FAULT_##id] = name,
    FAULT_POINTS(X)
#undef X
};

bool fault_armed;
static enum fault_id armed_at;
static bool armed_stop;
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
    armed_stop = strncmp(rest, ":stop", 5) == 0;
    if (armed_stop || strncmp(rest, ":kill", 5) == 0)
        rest += 5;
    armed_left = 1;
    if (*rest == '@' && (num_parse_uint(rest + 1, &armed_left, err) < 0 || armed_left == 0))
        return err_set(err, ERR_USAGE, "%s: after @ stands how often the point is passed", spec);
    if (*rest && *rest != '@')
        return err_set(err, ERR_USAGE, "%s: expected :kill or :stop", quote(&q, spec));
    armed_at = (enum fault_id)at;
    fault_armed = true;
    return 0;
}

void fault_hit(enum fault_id id)
{
    if (id != armed_at || --armed_left > 0)
        return;
    fault_armed = false;
    kill(getpid(), armed_stop ? SIGSTOP : SIGKILL);
    if (!armed_stop)
        __builtin_trap(); /* the filter may refuse kill() */
}

void fault_list(struct buf *out)
{
    for (int i = 0; i < FAULT_COUNT; i++)
        buf_fmt(out, "%s\n", names[i]);
}
