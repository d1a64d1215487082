/* What the front and the interpreter inside a sandbox say to each other, over two pipes
 * (descriptors 3 and 4 of the interpreter): frames of {u32 length, little-endian} and that many
 * bytes of JSON. The interpreter's stdout and stderr are pipes of their own, read by the front:
 * what code, its children and its C libraries print arrives whether or not the driver knows of it.
 *
 * IN-1  What the code holds cannot carry descriptors. Over a UNIX socket it could send any, and who
 * reads from one closes what nobody takes: a TCP socket that lingers, sent and let go of, would
 * hold up the front, and with it every sandbox. A pipe carries bytes.
 *
 * to the driver     {"op":"execute","id":N,"code":"…","env":{…}}
 *                   {"op":"exit"}
 *                   (an interrupt is SIGINT, sent through the warden)
 * from the driver   {"type":"ready","language":"python","version":"3.11.2","pid":N}   once
 *                   {"type":"count","id":N,"value":N}      first word of an execution
 *                   {"type":"result","id":N,"main":bool,"data":{"text":"…","html":"…","png":base64,…}}
 *                   {"type":"error","id":N,"name":"…","value":"…","traceback":"…"}
 *                   {"type":"end","id":N}                  stdout and stderr were flushed before
 *
 * The driver is assumed to be compromised: it runs the user's code in its own process. All that it
 * says is bounded, parsed strictly and written anew; what it says out of turn is dropped, and a
 * driver that speaks nonsense loses its context, nothing else. */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The interpreter's. */
#define INTERP_FD_REQUESTS 3
#define INTERP_FD_ANSWERS  4
/* The front's ends, in the order in which a warden hands them over. */
enum { INTERP_REQUESTS, INTERP_ANSWERS, INTERP_STDOUT, INTERP_STDERR, INTERP_ENDS };
#define INTERP_FRAME_MAX (16u << 20) /* a figure, a table */
#define INTERP_CODE_MAX  (8u << 20)
/* Of an error; the drivers cut what is longer. */
#define INTERP_NAME_MAX      256u
#define INTERP_VALUE_MAX     (64u << 10)
#define INTERP_TRACEBACK_MAX (1u << 20)

enum interp_language {
    INTERP_NONE,
    INTERP_PYTHON,
    INTERP_JAVASCRIPT,
    INTERP_BASH,
    INTERP_TYPESCRIPT,
    INTERP_R,
    INTERP_JAVA,
    INTERP_COUNT
};
#define INTERP_LANGUAGES "python, javascript, typescript, bash, r or java"
/* "python", also "python3", "py"; "javascript", "js", "node"; "typescript", "ts"; "bash", "sh";
 * "r"; "java". In letters of either size. */
enum interp_language interp_language_parse(const char *name);
/* The package of Debian's that has what a language needs inside. */
const char *interp_language_package(enum interp_language l);
const char *interp_language_name(enum interp_language l);

enum interp_word { INTERP_READY, INTERP_COUNTED, INTERP_RESULT, INTERP_ERROR, INTERP_END };
/* MIME-like members that a result may have; all others are dropped. */
struct interp_said {
    enum interp_word word;
    uint64_t id;
    int64_t count;           /* INTERP_COUNTED */
    bool main;               /* INTERP_RESULT */
    const struct json *data; /* INTERP_RESULT: an object of the known members, all checked */
    const char *name, *value, *traceback; /* INTERP_ERROR */
    struct json *tree;                    /* owns all of the above */
};
/* interp_parse.c: one frame's text. */
int interp_parse(const char *text, size_t len, struct interp_said *ret, struct err *err);
/* IN-2  In pieces, because a frame may be long and who reads it serves others. In place
 * (base/json.h): the text stays, and is changed, as long as what was said. */
struct interp_parsing {
    struct json_parser *json; /* NULL: it is read */
    struct interp_said said;
    size_t member, looked; /* of the result, and bytes of it */
};
/* `max_memory` of the tree; ERR_LIMIT beyond, 0: whatever it takes. */
int interp_parsing_begin(struct interp_parsing *p, char *text, size_t len, size_t max_memory,
                         struct err *err);
/* Some `most` bytes more. 1: understood; 0: go on; negative: nonsense. Not 0: that was its end. */
int interp_parsing_next(struct interp_parsing *p, size_t most, struct interp_said *ret,
                        struct err *err);
size_t interp_parsing_memory(const struct interp_parsing *p); /* so far */
void interp_parsing_end(struct interp_parsing *p);            /* gives it up; also twice */
void interp_said_done(struct interp_said *s);

/* Cuts a stream into frames. */
struct interp_reader {
    char *data;
    size_t len, size;
    size_t taken;            /* bytes of frames that were handed out, at the start of data */
    struct buf_meter *meter; /* of what it takes beyond INTERP_READER_BASE, or NULL */
    size_t dropping;         /* so many of the next bytes belong to a frame that has no room */
    size_t dropped;          /* the length of one that had none, until somebody asks */
};
#define INTERP_READER_BASE (8u << 10)
void interp_reader_init(struct interp_reader *r);
void interp_reader_done(struct interp_reader *r);
/* Where to read to (at least 4 KB), and how much came. Negative: frame too long. */
int interp_reader_room(struct interp_reader *r, void **ret, size_t *ret_len, struct err *err);
void interp_reader_add(struct interp_reader *r, size_t len);
/* 1: a frame (valid until the next call), 0: not yet, negative: nonsense. One that its meter has no
 * room for is left out, in constant memory. */
int interp_reader_next(struct interp_reader *r, const char **ret, size_t *ret_len, struct err *err);
/* Was one left out? Its length, once. */
size_t interp_reader_dropped(struct interp_reader *r);
/* A request to the driver as one frame. */
void interp_write_execute(struct buf *out, uint64_t id, const char *code, size_t len,
                          const struct json *env);
