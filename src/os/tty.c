/* The caller's terminal in raw mode while a private one is connected to it. */
#include "os/tty.h"

#include "base/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>

#define SAY_MS 1000

static struct termios saved;
static int saved_fd = -1;

int tty_open_pair(int *master, int *slave, struct err *err)
{
    *master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
    int unlock = 0;
    if (*master < 0 || ioctl(*master, TIOCSPTLCK, &unlock) < 0)
        return err_sys(err, "open a private terminal");
    /* O_CLOEXEC would stick to the open file here, and show on every copy of the descriptor. */
    *slave = ioctl(*master, TIOCGPTPEER, O_RDWR | O_NOCTTY);
    return *slave < 0 || fcntl(*slave, F_SETFD, FD_CLOEXEC) < 0
               ? err_sys(err, "open the inner side of the terminal")
               : 0;
}

void tty_raw(int fd)
{
    struct termios t;
    if (tcgetattr(fd, &saved) < 0)
        return;
    saved_fd = fd;
    t = saved;
    cfmakeraw(&t);
    tcsetattr(fd, TCSADRAIN, &t);
}

void tty_restore(void)
{
    if (saved_fd >= 0)
        tcsetattr(saved_fd, TCSADRAIN, &saved);
    saved_fd = -1;
}

void tty_copy_size(int from, int to)
{
    struct winsize size;
    if (ioctl(from, TIOCGWINSZ, &size) == 0)
        ioctl(to, TIOCSWINSZ, &size);
}

void tty_send_size(int from, int to)
{
    struct winsize size;
    if (ioctl(from, TIOCGWINSZ, &size) == 0 && write(to, &size, sizeof size) < 0)
        return; /* full: those before it have not been looked at either */
}

int tty_foreground(void)
{
    cleanup_fd int fd = open("/dev/tty", O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || tcgetpgrp(fd) != getpgrp())
        return -1;
    tcflush(fd, TCIFLUSH);
    return fd_steal(&fd);
}

void tty_say(int fd, const char *text, size_t len)
{
    while (len > 0) {
        struct pollfd p = {.fd = fd, .events = POLLOUT};
        ssize_t n = write(fd, text, len);
        if (n < 0 && errno != EINTR && (errno != EAGAIN || poll(&p, 1, SAY_MS) <= 0))
            return;
        text += n > 0 ? n : 0;
        len -= n > 0 ? (size_t)n : 0;
    }
}
