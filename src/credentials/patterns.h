/* What redact.c looks for: each value as bytes, forwards and backwards, as hex digits and as base64
 * at three alignments (of the value as it is, in lower and in upper case), in one automaton with
 * failure links (Aho and Corasick), so that the cost per byte of text does not depend on how many
 * values there are or how long they are.
 *
 * A pattern is a sequence of symbols, and each class of symbols says which bytes of text mean which
 * symbol: so both cases of hex and both alphabets of base64 are one pattern each. */
#pragma once

#include "credentials/secret.h"

#include <stdbool.h>
#include <stdint.h>

enum symbol_class {
    SYM_BYTES,  /* the value itself; both cases of a letter are one symbol, blank and '+' too */
    SYM_HEX,    /* four bits */
    SYM_BASE64, /* six bits */
    SYM_CLASSES,
};
#define SYM_NONE 0xff
#define SYM_SKIP 0xfe /* line breaks in base64 */

#define HOT_PLAIN  1
#define HOT_ESCAPE 2

struct node {
    uint32_t child, sibling; /* 0: none; the roots are no one's child */
    uint32_t fail;
    uint32_t out; /* the longest pattern that ends here: this node or one on its way of failures; 0:
                     none */
    uint32_t depth; /* symbols from the root */
    uint32_t path;  /* where in patterns.symbols a pattern begins that leads through here */
    uint8_t symbol;
    uint8_t cls;
    bool ends;        /* a pattern ends exactly here */
    bool edge_before; /* base64: the character before, or after, holds some bits of the value too */
    bool edge_after;
};

struct patterns {
    struct node *nodes; /* the first SYM_CLASSES are the roots */
    uint32_t node_count;
    uint8_t *symbols;
    size_t map_len;
    bool locked;
    size_t longest;                   /* bytes of the longest value; 0: there is none */
    uint32_t first[SYM_CLASSES][256]; /* by symbol: the root's children */
    /* By two bytes of text: a match could begin with them (HOT_PLAIN: provided that the next two
     * are warm; HOT_ESCAPE: an escape is among them). */
    uint8_t hot[65536];
    uint8_t warm[65536];
};

/* Entries of `values` may be NULL. */
int patterns_new(struct secret *const *values, size_t count, struct patterns **ret,
                 struct err *err);
void patterns_free(struct patterns *p); /* takes NULL */

/* Hex digits are never escaped; of base64 only what some encoders escape. */
uint8_t symbol_of(enum symbol_class cls, uint8_t byte, bool escaped);
bool symbol_is_base64(uint8_t byte);
static inline uint16_t patterns_pair(const char *text)
{
    uint16_t pair;
    __builtin_memcpy(&pair, text, sizeof pair);
    return pair;
}
/* The next node; a root when nothing fits. */
uint32_t patterns_step(const struct patterns *p, uint32_t node, uint8_t symbol);
