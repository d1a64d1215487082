/* Learn mode: the files that the code asked for, each once, with how it asked. Filled while the
 * code runs, with text that the code chose; read after its end. Bounded: a program that names a
 * million files fills a counter, not memory. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ASKED_MAX       8192
#define ASKED_BYTES_MAX (1u << 20)

enum asked_use {
    ASKED_LOOK = 1 << 0,   /* does it exist, what is it */
    ASKED_READ = 1 << 1,   /* opened to be read */
    ASKED_LIST = 1 << 2,   /* opened as a folder */
    ASKED_WRITE = 1 << 3,  /* what is in it changes */
    ASKED_CHANGE = 1 << 4, /* an entry of its folder comes, goes or gets another name */
    ASKED_RUN = 1 << 5,    /* executed */
    ASKED_SOCKET = 1 << 6, /* connected to, as a socket */
    ASKED_CREATE = 1 << 7, /* made if it is not there */
};

/* What the sandbox itself had to say about it when it was asked for. */
enum asked_state {
    ASKED_MISSING = 1 << 0,  /* there is no such file inside */
    ASKED_ORPHAN = 1 << 1,   /* nor the folder that it would be in */
    ASKED_READONLY = 1 << 2, /* it lies, or would lie, where nothing can be written */
    ASKED_NOEXEC = 1 << 3,   /* … where nothing can be executed */
    ASKED_UNKNOWN = 1 << 4,  /* nobody looked: there is no view of its own */
};

struct asked {
    char *path; /* absolute, without dots and double slashes; any bytes but NUL */
    unsigned uses;
    unsigned state;
    uint64_t count;
};

struct asked_set {
    struct asked *items; /* in the order in which they were first asked for */
    size_t count;
    uint64_t dropped; /* further paths, when it is full */
    uint32_t *slots;  /* hash table of indices + 1; private */
    size_t room, bytes;
    uint64_t seed;
};

void asked_init(struct asked_set *s);
void asked_done(struct asked_set *s);
/* Counts it. Its state is the caller's to fill in. NULL: there is no room for it. */
struct asked *asked_add(struct asked_set *s, const char *path, unsigned use);
