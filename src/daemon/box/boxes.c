/* All the sandboxes of a daemon at once: what the core tells of the launcher's words, of templates
 * and of the end. */
#include "daemon/base/fault.h"
#include "daemon/box/box_internal.h"

#include <unistd.h>

static void on_launched(struct core *c, const char *id, int fd)
{
    struct box *b = box_lookup(c, id);
    if (!b || fd < 0 || peer_is_open(&b->warden)) {
        if (fd >= 0)
            close(fd); /* its warden sees that and ends */
        return;
    }
    fault_point(FAULT_LAUNCHED);
    box_on_launched(b, fd);
}

static void on_not_launched(struct core *c, uint32_t request, const struct err *err)
{
    struct box *b = c->first;
    while (b && b->launch_request != request)
        b = b->next;
    if (b)
        box_on_launch_failed(b, err);
}

static void on_gone(struct core *c, const char *id, int64_t wait_status)
{
    struct box *b = box_lookup(c, id);
    if (b)
        box_on_gone(b, wait_status);
}

static void end_all(struct core *c, const char *reason)
{
    for (struct box *b = c->first, *next; b; b = next) {
        next = b->next;
        box_end(b, reason, NULL, NULL);
    }
}

static void forget_all(struct core *c)
{
    while (c->first)
        box_on_gone(c->first, 0);
    pool_settings_free(c);
}

const struct core_boxes core_boxes = {
    .launched = on_launched,
    .not_launched = on_not_launched,
    .gone = on_gone,
    .refuse = create_all_fail,
    .end_all = end_all,
    .forget_all = forget_all,
    .ready = pool_ready,
    .template_changed = pool_setup,
    .template_gone = pool_flush,
    .template_poke = pool_poke,
    .setting = pool_restore,
};
