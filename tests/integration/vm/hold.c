/* Takes memory, CPU time or disk where it is easily overlooked, says how much, and stays.
 *
 *   hold WAY AMOUNT SECONDS     AMOUNT in MiB (unwaited: milliseconds of CPU time)
 *
 * Prints "held N" when it has as much as it could get. A host that does not count this way, or a
 * limit that is large enough, lets it have all of AMOUNT: that is the control run of each check. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MIB (1L << 20)

static char block[65536];

/* Writes to a descriptor that does not block until it takes no more. */
static long fill(int fd, long most)
{
    long held = 0;
    for (ssize_t n; held < most && (n = write(fd, block, sizeof block)) > 0;)
        held += n;
    return held;
}

static long socketpairs(long want)
{
    long held = 0;
    for (int s[2]; held < want && socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, s) == 0;)
        held += fill(s[0], want - held);
    return held;
}

static long pipes(long want)
{
    long held = 0;
    for (int p[2]; held < want && pipe2(p, O_NONBLOCK) == 0;)
        held += fill(p[1], want - held);
    return held;
}

static long tcp(long want)
{
    long held = 0;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    int server = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(server, (void *)&at, sizeof at) < 0 || listen(server, 8) < 0 ||
        getsockname(server, (void *)&at, &size) < 0)
        return 0;
    while (held < want) {
        int client = socket(AF_INET, SOCK_STREAM, 0);
        if (client < 0 || connect(client, (void *)&at, sizeof at) < 0 ||
            accept(server, NULL, NULL) < 0)
            break;
        fcntl(client, F_SETFL, O_NONBLOCK);
        held += fill(client, want - held);
    }
    return held;
}

/* Afterwards no process has these pages, and there is no file that has them. */
static long shared(long want)
{
    char *at = mmap(NULL, (size_t)want, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        return 0;
    for (long i = 0; i < want; i += MIB) {
        memset(at + i, 1, MIB);
        madvise(at + i, MIB, MADV_DONTNEED);
    }
    return at[0] == 1 ? want : 0;
}

static double cpu_of(int who)
{
    struct rusage u;
    getrusage(who, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

/* Children that nobody waits for: their time is added to nobody's. Returns what they took, of which
 * the kernel tells less. */
static long unwaited(long milliseconds)
{
    const double each = 0.2;
    long used = 0;
    signal(SIGCHLD, SIG_IGN);
    for (; used < milliseconds; used += (long)(each * 1000)) {
        pid_t pid = fork();
        if (pid == 0) {
            while (cpu_of(RUSAGE_SELF) < each)
                ;
            _exit(0);
        }
        waitpid(pid, NULL, 0); /* until it is gone; there is nothing to be told */
    }
    printf("told of %ld\n", (long)((cpu_of(RUSAGE_SELF) + cpu_of(RUSAGE_CHILDREN)) * 1000));
    return used;
}

/* Files that have no name any more. */
static long deleted(long want)
{
    long held = 0;
    const char *dir = getenv("TMPDIR");
    if (chdir(dir ? dir : "/tmp") < 0)
        return 0;
    while (held < want) {
        int fd = open("held", O_RDWR | O_CREAT | O_EXCL, 0600);
        unlink("held");
        long got = fill(fd, MIB);
        held += got;
        if (got < MIB)
            break;
    }
    return held;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        long (*take)(long);
        long unit;
    } ways[] = {
        {"socketpairs", socketpairs, MIB}, {"pipes", pipes, MIB},     {"tcp", tcp, MIB},
        {"shared", shared, MIB},           {"unwaited", unwaited, 1}, {"deleted", deleted, MIB}};
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    signal(SIGXFSZ, SIG_IGN);
    memset(block, 'x', sizeof block);
    for (unsigned i = 0; argc == 4 && i < sizeof ways / sizeof *ways; i++)
        if (strcmp(argv[1], ways[i].name) == 0) {
            long got = ways[i].take(atol(argv[2]) * ways[i].unit);
            printf("held %ld\n", got / ways[i].unit);
            fflush(stdout);
            sleep((unsigned)atoi(argv[3]));
            return 0;
        }
    fprintf(stderr, "usage: hold WAY AMOUNT SECONDS\n");
    return 2;
}
