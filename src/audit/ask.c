/* Answers one request of `brig audit` or `brig keys`: reads it, opens the state folder with no more
 * rights than its owner has, and calls the function of the verb. */
#include "audit/ask.h"

#include "base/cleanup.h"
#include "os/seal.h"
#include "wire/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define OUT_MAX (1u << 20)

/* ---- the answer ---- */

static int fail(struct ask *a, const struct err *err)
{
    struct err ignored = ERR_INIT;
    cleanup_buf struct buf text;
    buf_init(&text, 8192);
    wire_err_write(err, &text);
    buf_reset(&a->out);
    buf_fmt(&a->out, "{\"error\":%s}\n", buf_text(&text));
    (void)ask_flush(a, &ignored);
    return 125;
}

/* ---- the folder ---- */

/* Take the identity of the folder's owner. Descriptors that are open already stay usable; whatever
 * is opened from here on is opened without root's rights. */
static int become_owner(int folder, struct err *err)
{
    struct stat st;
    if (fstat(folder, &st) < 0)
        return err_sys(err, "look at the audit folder");
    if (geteuid() != 0 || st.st_uid == 0)
        return 0;
    return seal_identity(st.st_uid, st.st_gid, "this process", err);
}

static int open_folder(struct ask *a, struct err *err)
{
    const char *state = ask_text(a, "state");
    if (!state)
        return err_set(err, ERR_USAGE, "which state folder?");
    cleanup_fd int dir = open(state, O_PATH | O_DIRECTORY | O_CLOEXEC);
    a->folder =
        dir < 0 ? -1 : openat(dir, STORE_FOLDER, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (a->folder >= 0)
        return become_owner(a->folder, err);
    if (errno != ENOENT) {
        err_sys(err, "open the audit folder of %s", state);
        return errno == EACCES ? err_hint(err, "it belongs to the user who runs `brig serve`")
                               : err_number(err);
    }
    err_set(err, ERR_NOT_FOUND, "there is no audit log in %s", state);
    return err_hint(err, "`brig serve` makes it, and `brig run --receipt` one of its own (--runs); "
                         "--state DIR names another folder");
}

/* ---- verbs ---- */

static const struct {
    const char *name;
    int (*fn)(struct ask *a, struct err *err);
} verbs[] = {
    {"tail", ask_tail},
    {"show", ask_show},
    {"summary", ask_summary},
    {"verify", ask_verify},
    {"export", ask_export},
    {"keys.list", ask_keys_list},
    {"keys.put", ask_keys_put},
    {"receipt.verify", ask_receipt_verify},
    {"receipt.key", ask_receipt_key},
};

/* Exports and receipts can be verified without a state folder. */
static bool needs_folder(const struct ask *a)
{
    return strcmp(a->verb, "receipt.verify") != 0 &&
           (strcmp(a->verb, "verify") != 0 || !ask_text(a, "export"));
}

static bool needs_store(const struct ask *a)
{
    return needs_folder(a) && strcmp(a->verb, "receipt.key") != 0;
}

static int answer(struct ask *a, struct err *err)
{
    a->verb = ask_text(a, "verb");
    for (size_t i = 0; a->verb && i < ARRAY_LEN(verbs); i++) {
        if (strcmp(verbs[i].name, a->verb) != 0)
            continue;
        if (sign_prepare(err) < 0 || ask_load_key(a, err) < 0)
            return err_number(err);
        if (needs_folder(a) && open_folder(a, err) < 0)
            return err_number(err);
        if (ask_flag(a, "runs"))
            return ask_runs(a, err);
        if (needs_store(a) && store_open(&a->store, a->folder, false, err) < 0)
            return err_number(err);
        return verbs[i].fn(a, err);
    }
    return err_set(err, ERR_USAGE, "there is no such question");
}

int audit_ask(const char *request)
{
    struct err err = ERR_INIT;
    struct ask a = {.folder = -1};
    buf_init(&a.out, OUT_MAX);
    umask(077);
    int r = json_parse(request, strlen(request), &json_default_limits, &a.request, &err);
    if (r >= 0 && json_type(a.request) != JSON_OBJECT)
        r = err_set(&err, ERR_USAGE, "a request is an object");
    if (r >= 0)
        r = answer(&a, &err);
    int status = r < 0 ? fail(&a, &err) : r;
    store_close(a.store);
    verifier_free(a.verifier);
    if (a.folder >= 0)
        close(a.folder);
    json_free(a.request);
    buf_done(&a.out);
    return status;
}
