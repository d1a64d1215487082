/* Files: the work is done inside (files/files.h); here it is only handed on. */
#include "base/cleanup.h"
#include "files/files.h"
#include "os/fd.h"
#include "warden/session.h"

static int make_block(const struct warden *w, const struct json *j, enum files_op *ret_op,
                      bool *ret_beside, struct err *err)
{
    struct files_request request;
    struct plan plan;
    if (files_request_read(j, &request, err) < 0)
        return err_number(err);
    int beside = ask_whom(w, json_get(j, "user"), err);
    if (beside < 0)
        return beside;
    *ret_beside = beside;
    if (!w->s->request->policy->workspace)
        request.home = "/";
    else if (beside)
        request.home = ROOT_HOME_DIR;
    *ret_op = request.op;
    plan_init(&plan);
    files_request_plan(&request, &plan);
    int fd = plan_finish(&plan, err);
    if (fd >= 0)
        fd = memfd_sealed("brig-file", plan.bytes.data, plan.bytes.len, false, err);
    plan_done(&plan);
    return fd;
}

/* The answer first: its end is how a client gives up (files/files.h), and the end of what is
 * written means that it was all. Init and what it starts have the other ends, and may be hostile
 * (PU-1). */
static int make_pipes(struct ask *a, bool write, int fds[static FILE_FDS], struct err *err)
{
    struct pump_line lines[PUMP_LINES];
    pump_lines_init(lines);
    int result = carrier_lay(a, lines, &fds[FILE_OUT], false, err);
    if (result >= 0 && write) {
        result = carrier_lay(a, lines, &fds[FILE_IN], true, err);
        lines[1].kind = PUMP_WHOLE;
    }
    if (result < 0) {
        pump_close(lines);
        return result;
    }
    return carrier_start(a->w, lines, err);
}

int file_start(struct warden *w, const struct wire_msg *msg, const struct json *j, struct err *err)
{
    enum files_op op = FILES_NONE;
    int fds[FILE_FDS] = {-1, -1, -1};
    struct ctl_msg m = {.type = CTL_FILE};
    struct ask *a = ask_new(w, msg->type, msg->request, err);
    if (!a)
        return err_number(err);
    int result = fds[FILE_BLOCK] = make_block(w, j, &op, &a->beside, err);
    bool write = op == FILES_WRITE;
    if (result >= 0)
        result = make_pipes(a, write, fds, err);
    if (result >= 0)
        result = ask_send(a, &m, fds, write ? FILE_FDS : FILE_IN, err);
    else
        ask_drop(a);
    for (int i = 0; i < FILE_FDS; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    return result < 0 ? err_number(err) : 0;
}
