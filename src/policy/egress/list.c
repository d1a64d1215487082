/* Lists of texts in rules and secrets: methods, paths, names. Sorted, each once, bounded in all. */
#include "base/quote.h"
#include "policy/egress/internal.h"

#include <stdlib.h>
#include <string.h>

int list_add(struct text_list *list, const char *text, struct err *err)
{
    struct quoted q;
    if (list->count >= EGRESS_LIST_MAX)
        return err_set(err, ERR_LIMIT, "too many in one list, expected at most %d",
                       EGRESS_LIST_MAX);
    if (list_has(list, text))
        return err_set(err, ERR_USAGE, "%s is listed twice", quote(&q, text));
    char **items = realloc(list->items, (list->count + 1) * sizeof *items);
    if (!items)
        return err_memory(err);
    list->items = items;
    char *copy = strdup(text);
    if (!copy)
        return err_memory(err);
    /* Kept sorted: two lists that say the same are the same. */
    size_t at = list->count++;
    for (; at > 0 && strcmp(items[at - 1], copy) > 0; at--)
        items[at] = items[at - 1];
    items[at] = copy;
    return 0;
}

int list_copy(struct text_list *to, const struct text_list *from, struct err *err)
{
    *to = (struct text_list){0};
    for (size_t i = 0; i < from->count; i++) {
        int r = list_add(to, from->items[i], err);
        if (r < 0)
            return r;
    }
    return 0;
}

bool list_has(const struct text_list *list, const char *text)
{
    for (size_t i = 0; i < list->count; i++) {
        if (strcmp(list->items[i], text) == 0)
            return true;
    }
    return false;
}

bool list_equal(const struct text_list *a, const struct text_list *b)
{
    if (a->count != b->count)
        return false;
    for (size_t i = 0; i < a->count; i++) {
        if (strcmp(a->items[i], b->items[i]) != 0)
            return false;
    }
    return true;
}

void list_done(struct text_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->items[i]);
    free(list->items);
    *list = (struct text_list){0};
}

int method_check(const char *method, struct err *err)
{
    struct quoted q;
    size_t len = strspn(method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-_");
    if (len > 0 && method[len] == '\0' && len < sizeof(((struct target *)0)->method))
        return 0;
    return err_set(err, ERR_USAGE, "%s is not a method, expected one in upper case such as GET",
                   quote(&q, method));
}

static size_t list_bytes(const struct text_list *list)
{
    size_t sum = 0;
    for (size_t i = 0; i < list->count; i++)
        sum += strlen(list->items[i]);
    return sum;
}

int egress_check_text(const struct egress *e, struct err *err)
{
    size_t sum = 0;
    for (size_t i = 0; i < e->rule_count; i++)
        sum += list_bytes(&e->rules[i].methods) + list_bytes(&e->rules[i].paths) +
               list_bytes(&e->rules[i].pass);
    for (size_t i = 0; i < e->secret_count; i++)
        sum += list_bytes(&e->secrets[i].methods) + list_bytes(&e->secrets[i].paths);
    if (sum <= EGRESS_TEXT_MAX)
        return 0;
    return err_set(err, ERR_LIMIT,
                   "too many methods, paths and names, expected at most %d bytes in all",
                   EGRESS_TEXT_MAX);
}
