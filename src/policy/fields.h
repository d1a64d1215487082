/* The field table: everything that is known about one scalar field of a policy, in one row.
 * Reading, writing, checking, tightening, explaining and documenting a field all go through its
 * row, so that a new field is one row and one line in policy.h. Private to policy/. */
#pragma once

#include "policy/policy.h"

enum field_type {
    TYPE_LEVEL,
    TYPE_TIER,
    TYPE_NEED,
    TYPE_SAMPLING,
    TYPE_PROC,
    TYPE_NETWORK,
    TYPE_BOOL,
    TYPE_PATH,
    TYPE_RESOLVER,
    TYPE_UINT,
    TYPE_SIZE,
    TYPE_COUNT,
    TYPE_MILLI,
    TYPE_DURATION,
};

/* Which direction a request may move the value without the operator's word. */
enum tighter {
    TIGHTER_LOWER,
    TIGHTER_HIGHER,
    TIGHTER_NONZERO, /* away from 0, but not between other values */
    TIGHTER_NONE,    /* the values cannot be compared: only the same one */
    TIGHTER_ANY,     /* the value gives no rights: a request may choose */
};

/* The rules of one field. Where it lies is in POLICY_FIELDS. */
struct field {
    enum tighter tighter;
    bool unlimited; /* the word `unlimited` is accepted */
    uint64_t min;   /* numbers only */
    uint64_t max;
    const char *help;
};

const struct field *field_rules(enum policy_field id);
enum field_type field_type(enum policy_field id);
/* The part of the path after the section: "memory". */
const char *field_key(enum policy_field id);
/* The name in struct policy, which carries the unit: "timeout_ms". */
const char *field_member(enum policy_field id);
/* `section` is "" for the top of the document. */
bool field_in_section(enum policy_field id, const char *section);
/* FIELD_COUNT if there is none. */
enum policy_field field_find(const char *section, const char *key);

/* Paths and the like: stored as a text, or as NULL for what happens where nobody says anything. */
bool field_is_text(enum policy_field id);
/* Every other type is a number: in the order of its enum, or in its base unit. */
uint64_t field_number(const struct policy *p, enum policy_field id);
void field_store(struct policy *p, enum policy_field id, uint64_t value);
/* Texts only; the slot owns its text. */
char **field_string(struct policy *p, enum policy_field id);
const char *field_string_of(const struct policy *p, enum policy_field id);
