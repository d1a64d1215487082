/* The messages between the processes of `brig serve`, over SEQPACKET sockets: one message, one
 * packet, descriptors attached.
 *
 *   front (brig-daemon)  ↔  launcher (brig serve)    which template, which sandbox
 *   front                ↔  warden (one per sandbox)  everything about one living sandbox
 *   front                ↔  recorder                  audit records, keys, state
 *   launcher             ↔  brig-tls                  sockets to listen on, certificate and key
 *
 * Every side treats the other as hostile: types and lengths are checked here, the JSON text by the
 * receiver with base/json's limits. A message that is malformed ends the connection. */
#pragma once

#include "base/buf.h"
#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

#define WIRE_TEXT_MAX (160u * 1024) /* fits into a socket's default buffer as one packet */
#define WIRE_FDS_MAX  6

/* X(ID, "name") */
#define WIRE_TYPES(X)                                                                              \
    /* front → launcher */                                                                       \
    X(LAUNCH, "launch") /* {"id","template","pooled","project","policy","network","headers"}: fork \
                           a warden for it; policy: null, or a text that makes the template's      \
                           stricter; headers: null, or what warden/headers.c reads, with the       \
                           network that they are judged with, as in CLAIM */                       \
    X(RETIRE, "retire") /* {"template"}: no clone of it is wanted any more */                      \
    X(STOP, "stop")     /* no more launches; end when the last warden has. From the launcher: it   \
                           was told to end, so drain */                                            \
    /* launcher → front */                                                                       \
    X(HELLO, "hello") /* {"version","templates":[{…}],"state","leftovers":[…]}: the first */   \
    X(LAUNCHED, "launched") /* {"id"} with the warden's socket */                                  \
    X(GONE, "gone")         /* {"id","status"}: the warden's process ended; value = wait status */ \
    X(TEMPLATES, "templates") /* {"templates":[…]}: after SIGHUP */                              \
    /* front → warden */                                                                         \
    X(CLAIM, "claim")     /* {"env":{},"network":null|{…as NETWORK}} */                          \
    X(SPAWN, "spawn")     /* {"argv":[],"env":{},"cwd":"","tty":null|{"cols","rows"},              \
                             "stdin":bool,"interpreter":null|"python"|... a language} */           \
    X(SIGNAL, "signal")   /* {"pid","signal","group":bool} */                                      \
    X(FILE, "file")       /* see files/files.h: {"op",…} */                                      \
    X(CONNECT, "connect") /* {"port"}: a TCP connection to 127.0.0.1 or ::1 inside */              \
    X(NETWORK,                                                                                     \
      "network") /* {"allow":[],"block":[],"beyond":bool}: replaces all; policy/egress/live.h */   \
    X(FREEZE, "freeze") /* value 1: freeze, 0: thaw */                                             \
    X(STATS, "stats")   /* asks; and the answer */                                                 \
    X(END, "end")       /* {"reason"}: kill everything, tear down */                               \
    /* warden → front */                                                                         \
    X(READY, "ready")   /* {"pid","boundaries":{},"states_usec":{},"policy":{"hash",…}};         \
                           provisioned and attested;                                               \
                           with fds [requests, answers, stdout, stderr] of a waiting interpreter   \
                         */                                                                        \
    X(DONE, "done")     /* the request was carried out; text, value and fds as it says */          \
    X(FAIL, "fail")     /* the request failed: {"code","errno","boundary","message","hint"};       \
                           request 0: the sandbox itself is not available, or must end */          \
    X(EXITED, "exited") /* {"pid"}: value = wait status */                                         \
    X(EVENT, "event")   /* {"boundary","kind","what","rule","hint","count"}: for the audit */      \
    X(ENDED, "ended")   /* {"reason","usage":{},"receipt":{}}: the last message */                 \
    /* front → recorder */                                                                       \
    X(RECORD, "record") /* an audit event, see audit/record.h */                                   \
    X(PUT, "put")       /* {"table","key","value":{…}|null}: state; null removes */              \
    X(QUERY, "query")   /* {"what":"audit",…}: see audit/recorder.h */                           \
    X(SYNC, "sync")     /* answered with DONE when everything before is on disk */                 \
    /* recorder → front: DONE, FAIL, and */                                                      \
    X(RESTORE, "restore") /* {"table","key","value"}: at the start, one per row; then DONE */      \
    /* front → launcher, later additions. READY (without text) says that the front serves. */    \
    X(CLEAN, "clean") /* {"ids":[…]}: boxes of an earlier run that crashed; removes what is left \
                         of them. DONE, value = how many had left something */                     \
    X(KILL, "kill")   /* {"id"}: its warden does not answer, and is killed; GONE follows */        \
    /* front → recorder: {"box","key","receipt":{…}}: the end of a sandbox, to be signed.      \
       supervisor of brig run → notary: the body as a sealed file; DONE has the signature */     \
    X(RECEIPT, "receipt")                                                                          \
    /* front → warden */                                                                         \
    X(REVIEW, "review") /* {"op":"diff"|"apply"|"discard","format","files","trust","digest",       \
                           "dry_run"}: DONE with a descriptor to be read to its end (not of        \
                           discard, which ends the sandbox) */                                     \
    X(SETTLE, "settle") /* DONE when EVENT was sent for all that was refused before */             \
    /* launcher → brig-tls */                                                                    \
    X(LISTEN, "listen") /* with a TCP socket: accept there, once there is a pair */                \
    X(PAIR, "pair")     /* {"certificate","key": names for messages, "domain": null, or what must  \
                           be named, "again": was in force before, whatever its dates}, with both  \
                           as sealed files, PEM. DONE {"until"}: in force now; FAIL: the one       \
                           before stays */

enum wire_type {
    WIRE_NONE = 0,
#define X(id, name) WIRE_##id,
    WIRE_TYPES(X)
#undef X
        WIRE_TYPE_COUNT,
};
const char *wire_type_name(enum wire_type type);

struct wire_msg {
    enum wire_type type;
    uint32_t request; /* chosen by the asker; the answer (DONE, FAIL, STATS) carries it; else 0 */
    int64_t value;
    size_t text_len;
    char text[WIRE_TEXT_MAX + 1]; /* JSON or empty; always NUL-terminated */
    int fds[WIRE_FDS_MAX];        /* the receiver's, close-on-exec; -1 beyond fd_count */
    unsigned fd_count;
};

/* In front of the text; host order, the packets never leave the machine. */
struct wire_packet {
    uint32_t type;
    uint32_t request;
    int64_t value;
    uint32_t text_len;
    uint32_t zero;
};

/* -errno, -EAGAIN when the socket is full. fds stay the caller's. */
int wire_send(int sock, enum wire_type type, uint32_t request, int64_t value, const char *text,
              size_t text_len, const int *fds, unsigned fd_count);
/* 1: *msg filled in; 0: end of file; -EAGAIN; -EPROTO for nonsense (its descriptors are closed). */
int wire_receive(int sock, struct wire_msg *msg, int flags);
/* Pure: checks a packet as it came. For the fuzzer and the tests. */
int wire_parse(const void *packet, size_t len, struct wire_msg *msg);
/* The same where head and text are already apart (the text in msg->text). */
int wire_check(const struct wire_packet *head, size_t text_len, struct wire_msg *msg);
void wire_close_fds(struct wire_msg *msg); /* those that were not stolen */
int wire_steal_fd(struct wire_msg *msg, unsigned i);
/* An error as the text of FAIL, and back. */
void wire_err_write(const struct err *err, struct buf *out);
int wire_err_read(const char *text, size_t len, struct err *ret);
