/* Which addresses are this machine's own (N-5), also when the kernel's answer is late. */
#include "proxy/own.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <errno.h>
#include <string.h>

static int interrupted; /* so many reads are broken off by a signal */

/* In the place of the C library's. The room that it was given is full of what could be an answer to
 * the first question: "no route", which would make any address a stranger's. */
ssize_t recv(int fd, void *buffer, size_t size, int flags)
{
    static ssize_t (*real)(int, void *, size_t, int);
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "recv");
    if (interrupted-- > 0) {
        uint32_t forged[] = {36, 2 /* NLMSG_ERROR */, 1, 0};
        memcpy(buffer, forged, sizeof forged);
        errno = EINTR;
        return -1;
    }
    return real(fd, buffer, size, flags);
}

static struct sockaddr_storage address(const char *text)
{
    struct sockaddr_storage sa = {.ss_family = AF_INET};
    cr_assert(inet_pton(AF_INET, text, &((struct sockaddr_in *)&sa)->sin_addr) == 1);
    return sa;
}

Test(own, without_a_socket_everything_is)
{
    struct sockaddr_storage sa = address("192.0.2.1");
    cr_assert(own_has(&sa));
}

/* 127.0.0.1 stands at the loopback interface, which is not meant; and nobody here has 192.0.2.1. */
Test(own, strangers)
{
    struct sockaddr_storage lo = address("127.0.0.1"), far = address("192.0.2.1");
    cr_assert(own_open(NULL) == 0);
    cr_assert_not(own_has(&lo));
    cr_assert_not(own_has(&far));
}

Test(own, a_read_that_was_broken_off_is_no_answer)
{
    struct sockaddr_storage sa = address("192.0.2.1");
    cr_assert(own_open(NULL) == 0);
    interrupted = 3;
    own_has(&sa);
    cr_assert_eq(interrupted, -1, "it read on until the answer came: %d", interrupted);
}
