/* Names in a sandbox without network rules. Nobody is there to ask, and without a word the code
 * would only learn that "the host could not be resolved": each question is answered at once ("no
 * such name", upon which clients do not try again), and is a denial that says what would allow it.
 * The socket stands inside; no question goes anywhere. What is read from it is hostile. */
#include "base/clock.h"
#include "network/decide.h"
#include "network/dns_parse.h"
#include "sandbox/internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#define ROUND 32 /* questions at a time: others wait for the supervisor too */

enum {
    TYPE_A = 1,
    TYPE_AAAA = 28,
    TYPE_HTTPS = 65,
    RCODE_REFUSED = 5,
};

static bool ends_in(const char *name, const char *tail)
{
    size_t len = strlen(name), tail_len = strlen(tail);
    return len >= tail_len && strcmp(name + len - tail_len, tail) == 0;
}

/* Some resolvers ask for these too; they lead nowhere outside. */
static bool is_own_name(const char *name)
{
    return strcmp(name, "localhost") == 0 || strcmp(name, "brig") == 0 ||
           ends_in(name, ".localhost") || ends_in(name, ".arpa");
}

static bool is_known(const struct denial_list *list, const char *what)
{
    for (size_t i = 0; i < list->count; i++) {
        if (list->items[i].boundary == BOUNDARY_NETWORK &&
            strncmp(list->items[i].what, what, sizeof list->items[i].what - 1) == 0)
            return true;
    }
    return false;
}

void sandbox_deny_place(struct sandbox *s, const char *what, const struct target *t)
{
    char hint[DENY_HINT_MAX];
    deny_offline_hint(t, s->session, hint);
    denial_add(&s->result->denials, BOUNDARY_NETWORK, what, "the sandbox has no network rules",
               hint);
}

/* Names are asked for in pairs, for IPv4 and IPv6: that is one try. */
static void note(struct sandbox *s, const struct dns_question *q)
{
    char what[300];
    bool counts = q->type == TYPE_A || q->type == TYPE_AAAA || q->type == TYPE_HTTPS;
    if (!counts || q->name.kind != HOST_NAME || is_own_name(q->name.text))
        return;
    snprintf(what, sizeof what, "look up %s", q->name.text);
    if (q->type == TYPE_A || !is_known(&s->result->denials, what))
        sandbox_deny_place(s, what, &(struct target){.host = q->name});
}

/* A question that cannot be read gets itself back, refused. */
static size_t refuse(uint8_t *message, size_t len, uint8_t out[static DNS_MESSAGE_MAX])
{
    memcpy(out, message, len);
    out[2] = (uint8_t)(0x80 | (out[2] & 0x79)); /* an answer; opcode and RD as asked */
    out[3] = RCODE_REFUSED;
    return len;
}

static size_t answer(struct sandbox *s, uint8_t *message, size_t len,
                     uint8_t out[static DNS_MESSAGE_MAX])
{
    struct dns_question q;
    struct err ignored = ERR_INIT;
    int r = dns_question_parse(message, len, &q, &ignored);
    if (r == -EINVAL)
        return 0;
    if (r < 0)
        return refuse(message, len, out);
    note(s, &q);
    return dns_answer_write(&q, DNS_NXDOMAIN, NULL, out);
}

static void answer_round(struct sandbox *s, int fd)
{
    uint8_t message[DNS_MESSAGE_MAX], out[DNS_MESSAGE_MAX];
    for (int i = 0; i < ROUND; i++) {
        struct sockaddr_storage from;
        socklen_t from_len = sizeof from;
        ssize_t n = recvfrom(fd, message, sizeof message, MSG_DONTWAIT, (struct sockaddr *)&from,
                             &from_len);
        if (n < 0)
            return;
        size_t len = answer(s, message, (size_t)n, out);
        if (len)
            sendto(fd, out, len, MSG_DONTWAIT | MSG_NOSIGNAL, (struct sockaddr *)&from, from_len);
    }
}

/* LC-11: a question costs the code less than its answer costs here. */
void sandbox_names_answer(struct sandbox *s, int fd)
{
    uint64_t before = clock_cpu_us();
    answer_round(s, fd);
    s->lifecycle.helped_usec += clock_cpu_us() - before;
}
