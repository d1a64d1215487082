/* The notary's process: waits for one receipt of the supervisor, signs it, adds it to the chain of
 * runs, and ends. If the supervisor dies first, that is what it records. */
#include "audit/notary.h"

#include "audit/receipt.h"
#include "audit/recorder_internal.h"
#include "audit/runs.h"
#include "base/cleanup.h"
#include "base/wall.h"
#include "os/fd.h"
#include "os/seal.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define FD_SOCKET 3
#define FD_FOLDER 4

struct notary {
    struct runs *runs;
    struct wire_msg msg;
    char box[RECEIPT_ID_SIZE]; /* of the run that goes on; empty: none does */
};

static void say(enum wire_type type, const char *text, size_t len)
{
    (void)wire_send(FD_SOCKET, type, 0, 0, text, len, NULL, 0);
}

static void fail(const struct err *err)
{
    cleanup_buf struct buf text;
    buf_init(&text, 8192);
    wire_err_write(err, &text);
    say(WIRE_FAIL, buf_text(&text), text.len);
}

/* ---- the receipt ---- */

static int read_body(struct notary *n, struct receipt *ret, struct err *err)
{
    struct stat st;
    int fd = n->msg.fd_count == 1 ? n->msg.fds[0] : -1;
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size <= 0 ||
        st.st_size > (off_t)RECEIPT_MAX)
        return err_set(err, ERR_PROTOCOL, "there is no receipt to sign");
    size_t len = (size_t)st.st_size;
    cleanup_free char *text = malloc(len);
    if (!text || pread(fd, text, len, 0) != (ssize_t)len)
        return err_set(err, ERR_SYSTEM, "the receipt cannot be read");
    return receipt_body_read(text, len, ret, err);
}

static int sign(struct notary *n, struct buf *proof, struct err *err)
{
    struct receipt r;
    receipt_init(&r);
    int result = read_body(n, &r, err);
    if (result >= 0) {
        const struct record record = {.time_us = wall_us(),
                                      .boundary = "lifecycle",
                                      .kind = RECEIPT_RUN,
                                      .box = json_text(r.tree, "sandbox_id")};
        result = runs_append(n->runs, &record, &r, proof, err);
    }
    receipt_done(&r);
    return result;
}

static void on_receipt(struct notary *n)
{
    struct err err = ERR_INIT;
    cleanup_buf struct buf proof;
    buf_init(&proof, 4 * RECORD_MAX);
    if (sign(n, &proof, &err) < 0)
        fail(&err);
    else
        say(WIRE_DONE, buf_text(&proof), proof.len);
    n->box[0] = '\0';
}

/* ---- the run ---- */

static void on_claim(struct notary *n)
{
    static const char set[] = "abcdefghijklmnopqrstuvwxyz0123456789-";
    if (n->msg.text_len > 0 && n->msg.text_len < sizeof n->box &&
        strspn(n->msg.text, set) == n->msg.text_len)
        memcpy(n->box, n->msg.text, n->msg.text_len + 1);
}

/* The supervisor ended without a receipt, so it was killed, and the run with it. */
static void on_silence(struct notary *n)
{
    struct err err = ERR_INIT;
    const struct record record = {.time_us = wall_us(),
                                  .boundary = "lifecycle",
                                  .kind = "run.lost",
                                  .box = n->box,
                                  .detail =
                                      "{\"what\":\"the supervisor ended without a receipt\"}"};
    if (n->box[0])
        (void)runs_append(n->runs, &record, NULL, NULL, &err);
}

static void serve(struct notary *n)
{
    /* A supervisor that ended without having read READY looks like an end before the last of what
     * it sent: only the second end is one. */
    for (int ends = 0; ends < 2;) {
        int r = wire_receive(FD_SOCKET, &n->msg, 0);
        if (r < 0)
            break;
        ends = r == 0 ? ends + 1 : 0;
        if (r == 0)
            continue;
        if (n->msg.type == WIRE_CLAIM)
            on_claim(n);
        else if (n->msg.type == WIRE_RECEIPT)
            on_receipt(n);
        else if (n->msg.type == WIRE_STOP)
            n->box[0] = '\0';
        wire_close_fds(&n->msg);
    }
    on_silence(n);
}

/* ---- start ---- */

/* The notary ends when its socket does. ^C on the terminal is meant for the code and is ignored
 * here. */
static void own_signals(void)
{
    static const int ours[] = {SIGINT, SIGTERM, SIGQUIT, SIGHUP, SIGPIPE};
    for (size_t i = 0; i < ARRAY_LEN(ours); i++)
        signal(ours[i], SIG_IGN);
}

static int start(struct notary *n, struct err *err)
{
    bool landlock = false;
    prctl(PR_SET_NAME, "brig-notary");
    umask(077);
    own_signals();
    cleanup_fd int folder = recorder_folder(FD_FOLDER, err);
    if (folder < 0 || recorder_keep_descriptors(FD_SOCKET, folder, err) < 0)
        return err_number(err);
    fd_steal(&folder); /* closed with all others; its copy stands at FD_FOLDER */
    runs_prepare();
    if (sign_prepare(err) < 0 || recorder_seal(FD_FOLDER, &landlock, err) < 0)
        return err_number(err);
    return runs_open(&n->runs, FD_FOLDER, err);
}

int notary_main(void)
{
    struct err err = ERR_INIT;
    struct notary *n = calloc(1, sizeof *n);
    if (!n)
        return 1;
    int r = start(n, &err);
    if (r < 0) {
        fail(&err);
    } else {
        say(WIRE_READY, NULL, 0);
        serve(n);
    }
    seal_exit(r < 0 ? 1 : 0); /* somebody waits for us */
    return 1;
}
