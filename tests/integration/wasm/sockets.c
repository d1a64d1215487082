/* A module that uses sockets if it is told to: as a command by its first argument, as an
 * interpreter of cells (src/wire/interp.h) by the code of one. For clang and wasi-libc. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef __wasm__
#define W(name) __attribute__((import_module("wasi_snapshot_preview1"), import_name(#name)))
#else
#define W(name) /* compilers of processors know no such attribute */
#endif
W(sock_accept) uint32_t raw_accept(uint32_t, uint32_t, uint32_t);
W(sock_recv) uint32_t raw_recv(uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t);
W(sock_send) uint32_t raw_send(uint32_t, uint32_t, uint32_t, uint32_t, uint32_t);
W(sock_shutdown) uint32_t raw_shutdown(uint32_t, uint32_t);

static void use(uint32_t fd)
{
    printf("%u %u %u %u\n", raw_accept(fd, 0, 0), raw_recv(fd, 0, 0, 0, 0, 0),
           raw_send(fd, 0, 0, 0, 0), raw_shutdown(fd, 2));
}

static void say(int fd, const char *text)
{
    uint32_t len = strlen(text);
    write(fd, &len, sizeof len);
    write(fd, text, len);
}

static int whole(int fd, char *at, size_t len)
{
    for (ssize_t n; len; at += n, len -= n)
        if ((n = read(fd, at, len)) <= 0)
            return 0;
    return 1;
}

static int cells(int requests, int answers)
{
    static char text[65536], said[256];
    uint32_t len;
    say(answers, "{\"type\":\"ready\",\"language\":\"javascript\",\"version\":\"0\",\"pid\":1}");
    while (whole(requests, (char *)&len, sizeof len) && len < sizeof text &&
           whole(requests, text, len)) {
        text[len] = '\0';
        const char *id = strstr(text, "\"id\":");
        if (!id)
            return 0;
        unsigned long number = strtoul(id + 5, NULL, 10);
        snprintf(said, sizeof said, "{\"type\":\"count\",\"id\":%lu,\"value\":1}", number);
        say(answers, said);
        if (strstr(text, "sockets"))
            use(0);
        fflush(stdout);
        snprintf(said, sizeof said, "{\"type\":\"end\",\"id\":%lu}", number);
        say(answers, said);
    }
    return 0;
}

int main(int argc, char *argv[])
{
    int requests, answers;
    if (argc > 1 && sscanf(argv[1], "--cells=%d,%d", &requests, &answers) == 2)
        return cells(requests, answers);
    for (int i = 0; argc > 1 && strcmp(argv[1], "sockets") == 0 && i < 3; i++)
        use(i < 2 ? 0 : 99);
    puts("done");
    return 0;
}
