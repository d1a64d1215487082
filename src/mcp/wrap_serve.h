/* The process between a client and a server in a sandbox: moves lines, lets wrap.c judge them. */
#pragma once

#include "base/err.h"
#include "policy/tools/tools.h"

/* Each is owned by the process and closed when its time has come. */
struct wrap_files {
    int client_in;  /* lines of the client */
    int client_out; /* for the client */
    int server_in;  /* for the server */
    int server_out; /* lines of the server */
    int asker;      /* a socket to the process that can ask a person, or -1 */
};

/* What goes over the asker's socket, one message each (SOCK_SEQPACKET). */
enum wrap_ask_type {
    WRAP_ASK = 1,  /* to the asker: text and reason */
    WRAP_WITHDRAW, /* to the asker */
    WRAP_ANSWERED, /* from it: an enum wrap_answer */
};
#define WRAP_ASK_TEXT_MAX   4096u
#define WRAP_ASK_REASON_MAX 512u
struct wrap_ask_msg {
    uint32_t type;
    uint32_t ticket;
    uint32_t answer;
    char text[WRAP_ASK_TEXT_MAX];
    char reason[WRAP_ASK_REASON_MAX];
};

/* Gives away all rights that moving lines does not need. */
int wrap_seal(struct err *err);
/* Returns when the server is gone, or the client is and the server had its time to end. Notes and
 * the summary of what was denied go to stderr. */
int wrap_serve(struct wrap_files *files, const struct tools *tools, bool quiet, struct err *err);
/* The other end of the asker's socket: asks people, until the socket is closed. `held`, if not
 * NULL, hears of each question, in texts that are fit to be shown. */
typedef void wrap_held_fn(const char *id, const char *what, const char *reason);
void wrap_ask_people(int socket, wrap_held_fn *held);
