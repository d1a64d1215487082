/* Between a client and an MCP server that runs in a sandbox: what passes, and what does not. Pure:
 * lines come in, lines come out; wrap_serve.c moves them.
 *
 * Both sides are hostile to each other, and the server to us. Each message is read strictly, judged
 * as what was read, and written anew: no two readers can see two different messages.
 *
 *   WR-1  a call that the rules deny never reaches the server, and the server cannot answer it
 *   WR-2  the client sees no tool that can never be called
 *   WR-3  the server answers what it was asked, once, and nothing else
 *   WR-4  the server asks the client only for what tools.callbacks names
 *   WR-5  nothing but whole, well-formed messages of known methods goes either way */
#pragma once

#include "audit/denial.h"
#include "base/buf.h"
#include "base/json.h"
#include "mcp/rpc.h"
#include "policy/tools/tools.h"

#include <stdbool.h>
#include <stdint.h>

#define WRAP_CALLS_MAX   1024u /* of the client, without an answer */
#define WRAP_ASKED_MAX   64u   /* of the server */
#define WRAP_WAITING_MAX 64u   /* calls that wait for a person */
#define WRAP_TOOLS_MAX   4096u /* in one list */
#define WRAP_NOTES_MAX   20u   /* more are counted only */

enum wrap_method {
    WRAP_OTHER,
    WRAP_INITIALIZE,
    WRAP_TOOLS_LIST,
    WRAP_TOOLS_CALL,
};

/* A request that has no answer yet. */
struct wrap_call {
    char *id;    /* as JSON text: 1 and "1" are two ids */
    char *token; /* of its progress, as JSON text, or NULL */
    enum wrap_method method;
    bool modern;         /* it names its protocol version: results have a type */
    uint32_t ticket;     /* not 0: waits for a person, and the server has not seen it */
    struct rpc_msg held; /* then */
};

/* Callbacks of the process that moves the lines. */
struct wrap_hooks {
    void *ctx;
    /* Negative: nobody can be asked. The answer comes by wrap_answer. */
    int (*ask)(void *ctx, uint32_t ticket, const char *text, const char *reason, struct err *err);
    void (*withdraw)(void *ctx, uint32_t ticket);
    void (*note)(void *ctx, const char *text); /* for the person, on stderr */
};

struct wrap {
    const struct tools *tools;
    struct wrap_hooks hooks;
    struct buf to_client;
    struct buf to_server;
    struct wrap_call *calls;
    size_t call_count;
    char **asked; /* ids of the server's requests that the client has not answered */
    size_t asked_count;
    uint32_t last_ticket;
    unsigned notes;
    uint64_t dropped; /* lines and messages of either side that went nowhere */
    struct denial_list denials;
};

void wrap_init(struct wrap *w, const struct tools *tools, const struct wrap_hooks *hooks);
void wrap_done(struct wrap *w);

/* One line, without its end. What follows from it is appended to the two buffers. */
void wrap_client_line(struct wrap *w, const char *text, size_t len);
void wrap_server_line(struct wrap *w, const char *text, size_t len);
/* A line was too long and is gone. */
void wrap_client_overlong(struct wrap *w);
void wrap_server_overlong(struct wrap *w);
enum wrap_answer {
    WRAP_ANSWER_ALLOW,
    WRAP_ANSWER_DENY,
    WRAP_ANSWER_TIME,   /* nobody answered */
    WRAP_ANSWER_NOBODY, /* nobody could be asked */
};
/* A person answered. A ticket that is not known any more is none of our business. */
void wrap_answer(struct wrap *w, uint32_t ticket, enum wrap_answer answer);
/* Does the server owe the client an answer, or a person? */
bool wrap_owes(const struct wrap *w);
