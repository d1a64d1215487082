/* HTTP servers and a name server on loopback that stand for the internet, and note what reached
 * them. */
#include "verify/lab.h"

#include "base/cleanup.h"
#include "base/text.h"
#include "verify/attack.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define REQUEST_MAX    8192
#define ANSWER_SECONDS 30

struct service {
    int fds[LAB_SERVERS + 1]; /* the last: names, over UDP */
    const char *secret;
    struct lab_notes *notes;
    uint16_t plain_port;
};

static int open_port(int type, uint16_t *port, struct err *err)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    cleanup_fd int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof at) < 0 ||
        (type == SOCK_STREAM && listen(fd, 64) < 0) ||
        getsockname(fd, (struct sockaddr *)&at, &len) < 0)
        return err_sys(err, "listen on the host's loopback");
    *port = ntohs(at.sin_port);
    return fd_steal(&fd);
}

static void take_note(struct service *s, int server, const char *request)
{
    const char *line_end = strchr(request, '\r');
    const char *secret = strstr(request, s->secret);
    s->notes->requests[server]++;
    if (secret)
        s->notes->with_secret[server]++;
    if (secret && line_end && secret < line_end)
        s->notes->secret_in_line++;
    if (text_begins(request, "GET /after-redirect"))
        s->notes->redirected++;
    if (strstr(request, HOST_INNER))
        s->notes->inner++;
}

/* Answers with the request as the body: a server that echoes everything it is sent. */
static void answer(struct service *s, int server, int fd)
{
    char request[REQUEST_MAX + 1], head[256];
    size_t used = 0;
    struct timeval patience = {.tv_sec = ANSWER_SECONDS};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    request[0] = '\0';
    for (ssize_t n; used < REQUEST_MAX && !strstr(request, "\r\n\r\n"); used += (size_t)n) {
        if ((n = recv(fd, request + used, REQUEST_MAX - used, 0)) <= 0)
            break;
        request[used + (size_t)n] = '\0';
    }
    take_note(s, server, request);
    bool redirect = text_begins(request, "GET /redirect");
    int len = redirect ? snprintf(head, sizeof head,
                                  "HTTP/1.1 302 Found\r\nLocation: http://" HOST_PLAIN
                                  ":%u/after-redirect\r\nContent-Length: 0\r\n\r\n",
                                  s->plain_port)
                       : snprintf(head, sizeof head,
                                  "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"
                                  "Content-Length: %zu\r\nConnection: close\r\n\r\n",
                                  used);
    send(fd, head, (size_t)len, MSG_NOSIGNAL);
    if (!redirect)
        send(fd, request, used, MSG_NOSIGNAL);
    shutdown(fd, SHUT_WR);
}

static bool names_closed(const uint8_t *packet, size_t len)
{
    for (size_t i = 12; i + 6 <= len; i++)
        if (strncasecmp((const char *)packet + i, "closed", 6) == 0)
            return true;
    return false;
}

/* Every name leads to 127.0.0.1; only questions for an IPv4 address get one. */
static void answer_name(struct service *s, int fd)
{
    static const uint8_t record[] = {0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 1, 0, 4, 127, 0, 0, 1};
    uint8_t packet[512 + sizeof record];
    struct sockaddr_in from;
    socklen_t len = sizeof from;
    ssize_t n = recvfrom(fd, packet, 512, 0, (struct sockaddr *)&from, &len);
    if (n < 17)
        return;
    s->notes->questions++;
    if (names_closed(packet, (size_t)n))
        s->notes->closed_questions++;
    size_t end = 12;
    while (end < (size_t)n && packet[end])
        end += packet[end] + 1u;
    end += 5;
    if (end > (size_t)n)
        return;
    bool v4 = packet[end - 3] == 1;
    packet[2] = 0x81;
    packet[3] = 0x80;
    memset(packet + 6, 0, 6);
    packet[7] = v4;
    if (v4)
        memcpy(packet + end, record, sizeof record);
    sendto(fd, packet, end + (v4 ? sizeof record : 0), 0, (struct sockaddr *)&from, len);
}

static void serve(struct service *s)
{
    struct pollfd fds[LAB_SERVERS + 1];
    for (int i = 0; i <= LAB_SERVERS; i++)
        fds[i] = (struct pollfd){.fd = s->fds[i], .events = POLLIN};
    for (;;) {
        if (poll(fds, LAB_SERVERS + 1, -1) < 0)
            continue;
        for (int i = 0; i < LAB_SERVERS; i++) {
            int fd = fds[i].revents ? accept(fds[i].fd, NULL, NULL) : -1;
            if (fd < 0)
                continue;
            answer(s, i, fd);
            close(fd);
        }
        if (fds[LAB_SERVERS].revents)
            answer_name(s, fds[LAB_SERVERS].fd);
    }
}

int lab_open(struct lab *lab, const char *secret, struct err *err)
{
    struct service s = {.secret = secret};
    *lab = (struct lab){.pid = -1};
    for (int i = 0; i <= LAB_SERVERS; i++) {
        uint16_t *port = i < LAB_SERVERS ? &lab->ports[i] : &lab->names;
        s.fds[i] = open_port(i < LAB_SERVERS ? SOCK_STREAM : SOCK_DGRAM, port, err);
        if (s.fds[i] < 0)
            return s.fds[i];
    }
    lab->notes =
        mmap(NULL, sizeof *lab->notes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (lab->notes == MAP_FAILED)
        return err_sys(err, "share the notes of the servers");
    s.notes = lab->notes;
    s.plain_port = lab->ports[LAB_PLAIN];
    pid_t parent = getpid();
    lab->pid = fork();
    if (lab->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(0);
        signal(SIGINT, SIG_IGN);
        serve(&s);
    }
    for (int i = 0; i <= LAB_SERVERS; i++)
        close(s.fds[i]);
    return lab->pid < 0 ? err_sys(err, "start the servers") : 0;
}

void lab_reset(struct lab *lab)
{
    memset((void *)lab->notes, 0, sizeof *lab->notes);
}

void lab_close(struct lab *lab)
{
    if (lab->pid > 0) {
        kill(lab->pid, SIGKILL);
        while (waitpid(lab->pid, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    if (lab->notes && lab->notes != MAP_FAILED)
        munmap(lab->notes, sizeof *lab->notes);
    *lab = (struct lab){.pid = -1};
}
