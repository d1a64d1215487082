/* Puts a WebAssembly module together, byte by byte: one function, `_start`, one memory, and the
 * calls of WASI as imports. Local 0 holds what the last call answered, local 1 counts. */
#include "verify/module.h"

#include "base/cleanup.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define MODULE_CAP   65536
#define TABLE_AT     1024u /* four characters for each errno of WASI: the host's number, a tab */
#define DATA_AT      2048u
#define NOT_CAPABLE  76
#define SLOT_WRITTEN MODULE_SLOT(15)
#define PAGE         65536u

/* Instructions, as the specification numbers them. */
enum {
    OP_BLOCK = 0x02,
    OP_LOOP = 0x03,
    OP_IF = 0x04,
    OP_END = 0x0b,
    OP_BR_IF = 0x0d,
    OP_CALL = 0x10,
    OP_DROP = 0x1a,
    OP_GET = 0x20,
    OP_SET = 0x21,
    OP_TEE = 0x22,
    OP_LOAD = 0x28,
    OP_LOAD64 = 0x29,
    OP_STORE = 0x36,
    OP_STORE8 = 0x3a,
    OP_GROW = 0x40,
    OP_CONST = 0x41,
    OP_CONST64 = 0x42,
    OP_EQZ = 0x45,
    OP_EQ = 0x46,
    OP_LESS = 0x49,   /* unsigned */
    OP_LESS64 = 0x54, /* unsigned */
    OP_ADD = 0x6a,
    OP_MULTIPLY = 0x6c,
    OP_SUBTRACT64 = 0x7d,
    OP_BULK = 0xfc,
    OP_BULK_FILL = 11,
    NO_VALUE = 0x40,
    TYPE_I32 = 0x7f,
    TYPE_I64 = 0x7e,
    TYPE_FUNCTION = 0x60,
};

static const struct {
    const char *name, *takes;
} calls[] = {
#define X(name, takes) {#name, takes},
    MODULE_CALLS(X)
#undef X
};

/* ---- numbers ---- */

static void byte(struct buf *b, unsigned value)
{
    buf_chr(b, (char)(unsigned char)value);
}

static void number(struct buf *b, uint64_t value)
{
    for (; value >= 0x80; value >>= 7)
        byte(b, (value & 0x7f) | 0x80);
    byte(b, (unsigned)value);
}

static void signed_number(struct buf *b, int64_t value)
{
    for (; value < -64 || value > 63; value >>= 7)
        byte(b, (unsigned)(value & 0x7f) | 0x80);
    byte(b, (unsigned)value & 0x7f);
}

static void name(struct buf *b, const char *text)
{
    number(b, strlen(text));
    buf_str(b, text);
}

/* ---- data ---- */

static uint32_t put(struct module *m, const void *bytes, size_t len)
{
    uint32_t at = DATA_AT + (uint32_t)m->data.len;
    buf_add(&m->data, bytes, len);
    return at;
}

/* What fd_write and fd_read take: one piece of memory. */
static uint32_t put_piece(struct module *m, uint32_t at, uint32_t len)
{
    uint8_t piece[8];
    for (int i = 0; i < 4; i++) {
        piece[i] = (uint8_t)(at >> 8 * i);
        piece[4 + i] = (uint8_t)(len >> 8 * i);
    }
    return put(m, piece, sizeof piece);
}

/* Those that a runner answers with; the others are told as an error of input and output. */
static int errno_of(unsigned wasi)
{
    static const int known[NOT_CAPABLE + 1] = {
        [1] = E2BIG,    [2] = EACCES,         [6] = EAGAIN,   [8] = EBADF,         [10] = EBUSY,
        [19] = EDQUOT,  [20] = EEXIST,        [21] = EFAULT,  [22] = EFBIG,        [25] = EILSEQ,
        [27] = EINTR,   [28] = EINVAL,        [31] = EISDIR,  [32] = ELOOP,        [33] = EMFILE,
        [34] = EMLINK,  [41] = ENFILE,        [44] = ENOENT,  [37] = ENAMETOOLONG, [48] = ENOMEM,
        [51] = ENOSPC,  [52] = ENOSYS,        [54] = ENOTDIR, [55] = ENOTEMPTY,    [57] = ENOTSOCK,
        [58] = ENOTSUP, [61] = EOVERFLOW,     [63] = EPERM,   [69] = EROFS,        [70] = ESPIPE,
        [75] = EXDEV,   [NOT_CAPABLE] = EPERM};
    return wasi == 0 ? 0 : known[wasi] ? known[wasi] : EIO;
}

/* ---- instructions ---- */

static void op(struct module *m, unsigned code)
{
    byte(&m->code, code);
}

static void local(struct module *m, unsigned code, unsigned which)
{
    op(m, code);
    number(&m->code, which);
}

static void push(struct module *m, uint32_t value)
{
    op(m, OP_CONST);
    signed_number(&m->code, (int32_t)value);
}

static void push64(struct module *m, uint64_t value)
{
    op(m, OP_CONST64);
    signed_number(&m->code, (int64_t)value);
}

/* Nothing is known of how an address is aligned. */
static void memory_op(struct module *m, unsigned code, uint32_t offset)
{
    op(m, code);
    number(&m->code, 0);
    number(&m->code, offset);
}

static void call(struct module *m, enum module_call which)
{
    op(m, OP_CALL);
    number(&m->code, which);
}

static void write_out(struct module *m, uint32_t at, uint32_t len)
{
    push(m, 1);
    push(m, put_piece(m, at, len));
    push(m, 1);
    push(m, SLOT_WRITTEN);
    call(m, CALL_fd_write);
    op(m, OP_DROP);
}

void module_print(struct module *m, const char *text)
{
    uint32_t len = (uint32_t)strlen(text);
    write_out(m, put(m, text, len), len);
}

void module_say(struct module *m, const char *id)
{
    char line[64];
    int len = snprintf(line, sizeof line, "%s\t0\t000\t0\t\n", id);
    uint32_t at = put(m, line, (size_t)len), worked = at + (uint32_t)strlen(id) + 1;
    push(m, worked);
    local(m, OP_GET, 0);
    op(m, OP_EQZ);
    push(m, '0');
    op(m, OP_ADD);
    memory_op(m, OP_STORE8, 0);
    push(m, worked + 2);
    local(m, OP_GET, 0);
    push(m, 4);
    op(m, OP_MULTIPLY);
    memory_op(m, OP_LOAD, TABLE_AT);
    memory_op(m, OP_STORE, 0);
    write_out(m, at, (uint32_t)len);
}

void module_wait(struct module *m)
{
    struct module_step read = {.call = CALL_fd_read,
                               .words = {NUMBER(0), NUMBER(put_piece(m, MODULE_SLOT(8), 1)),
                                         NUMBER(1), NUMBER(SLOT_WRITTEN)}};
    module_add(m, &read);
}

static void push_words(struct module *m, const struct module_step *s)
{
    const char *takes = calls[s->call].takes;
    for (int i = 0; i < MODULE_WORDS && s->words[i].kind != WORD_END; i++) {
        const struct module_word *w = &s->words[i];
        uint32_t len = w->kind == WORD_TEXT ? (uint32_t)strlen(w->text) : 0;
        if (w->kind == WORD_TEXT) {
            push(m, put(m, w->text, len));
            push(m, len);
            takes++;
        } else if (*takes == 'I') {
            push64(m, w->number);
        } else {
            push(m, (uint32_t)w->number);
        }
        if (w->kind == WORD_AT)
            memory_op(m, OP_LOAD, 0);
        takes++;
    }
}

static void repeat(struct module *m, const struct module_step *s)
{
    push(m, 0);
    local(m, OP_SET, 1);
    op(m, OP_BLOCK);
    op(m, NO_VALUE);
    op(m, OP_LOOP);
    op(m, NO_VALUE);
    push_words(m, s);
    call(m, s->call);
    local(m, OP_TEE, 0);
    local(m, OP_BR_IF, 1);
    local(m, OP_GET, 1);
    push(m, 1);
    op(m, OP_ADD);
    local(m, OP_TEE, 1);
    push(m, s->times);
    op(m, OP_LESS);
    local(m, OP_BR_IF, 0);
    op(m, OP_END);
    op(m, OP_END);
}

void module_add(struct module *m, const struct module_step *step)
{
    if (step->times) {
        repeat(m, step);
    } else {
        push_words(m, step);
        call(m, step->call);
        local(m, OP_SET, 0);
    }
    if (step->id)
        module_say(m, step->id);
}

static void read_clock(struct module *m, uint32_t slot)
{
    struct module_step clock = {.call = CALL_clock_time_get,
                                .words = {NUMBER(1), NUMBER(0), NUMBER(slot)}};
    module_add(m, &clock);
}

void module_spin(struct module *m, uint64_t nanoseconds)
{
    read_clock(m, MODULE_SLOT(8));
    op(m, OP_LOOP);
    op(m, NO_VALUE);
    read_clock(m, MODULE_SLOT(9));
    push(m, MODULE_SLOT(9));
    memory_op(m, OP_LOAD64, 0);
    push(m, MODULE_SLOT(8));
    memory_op(m, OP_LOAD64, 0);
    op(m, OP_SUBTRACT64);
    push64(m, nanoseconds);
    op(m, OP_LESS64);
    local(m, OP_BR_IF, 0);
    op(m, OP_END);
}

/* A subscription to the clock that only goes forward, relative to now. */
void module_sleep(struct module *m, uint64_t nanoseconds)
{
    uint8_t wish[48] = {[16] = 1};
    for (int i = 0; i < 8; i++)
        wish[24 + i] = (uint8_t)(nanoseconds >> 8 * i);
    struct module_step wait = {.call = CALL_poll_oneoff,
                               .words = {NUMBER(put(m, wish, sizeof wish)), NUMBER(MODULE_SLOT(8)),
                                         NUMBER(1), NUMBER(MODULE_SLOT(9))}};
    module_add(m, &wait);
}

/* What memory.grow answers when it cannot is -1. */
void module_grow(struct module *m, unsigned pages, uint64_t stay)
{
    push(m, 48); /* no memory, unless it grew */
    push(m, pages);
    op(m, OP_GROW);
    op(m, 0);
    local(m, OP_TEE, 1);
    push(m, UINT32_MAX);
    op(m, OP_EQ);
    op(m, OP_MULTIPLY);
    local(m, OP_TEE, 0);
    op(m, OP_EQZ);
    op(m, OP_IF);
    op(m, NO_VALUE);
    local(m, OP_GET, 1);
    push(m, PAGE);
    op(m, OP_MULTIPLY);
    push(m, 1);
    push(m, pages * PAGE);
    op(m, OP_BULK);
    number(&m->code, OP_BULK_FILL);
    op(m, 0);
    module_sleep(m, stay);
    op(m, OP_END);
}

/* ---- sections ---- */

static void section(struct buf *out, unsigned id, const struct buf *body)
{
    byte(out, id);
    number(out, body->len);
    buf_add(out, body->data, body->len);
}

static void write_types(struct buf *out)
{
    cleanup_buf struct buf b;
    buf_init(&b, MODULE_CAP);
    number(&b, ARRAY_LEN(calls) + 1);
    for (size_t i = 0; i < ARRAY_LEN(calls); i++) {
        byte(&b, TYPE_FUNCTION);
        number(&b, strlen(calls[i].takes));
        for (const char *c = calls[i].takes; *c; c++)
            byte(&b, *c == 'I' ? TYPE_I64 : TYPE_I32);
        number(&b, 1);
        byte(&b, TYPE_I32);
    }
    byte(&b, TYPE_FUNCTION);
    number(&b, 0);
    number(&b, 0);
    section(out, 1, &b);
}

static void import(struct buf *b, const char *what, size_t type)
{
    name(b, "wasi_snapshot_preview1");
    name(b, what);
    byte(b, 0);
    number(b, type);
}

static void write_imports(const struct module *m, struct buf *out)
{
    cleanup_buf struct buf b;
    buf_init(&b, MODULE_CAP);
    number(&b, ARRAY_LEN(calls) + (m->import != NULL));
    for (size_t i = 0; i < ARRAY_LEN(calls); i++)
        import(&b, calls[i].name, i);
    if (m->import)
        import(&b, m->import, ARRAY_LEN(calls));
    section(out, 2, &b);
}

/* One function, one memory, and their names. */
static void write_shape(const struct module *m, struct buf *out)
{
    cleanup_buf struct buf b;
    buf_init(&b, MODULE_CAP);
    number(&b, 1);
    number(&b, ARRAY_LEN(calls));
    section(out, 3, &b);
    buf_reset(&b);
    number(&b, 1);
    byte(&b, 0);
    number(&b, MODULE_BYTES / PAGE);
    section(out, 5, &b);
    buf_reset(&b);
    number(&b, 2);
    name(&b, "_start");
    byte(&b, 0);
    number(&b, ARRAY_LEN(calls) + (m->import != NULL));
    name(&b, "memory");
    byte(&b, 2);
    number(&b, 0);
    section(out, 7, &b);
}

static void write_code(const struct module *m, struct buf *out)
{
    static const char locals[] = {1, 2, TYPE_I32};
    cleanup_buf struct buf b;
    buf_init(&b, MODULE_CAP);
    number(&b, 1);
    number(&b, sizeof locals + m->code.len + 1);
    buf_add(&b, locals, sizeof locals);
    buf_add(&b, m->code.data, m->code.len);
    byte(&b, OP_END);
    section(out, 10, &b);
}

static void write_segment(struct buf *b, uint32_t at, const void *bytes, size_t len)
{
    byte(b, 0);
    byte(b, OP_CONST);
    signed_number(b, (int32_t)at);
    byte(b, OP_END);
    number(b, len);
    buf_add(b, bytes, len);
}

static void write_data(const struct module *m, struct buf *out)
{
    char table[4 * (NOT_CAPABLE + 1) + 1];
    cleanup_buf struct buf b;
    buf_init(&b, MODULE_CAP);
    for (unsigned i = 0; i <= NOT_CAPABLE; i++)
        snprintf(table + (size_t)4 * i, 5, "%03u\t", (unsigned)errno_of(i) % 1000);
    number(&b, 2);
    write_segment(&b, TABLE_AT, table, sizeof table - 1);
    write_segment(&b, DATA_AT, m->data.data, m->data.len);
    section(out, 11, &b);
}

void module_init(struct module *m)
{
    *m = (struct module){0};
    buf_init(&m->code, MODULE_CAP / 2);
    buf_init(&m->data, MODULE_CAP / 2);
}

void module_done(struct module *m)
{
    buf_done(&m->code);
    buf_done(&m->data);
}

bool module_write(const struct module *m, struct buf *out)
{
    static const char head[] = {0, 'a', 's', 'm', 1, 0, 0, 0};
    buf_add(out, head, sizeof head);
    write_types(out);
    write_imports(m, out);
    write_shape(m, out);
    write_code(m, out);
    write_data(m, out);
    return !m->code.failed && !m->data.failed && !out->failed;
}
