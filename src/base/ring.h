/* A list that closes on itself, with its head in it: a member takes itself out without knowing
 * where it is. */
#pragma once

struct ring {
    struct ring *next, *prev;
};

static inline void ring_init(struct ring *head)
{
    head->next = head->prev = head;
}

/* At the end. */
static inline void ring_add(struct ring *head, struct ring *l)
{
    l->next = head;
    l->prev = head->prev;
    head->prev->next = l;
    head->prev = l;
}

/* Once more does no harm. */
static inline void ring_remove(struct ring *l)
{
    l->prev->next = l->next;
    l->next->prev = l->prev;
    l->next = l->prev = l;
}
