/* An answer that is one JSON text, and is long because of some texts in it: what code printed, what
 * stands in a file. How long they are, and what is in them, is for whoever wrote them to choose.
 * They are not copied into it, but written where they belong while it is sent.
 *
 * CL-5  One that is long is written in pieces, as its client takes them, and others are served in
 *       between. */
#pragma once

#include "daemon/api/activity.h"

#define LONG_TEXTS_MAX 12u

enum long_form {
    LONG_NOW,    /* it is short, and copied at once */
    LONG_TEXT,   /* these, and those below, stay where they are until the activity is freed */
    LONG_BASE64, /* bytes, to be encoded */
    LONG_JSON,   /* by a writer of ours */
};
struct long_text {
    size_t at; /* in the frame */
    const char *data;
    size_t len;
    enum long_form form;
};
/* A member of what is kept for an activity. Zeroed: nothing is to be sent. */
struct long_answer {
    struct activity *of;
    struct buf frame; /* all but the texts */
    struct long_text texts[LONG_TEXTS_MAX];
    unsigned count;
    /* While it is sent: */
    void (*sent)(struct long_answer *a); /* NULL: it is not */
    struct loop_timer turn;
    size_t framed;  /* of the frame */
    unsigned next;  /* text */
    size_t written; /* of it */
};
/* Then `w` writes the frame, and below what comes after a key. */
void long_begin(struct long_answer *a, struct activity *of, size_t cap, struct json_writer *w);
void long_string(struct long_answer *a, struct json_writer *w, const char *data, size_t len,
                 enum long_form form);
/* JSON as it stands, where it stands. */
void long_json(struct long_answer *a, struct json_writer *w, const struct buf *json);

bool long_is_short(const struct long_answer *a); /* so that it may be written in one go: */
void long_write(struct long_answer *a, struct buf *out);
/* After exchange_begin. `sent` comes when the last piece was given to the exchange, perhaps at
 * once, and not if the activity ends before. */
void long_send(struct long_answer *a, void (*sent)(struct long_answer *a));
void long_resume(struct long_answer *a); /* the client can take more; also if nothing is sent */
void long_stop(struct long_answer *a);   /* with the activity */
void long_done(struct long_answer *a);
/* Answers the activity's call with all of it, and ends the activity, now or later. */
void long_reply(struct long_answer *a);
