/* What run_code and run_command share: the sandbox, output, its end. */
#pragma once

#include "audit/denial.h"
#include "daemon/mcp/mcp.h"

#define RUN_OUTPUT_MAX (1u << 20) /* of each stream; what is more is left out and said */
#define RUN_LINE_MAX   4096u      /* of one notification */

struct mcp_run {
    struct mcp_call *c;
    char box_id[BOX_ID_LEN + 1];
    bool own_box; /* made for this call, ends with it */
    const char *template_name;
    int64_t timeout_ms;
    const struct json *env, *policy;
    const struct run_kind *kind;

    uint64_t began_us;
    struct buf out[2];  /* stdout, stderr */
    struct buf line[2]; /* what is not yet a whole line, for progress */
    uint64_t denied_before[DENIAL_KINDS_MAX];
    bool cut, timed_out, failed, ended;
    struct err error; /* what ended it before it was done, in words; code 0: nothing did */
    struct loop_timer deadline;

    /* run_code */
    enum interp_language language;
    const char *code;
    struct execution *execution;
    struct buf result, results, images; /* JSON */
    struct run_taking {                 /* a result that is being written down */
        bool on, more;
        size_t member;              /* the next one */
        struct json_pieces *pieces; /* of the one before it */
        struct buf *to;             /* where that goes */
        const char *mime;           /* of a picture */
        size_t images, results;     /* what was there before */
    } taking;
    struct buf name, value, traceback; /* of the exception, if there is one */
    bool raised;
    struct buf text; /* of the answer, for a model */
    /* run_command */
    const char *command, *cwd, *input, *user;
    const struct json *args;
    bool plain_shell;
    struct process_client *client;
    int64_t pid;
    int wait_status;
};

/* What makes the two tools different. */
struct run_kind {
    int (*read)(struct mcp_run *r, const char **ret_session, struct err *err); /* the arguments */
    const char *(*template_name)(const struct mcp_run *r); /* where the call names none */
    void (*start)(struct mcp_run *r, struct box *b);
    void (*write)(struct mcp_run *r, struct json_writer *w); /* its own members of the result */
};
/* One call of a tool, from its arguments to its answer. */
void run_tool(struct mcp_call *c, const struct run_kind *kind);
/* Arguments that both take. */
#define RUN_FIELDS(r, session)                                                                     \
    {"session_id", FIELD_STRING, &(session)}, {"template", FIELD_STRING, &(r)->template_name},     \
        {"policy", FIELD_OBJECT, &(r)->policy},                                                    \
        {"timeout_ms", FIELD_INT, &(r)->timeout_ms, 1, MCP_TIMEOUT_MAX_MS},                        \
    {                                                                                              \
        "env", FIELD_MAP, &(r)->env                                                                \
    }
struct box *run_box(struct mcp_run *r); /* NULL: it is gone */
bool run_output(struct mcp_run *r, int stream, const void *data, size_t len);
void run_fail(struct mcp_run *r, const struct err *err); /* it could not be started */
void run_finish(struct mcp_run *r);                      /* answers */
/* code.c */
enum sink_took run_take_result(struct mcp_run *r, const struct interp_said *s);
void run_drop_half(struct mcp_run *r);
/* run_result.c */
void run_write(struct mcp_run *r, struct box *b);
/* Fills in `error`. */
void run_explain_timeout(struct mcp_run *r);
