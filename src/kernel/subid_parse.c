/* Lines of three and of seven fields with colons between them, as shadow's programs read them. */
#include "kernel/subid_parse.h"

#include <string.h>

/* Below it are the accounts of the system. */
#define FIRST_ID 1000u
#define LAST_ID  0xfffffffeu /* the one behind it means "none" */
/* Where a range is suggested, if nobody has one: as shadow does. */
#define FIRST_FREE 100000u

struct field {
    const char *text;
    size_t len;
};

/* The next field of the line, which loses it; false: there is no more. */
static bool take_field(const char **at, const char *end, struct field *ret)
{
    if (!*at)
        return false;
    const char *colon = memchr(*at, ':', (size_t)(end - *at));
    *ret = (struct field){*at, (size_t)((colon ? colon : end) - *at)};
    *at = colon ? colon + 1 : NULL;
    return true;
}

static bool is_text(const struct field *f, const char *text)
{
    return text && text[0] && strlen(text) == f->len && memcmp(f->text, text, f->len) == 0;
}

static bool number(const struct field *f, uint64_t *ret)
{
    uint64_t value = 0;
    if (f->len == 0 || f->len > 10)
        return false;
    for (size_t i = 0; i < f->len; i++) {
        if (f->text[i] < '0' || f->text[i] > '9')
            return false;
        value = value * 10 + (uint64_t)(f->text[i] - '0');
    }
    *ret = value;
    return true;
}

static void note_end(uint64_t end, struct subid_ranges *ret)
{
    if (end > ret->next && end <= LAST_ID)
        ret->next = (uint32_t)end;
}

static void take_range(const char *line, const char *end, const char *name, uint32_t uid,
                       struct subid_ranges *ret)
{
    struct field owner, first, count, more;
    uint64_t from, many, who;
    if (!take_field(&line, end, &owner) || !take_field(&line, end, &first) ||
        !take_field(&line, end, &count) || take_field(&line, end, &more) ||
        !number(&first, &from) || !number(&count, &many))
        return;
    uint64_t behind = from + many;
    if (many == 0 || from > LAST_ID || behind > (uint64_t)LAST_ID + 1)
        return;
    note_end(behind, ret);
    bool own = is_text(&owner, name) || (number(&owner, &who) && who == uid);
    if (from < FIRST_ID)
        from = FIRST_ID;
    if (own && from < behind && ret->count < SUBID_RANGES_MAX)
        ret->at[ret->count++] = (struct subid_range){(uint32_t)from, (uint32_t)(behind - from)};
}

/* The last one may end without a newline. */
static bool next_line(const char **at, const char *stop, struct field *ret)
{
    if (*at >= stop)
        return false;
    const char *newline = memchr(*at, '\n', (size_t)(stop - *at));
    *ret = (struct field){*at, (size_t)((newline ? newline : stop) - *at)};
    *at = newline ? newline + 1 : stop;
    return true;
}

void subid_parse(const char *text, size_t len, const char *name, uint32_t uid,
                 struct subid_ranges *ret)
{
    *ret = (struct subid_ranges){.next = FIRST_FREE};
    struct field line;
    for (const char *at = text; next_line(&at, text + len, &line);)
        take_range(line.text, line.text + line.len, name, uid, ret);
}

uint64_t subid_total(const struct subid_ranges *r)
{
    uint64_t total = 0;
    for (unsigned i = 0; i < r->count; i++)
        total += r->at[i].count;
    return total;
}

uint32_t subid_at(const struct subid_ranges *r, uint64_t place)
{
    for (unsigned i = 0; i < r->count; i++) {
        if (place < r->at[i].count)
            return r->at[i].first + (uint32_t)place;
        place -= r->at[i].count;
    }
    return 0;
}

static bool is_account(const struct field *line, uint32_t uid, struct field *ret_name)
{
    struct field password, id;
    const char *at = line->text, *end = line->text + line->len;
    uint64_t value;
    return take_field(&at, end, ret_name) && take_field(&at, end, &password) &&
           take_field(&at, end, &id) && number(&id, &value) && value == uid;
}

bool passwd_name(const char *text, size_t len, uint32_t uid, char *ret, size_t size)
{
    struct field line, name;
    for (const char *at = text; next_line(&at, text + len, &line);) {
        if (!is_account(&line, uid, &name))
            continue;
        if (name.len == 0 || name.len >= size || memchr(name.text, '\0', name.len))
            return false;
        memcpy(ret, name.text, name.len);
        ret[name.len] = '\0';
        return true;
    }
    return false;
}
