/* Inside the sandbox: tries the rows of one scene and says what came of each, a line per row. */
#include "verify/inside.h"

#include "base/cleanup.h"
#include "verify/row.h"
#include "verify/scene.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

static void say(const char *text)
{
    size_t len = strlen(text);
    for (ssize_t n; len > 0; text += n, len -= (size_t)n)
        if ((n = write(1, text, len)) <= 0)
            _exit(1);
}

static void try_row(const struct row *r, const struct place *scenes)
{
    struct place place = *scenes;
    struct attempt a = {.place = &place};
    struct outcome o;
    char line[400];
    if (row_scene(r, place.guest) != r->scene)
        place.limit = scene_limit(r->scene, false, true);
    if (!outcome_try(r->attack, &a, false, &o))
        return;
    outcome_line(r->id, &o, line, sizeof line);
    say(line);
}

/* A port for somebody outside to try; where there is no network there is none. */
static int open_door(const struct place *place)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons(place->udp),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    /* The judge keeps the number free on the host. */
    if (fd >= 0 && (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) < 0 ||
                    bind(fd, (struct sockaddr *)&at, sizeof at) < 0 || listen(fd, 1) < 0)) {
        close(fd);
        return -1;
    }
    return fd;
}

/* Kept open, for somebody outside to see whose they are. No list of the folder is made: a sandbox
 * that lost its walls would open what must not be touched. */
static void hold_devices(void)
{
    static const char *const nodes[] = {"/dev/fuse", "/dev/kvm",  "/dev/net/tun", "/dev/full",
                                        "/dev/zero", "/dev/ptmx", "/dev/urandom", "/dev/nvidiactl"};
    for (size_t i = 0; i < ARRAY_LEN(nodes); i++)
        (void)open(nodes[i], O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

/* A task in new namespaces, if a kernel gives any. It ends with this one. */
static void hold_namespaces(void)
{
    int said[2];
    char byte = 0;
    if (pipe2(said, O_CLOEXEC) < 0)
        return;
    pid_t parent = getpid(), pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)unshare(CLONE_NEWUSER | CLONE_NEWNET | CLONE_NEWUTS | CLONE_NEWIPC);
        if (write(said[1], &byte, 1) == 1)
            while (getppid() == parent)
                usleep(100000);
        _exit(0);
    }
    close(said[1]);
    (void)!read(said[0], &byte, 1);
    close(said[0]);
}

static void await_look(void)
{
    char word;
    say("@look\n");
    while (read(0, &word, 1) > 0)
        ;
}

/* What can only be judged from outside is looked at now. */
static void be_looked_at(const struct place *place)
{
    cleanup_fd int door = open_door(place);
    (void)door; /* is open until then */
    hold_devices();
    hold_namespaces();
    await_look();
}

static void say_home(void)
{
    char line[200];
    const char *home = attack_home();
    snprintf(line, sizeof line, "@home\t%.150s\n", home ? home : "");
    say(line);
}

static void on_signal(int sig)
{
    (void)sig;
    ssize_t n = write(1, "s", 1);
    (void)n;
}

/* The process of the caller's that is attacked. It ends with the judge. */
static int be_the_victim(void)
{
    pid_t judge = getppid();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_NAME, "brig-victim");
    signal(SIGUSR1, on_signal);
    say("r");
    while (getppid() == judge)
        pause();
    return 0;
}

int verify_inside(int argc, char *const argv[])
{
    struct place place;
    struct err err = ERR_INIT;
    char *end = NULL;
    if (argc == 1 && strcmp(argv[0], "victim") == 0)
        return be_the_victim();
    long scene = argc == 2 ? strtol(argv[0], &end, 10) : -1;
    if (scene < 0 || scene >= SCENE_COUNT || *end || place_read(&place, argv[1], &err) < 0) {
        say("brig: this command is for brig's own use\n");
        return 125;
    }
    prctl(PR_SET_NAME, place.mark);
    say_home();
    if (scene == SCENE_NETWORK)
        try_row(&(struct row){.id = "allowed", .attack = attack_allowed}, &place);
    for (size_t i = 0; i < row_count; i++)
        if (row_scene(&rows[i], place.guest) == (enum scene_id)scene && rows[i].attack &&
            row_on_tier(&rows[i], place.guest ? TIER_VM : TIER_CONTAINER))
            try_row(&rows[i], &place);
    if (scene == SCENE_PLAIN)
        be_looked_at(&place);
    if (scene == SCENE_LEAVE) /* who is left is known to somebody before the end */
        await_look();
    return 0;
}
