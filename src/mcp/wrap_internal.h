/* What the files of wrap share. Private to mcp/. */
#pragma once

#include "mcp/wrap.h"

/* wrap.c */
char *wrap_text_of(const struct json *j); /* compact JSON, owned; NULL: no memory */
/* The message names its protocol version: the era in which results have a type. */
bool wrap_is_modern(const struct rpc_msg *m);
struct wrap_call *wrap_call_find(struct wrap *w, const struct json *id);
/* NULL: no memory, or too many. */
struct wrap_call *wrap_call_add(struct wrap *w, const struct rpc_msg *m, enum wrap_method method);
void wrap_call_drop(struct wrap *w, struct wrap_call *call);
bool wrap_asked_find(const struct wrap *w, const struct json *id, size_t *ret);
int wrap_asked_add(struct wrap *w, const struct json *id);
void wrap_asked_drop(struct wrap *w, size_t i);
/* Something went nowhere: counted, and told the first few times. */
void wrap_dropped(struct wrap *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
bool wrap_word_in(const char *word, const char *const *words, size_t count);
/* Which callback a request of the server is: a bit, or 0. */
unsigned wrap_callback_of(const char *method);
/* Ends a message that was written into `out`. */
void wrap_line_end(struct buf *out);
void wrap_error(struct buf *out, const struct json *id, int code, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* wrap_write.c */
/* A request or notification of the client, for the server. What the client says it can do is cut to
 * what the server may ask for. */
void wrap_write_to_server(struct wrap *w, const struct rpc_msg *m);
/* The list of tools without those that can never be called. */
void wrap_write_list(struct wrap *w, const struct rpc_msg *m);
/* Any message as it was read. */
void wrap_write(struct buf *out, const struct rpc_msg *m);

/* wrap_show.c */
#define WRAP_SHOWN_MAX 4000u
/* Fails where it would be too long to be shown whole; single long texts in it are cut. */
int wrap_show_call(const char *name, const struct json *arguments, struct buf *out,
                   struct err *err);

/* wrap_denial.c */
enum wrap_why {
    WRAP_BY_RULE,
    WRAP_BY_PERSON,
    WRAP_BY_TIME,
    WRAP_BY_NOBODY, /* a rule says ask, and there is nobody to ask */
};
/* The answer to a call that the server never sees. */
void wrap_deny(struct wrap *w, const struct json *id, bool modern, const char *name,
               const struct tool_decision *d, enum wrap_why why);
/* The same for a call whose answer asks for what it may not. */
void wrap_deny_callback(struct wrap *w, const struct json *id, const struct wrap_call *call,
                        const char *method);
/* Where the rule stands: `tools.deny "rm_*" (p.yaml:3:5)`. */
void wrap_rule_text(const struct tool_rule *rule, struct buf *out);
