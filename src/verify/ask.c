/* The smallest HTTP client: one request, one answer, over the proxy that the environment names. */
#include "verify/attack.h"

#include "base/cleanup.h"
#include "base/text.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int connect_proxy(void)
{
    const char *url = getenv("HTTP_PROXY");
    const char *colon = url ? strrchr(url, ':') : NULL;
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (!colon) {
        errno = ENOENT;
        return -1;
    }
    to.sin_port = htons((uint16_t)strtoul(colon + 1, NULL, 10));
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof to) == 0)
        return fd;
    int code = errno;
    if (fd >= 0)
        close(fd);
    errno = code;
    return -1;
}

int ask_proxy(const char *request, struct answer *ret)
{
    *ret = (struct answer){0};
    cleanup_fd int fd = connect_proxy();
    size_t len = strlen(request), used = 0;
    if (fd < 0 || send(fd, request, len, MSG_NOSIGNAL) != (ssize_t)len)
        return errno;
    /* A tunnel has a head and no end. */
    bool tunnel = text_begins(request, "CONNECT ");
    for (ssize_t n; used + 1 < sizeof ret->text; used += (size_t)n)
        if ((tunnel && strstr(ret->text, "\r\n\r\n")) ||
            (n = recv(fd, ret->text + used, sizeof ret->text - 1 - used, 0)) <= 0)
            break;
    ret->text[used] = '\0';
    if (sscanf(ret->text, "HTTP/1.1 %d", &ret->status) != 1)
        return ECONNRESET;
    return ret->status >= 200 && ret->status < 400 ? 0 : EACCES;
}

int ask_get(const char *host, uint16_t port, const char *path, const char *host_header,
            const char *more, struct answer *ret)
{
    char request[2048], own[160];
    snprintf(own, sizeof own, "%s:%u", host, port);
    snprintf(request, sizeof request,
             "GET http://%s%s HTTP/1.1\r\nHost: %s\r\n%sConnection: close\r\n\r\n", own, path,
             host_header ? host_header : own, more);
    return ask_proxy(request, ret);
}
