/* One piece of work on a file for an MCP call. */
#pragma once

#include "daemon/api/work.h"
#include "daemon/mcp/mcp.h"

#define MCP_FILE_MAX    (4u << 20)
#define MCP_ENTRIES_MAX 2000u

struct mcp_file {
    struct mcp_call *c;
    enum files_op op;
    char path[FILES_PATH_MAX + 1];
    const char *encoding;
    const char *user; /* or NULL */
    bool as_root;
    struct work work;
    int error;
    struct err why; /* of a start that failed */
    uint64_t size;
    struct buf data; /* what was read, or is to be written */
    size_t looked;   /* of what was read: is it text? */
    bool not_text;
    const char *encoded; /* base64 that becomes data, a part of it at a time */
    size_t encoded_left;
    const char *session, *asked; /* as the arguments say */
    struct loop_timer turn;
    size_t written;
    struct loop_io in;
    struct json_writer w; /* entries go into data */
    struct buf text;      /* the same for reading */
    unsigned entries;
    bool cut;
    void (*done)(struct mcp_file *f);
    void *ctx; /* the caller's */
};

struct mcp_file *file_new(struct mcp_call *c, enum files_op op); /* NULL: answered */
/* Then f->done, once, with f->error. */
void file_begin(struct mcp_file *f, struct box *b, uint32_t depth, uint64_t limit);
/* Of what was read: UTF-8 without a NUL. */
bool file_is_text(struct mcp_file *f);
