/* Names and numbers of the canaries: derives them, and passes them to the attack as one line of
 * text. */
#include "verify/place.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void place_derive(struct place *p)
{
    const char *unique = strrchr(p->folder, '-');
    unique = unique ? unique + 1 : "";
    snprintf(p->tool, sizeof p->tool, "%s/brig", p->folder);
    snprintf(p->file, sizeof p->file, "%s/canary", p->folder);
    snprintf(p->drop, sizeof p->drop, "%s/drop", p->folder);
    snprintf(p->socket, sizeof p->socket, "%s/socket", p->folder);
    snprintf(p->ro, sizeof p->ro, "%s/ro", p->folder);
    snprintf(p->rw, sizeof p->rw, "%s/rw", p->folder);
    snprintf(p->mqueue, sizeof p->mqueue, "brig-verify-%s", unique);
    snprintf(p->variable, sizeof p->variable, "BRIG_VERIFY_%s", unique);
    snprintf(p->abstract, sizeof p->abstract, "brig-verify-%s", unique);
}

static void numbers(const struct place *p, int64_t out[PLACE_NUMBERS])
{
    const int64_t all[PLACE_NUMBERS] = {
        p->victim, p->leaked, p->shm_key, p->limit, p->patience, p->namespaced, p->guest, p->caller,
        p->tcp,    p->tcp6,   p->udp,     p->bound, p->plain,    p->closed,     p->names};
    memcpy(out, all, sizeof all);
}

void place_write(const struct place *p, char *out, size_t size)
{
    int64_t n[PLACE_NUMBERS];
    numbers(p, n);
    size_t used = (size_t)snprintf(out, size, "%s %s", p->folder, p->mark);
    for (int i = 0; i < PLACE_NUMBERS && used < size; i++)
        used += (size_t)snprintf(out + used, size - used, " %" PRId64, n[i]);
}

static bool take_word(const char **at, char *out, size_t size)
{
    size_t len = strcspn(*at, " ");
    if (len == 0 || len >= size)
        return false;
    memcpy(out, *at, len);
    out[len] = '\0';
    *at += len;
    *at += **at == ' ';
    return true;
}

int place_read(struct place *p, const char *text, struct err *err)
{
    int64_t n[PLACE_NUMBERS];
    *p = (struct place){0};
    bool good =
        take_word(&text, p->folder, sizeof p->folder) && take_word(&text, p->mark, sizeof p->mark);
    for (int i = 0; good && i < PLACE_NUMBERS; i++) {
        char word[24], *end;
        good = take_word(&text, word, sizeof word);
        n[i] = good ? strtoll(word, &end, 10) : 0;
        good = good && *end == '\0' && n[i] >= INT32_MIN && n[i] <= INT32_MAX;
    }
    if (!good || *text)
        return err_set(err, ERR_USAGE, "this command is for brig's own use");
    p->victim = (int32_t)n[0];
    p->leaked = (int32_t)n[1];
    p->shm_key = (int32_t)n[2];
    p->limit = (int32_t)n[3];
    p->patience = (int32_t)n[4];
    p->namespaced = (int32_t)n[5];
    p->guest = (int32_t)n[6];
    p->caller = (int32_t)n[7];
    uint16_t *const ports[] = {&p->tcp,   &p->tcp6,   &p->udp,  &p->bound,
                               &p->plain, &p->closed, &p->names};
    for (int i = 0; i < PLACE_NUMBERS - 8; i++)
        *ports[i] = (uint16_t)n[8 + i];
    place_derive(p);
    return 0;
}
