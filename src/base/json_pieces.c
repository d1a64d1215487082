/* A tree written in pieces. What a recursion would keep on its stack is kept here. */
#include "base/json_build.h"

#include <stdlib.h>
#include <string.h>

struct level {
    const struct json *box;
    size_t at; /* the next of its items */
};

struct json_pieces {
    const struct json *value; /* the next to be written, or NULL: that of the innermost box */
    const char *string;       /* in the middle of this one */
    size_t left;              /* of it */
    unsigned depth;
    struct level levels[JSON_DEPTH_CEILING];
};

struct json_pieces *json_pieces_new(const struct json *j)
{
    struct json_pieces *p = malloc(sizeof *p);
    if (!p)
        return NULL;
    p->value = j;
    p->string = NULL;
    p->left = 0;
    p->depth = 0;
    return p;
}

void json_pieces_free(struct json_pieces *p)
{
    free(p);
}

static void go_on_string(struct json_pieces *p, struct buf *out, size_t most)
{
    size_t n = json_write_some(out, p->string, p->left, most);
    p->string += n;
    p->left -= n;
    if (p->left)
        return;
    buf_chr(out, '"');
    p->string = NULL;
}

static void begin_value(struct json_pieces *p, struct buf *out)
{
    const struct json *j = p->value;
    struct json_writer w;
    p->value = NULL;
    switch (json_type(j)) {
    case JSON_STRING:
        buf_chr(out, '"');
        p->string = j->string;
        p->left = strlen(j->string);
        break;
    case JSON_ARRAY:
    case JSON_OBJECT:
        buf_chr(out, j->type == JSON_OBJECT ? '{' : '[');
        p->levels[p->depth++] = (struct level){.box = j};
        break;
    default:
        jw_init(&w, out, false);
        jw_json(&w, j);
    }
}

/* The next item of the innermost box, or its end. */
static void go_on_box(struct json_pieces *p, struct buf *out)
{
    struct level *l = &p->levels[p->depth - 1];
    bool object = l->box->type == JSON_OBJECT;
    struct json_writer w;
    if (l->at == l->box->count) {
        buf_chr(out, object ? '}' : ']');
        p->depth--;
        return;
    }
    p->value = &l->box->items[l->at];
    jw_init(&w, out, false);
    w.need_comma = l->at++ > 0;
    if (object)
        jw_key(&w, p->value->key);
    else if (w.need_comma)
        buf_chr(out, ',');
}

bool json_pieces_next(struct json_pieces *p, struct buf *out, size_t most)
{
    size_t before = out->len;
    while (out->len - before < most && !out->failed) {
        if (p->string)
            go_on_string(p, out, most - (out->len - before));
        else if (p->value)
            begin_value(p, out);
        else if (p->depth)
            go_on_box(p, out);
        else
            return true;
    }
    return !p->string && !p->value && !p->depth;
}
