/* What a hostile guest can say to the monitor's devices. The driver here writes rings and registers
 * by itself, as a guest's kernel that was taken over would. */
#include "../../fuzz/vm_driver.h"
#include "base/cleanup.h"
#include "engines/vm/egress.h"
#include "engines/vm/fs.h"
#include "engines/vm/joins.h"
#include "engines/vm/session.h"
#include "engines/vm/vsock.h"
#include "os/seal.h"
#include "os/sys.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

static struct driver v;
static struct vsock vsock;

static void start_vsock(void)
{
    free(v.memory.host);
    driver_memory(&v);
    vsock_init(&vsock, &v.memory);
    driver_start(&v, &vsock.device);
}

/* ---- rings: V-01, V-02, V-03, V-05, V-06 ---- */

Test(vm_queue, a_ring_lies_in_guest_memory)
{
    static const struct {
        uint32_t size;
        uint64_t table, offered, used;
        bool good;
    } rows[] = {
        {16, DRIVER_BASE, DRIVER_BASE + 0x400, DRIVER_BASE + 0x800, true}, /* the control */
        {0, DRIVER_BASE, DRIVER_BASE + 0x400, DRIVER_BASE + 0x800, false},
        {15, DRIVER_BASE, DRIVER_BASE + 0x400, DRIVER_BASE + 0x800, false},
        {512, DRIVER_BASE, DRIVER_BASE + 0x4000, DRIVER_BASE + 0x8000, false},
        {16, DRIVER_BASE + 8, DRIVER_BASE + 0x400, DRIVER_BASE + 0x800, false},
        {16, DRIVER_BASE + DRIVER_MEMORY - 16, DRIVER_BASE + 0x400, DRIVER_BASE + 0x800, false},
        {16, UINT64_MAX - 15, DRIVER_BASE + 0x400, DRIVER_BASE + 0x800, false},
        {16, DRIVER_BASE, DRIVER_BASE + DRIVER_MEMORY, DRIVER_BASE + 0x800, false},
        {16, DRIVER_BASE, DRIVER_BASE + 0x400, 0x0a000000, false},
        {16, DRIVER_BASE, DRIVER_BASE + 0x401, DRIVER_BASE + 0x800, false},
    };
    driver_memory(&v);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct queue q = {.memory = &v.memory,
                          .size = rows[i].size,
                          .table_at = rows[i].table,
                          .offered_at = rows[i].offered,
                          .used_at = rows[i].used};
        cr_assert_eq(queue_start(&q), rows[i].good, "row %zu", i);
    }
}

Test(vm_queue, registers_are_deaf_once_the_device_works)
{
    start_vsock();
    const uint8_t *before = vsock.device.queues[1].table;
    driver_register(&v, 0x30, 1);
    driver_register(&v, 0x38, 4);
    driver_register(&v, 0x80, 0);
    driver_register(&v, 0x44, 0);
    driver_register(&v, 0x44, 1);
    cr_assert_eq(vsock.device.queues[1].table, before);
    cr_assert_eq(vsock.device.queues[1].count, DRIVER_RING);
    cr_assert(device_live(&vsock.device));
}

static void offer_chain(unsigned parts, uint32_t len, uint16_t last_next, uint16_t last_flags)
{
    for (unsigned i = 0; i < parts; i++)
        driver_part(&v, 1, i, DRIVER_BASE + DRIVER_PART, len, i + 1 < parts ? 1 : last_flags,
                    (uint16_t)(i + 1 < parts ? i + 1 : last_next));
    driver_offer(&v, 1, 0);
    device_notify(&vsock.device, 1);
}

Test(vm_queue, malformed_chains_fail_the_device)
{
    start_vsock();
    offer_chain(3, 64, 0, 0); /* the control */
    cr_assert(device_live(&vsock.device));
    cr_assert_eq(driver_used(&v, 1), 1);
    static const struct {
        uint32_t len;
        uint16_t next, flags;
    } rows[] = {
        {64, 0, 1},         /* a loop */
        {64, 16, 1},        /* out of range */
        {0, 0, 0},          /* empty */
        {UINT32_MAX, 0, 0}, /* beyond memory */
        {64, 0, 4},         /* indirect, which was not offered */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        start_vsock();
        offer_chain(3, rows[i].len, rows[i].next, rows[i].flags);
        cr_assert_not(device_live(&vsock.device), "row %zu", i);
        cr_assert_eq(driver_asks(&v, 0x70) & 64, 64u, "it asks for a reset");
        driver_start(&v, &vsock.device);
        cr_assert(device_live(&vsock.device), "and works after one");
    }
    start_vsock();
    uint16_t many = 200;
    driver_put(&v, RING_AT(1) + 0x402, &many, 2);
    device_notify(&vsock.device, 1);
    cr_assert_not(device_live(&vsock.device), "more is offered than the ring holds");
}

Test(vm_device, order_is_kept)
{
    driver_memory(&v);
    vsock_init(&vsock, &v.memory);
    v.device = &vsock.device;
    device_notify(&vsock.device, 1); /* before anything */
    driver_register(&v, 0x70, 15);   /* DRIVER_OK without features */
    cr_assert_not(device_live(&vsock.device));
    driver_register(&v, 0x24, 0);
    driver_register(&v, 0x20, ~0u); /* what was never offered */
    driver_register(&v, 0x70, 11);
    cr_assert_eq(driver_asks(&v, 0x70) & 8, 0u);
    for (uint32_t queue = 0; queue < 3; queue++)
        device_notify(&vsock.device, 0xffffffffu - queue);
}

static unsigned raised;

static void count_raised(struct device *d)
{
    (void)d;
    raised++;
}

/* The driver's word that it has seen an interrupt goes nowhere (machine_add). */
Test(vm_device, what_an_interrupt_was_for_stands_until_a_reset)
{
    start_vsock();
    vsock.device.interrupt = count_raised;
    cr_assert_eq(driver_asks(&v, 0x60), 0u, "the control");
    for (unsigned i = 1; i < 3; i++) {
        offer_chain(1, 64, 0, 0);
        cr_assert_eq(raised, i);
        cr_assert_eq(driver_asks(&v, 0x60), 1u);
        driver_register(&v, DEVICE_ACKNOWLEDGE, 1);
    }
    driver_register(&v, 0x70, 0);
    cr_assert_eq(driver_asks(&v, 0x60), 0u);
}

Test(vm_device, every_register_at_every_width)
{
    start_vsock();
    uint8_t data[8];
    for (uint32_t offset = 0; offset < 0x400; offset++)
        for (unsigned width = 0; width <= 16; width++) {
            device_read(&vsock.device, offset, width, data);
            memset(data, 0xff, sizeof data);
            if (offset != 0x70) /* not a reset */
                device_write(&vsock.device, offset, width, data);
        }
    cr_assert(device_live(&vsock.device));
}

/* ---- V-04: memory that changes while it is read ---- */

static _Atomic bool flipping;

static void *flip(void *unused)
{
    (void)unused;
    static const uint32_t lengths[] = {44, UINT32_MAX, 0, 64, DRIVER_MEMORY};
    for (unsigned i = 0; flipping; i++) {
        uint32_t *len = (uint32_t *)(void *)(v.memory.host + RING_AT(1) + 8);
        uint64_t *address = (uint64_t *)(void *)(v.memory.host + RING_AT(1));
        __atomic_store_n(len, lengths[i % 5], __ATOMIC_RELAXED);
        __atomic_store_n(address, i % 3 ? DRIVER_BASE + DRIVER_PART : UINT64_MAX - 8,
                         __ATOMIC_RELAXED);
    }
    return NULL;
}

/* Bounded by its own count: the other thread ends when this one does. */
Test(vm_queue, lengths_that_change_while_they_are_read)
{
    pthread_t thread;
    unsigned good = 0, bad = 0;
    start_vsock();
    driver_part(&v, 1, 0, DRIVER_BASE + DRIVER_PART, 44, 0, 0);
    flipping = true;
    cr_assert_eq(pthread_create(&thread, NULL, flip, NULL), 0);
    for (unsigned i = 0; i < 20000000 && (i < 200000 || !good || !bad); i++) {
        if (i % 4096 == 0)
            sched_yield(); /* on one processor the other thread needs it */
        struct chain c;
        struct queue *q = &vsock.device.queues[1];
        driver_offer(&v, 1, 0);
        int got = queue_take(q, &c);
        if (got > 0) {
            uint8_t *at = c.in[0].iov_base;
            size_t len = c.in[0].iov_len;
            cr_assert(at >= v.memory.host && len > 0 && len <= DRIVER_MEMORY &&
                      (size_t)(at - v.memory.host) <= DRIVER_MEMORY - len);
            good++;
        } else {
            bad++;
        }
    }
    flipping = false;
    pthread_join(thread, NULL);
    cr_assert(good > 0 && bad > 0, "both were hit: %u, %u", good, bad);
}

/* ---- vsock: V-07, V-08 ---- */

struct packet {
    uint64_t from, to;
    uint32_t from_port, to_port, len;
    uint16_t type, op;
    uint32_t flags, room, read;
    uint8_t data[4096];
} __attribute__((packed));

static void send_packet(uint16_t op, uint32_t guest_port, uint32_t port, uint32_t len,
                        uint32_t claimed)
{
    static struct packet p;
    p = (struct packet){.from = 3,
                        .to = 2,
                        .from_port = guest_port,
                        .to_port = port,
                        .len = claimed,
                        .type = 1,
                        .op = op,
                        .room = UINT32_MAX};
    driver_request(&v, 1, &p, 44 + len, 0);
}

Test(vm_vsock, a_stream_carries_what_was_granted_and_no_more)
{
    size_t len;
    start_vsock();
    send_packet(1, 1000, 3, 0, 0);
    send_packet(5, 1000, 3, 4096, 4096);
    vsock_data(&vsock, 2, &len);
    cr_assert_eq(len, 4096, "the control");
    for (int i = 0; i < 40; i++)
        send_packet(5, 1000, 3, 4096, 4096);
    vsock_data(&vsock, 2, &len);
    cr_assert_leq(len, VSOCK_WINDOW);
    cr_assert(vsock.streams[2].reset, "it is reset");
    cr_assert(device_live(&vsock.device));
}

Test(vm_vsock, lengths_that_lie_reset_the_stream)
{
    static const uint32_t claims[] = {100, 65537, UINT32_MAX};
    for (size_t i = 0; i < 3; i++) {
        start_vsock();
        send_packet(1, 1000, 3, 0, 0);
        send_packet(5, 1000, 3, 10, claims[i]);
        cr_assert(vsock.streams[2].reset);
        cr_assert_eq(vsock.streams[2].from_len, 0);
    }
}

Test(vm_vsock, a_port_is_taken_once)
{
    size_t len;
    start_vsock();
    send_packet(1, 1000, 1, 0, 0);
    cr_assert(vsock.streams[0].open);
    send_packet(1, 1001, 1, 0, 0);   /* somebody else */
    send_packet(5, 1001, 1, 10, 10); /* speaks all the same */
    vsock_data(&vsock, 0, &len);
    cr_assert_eq(len, 0);
    cr_assert_eq(vsock.streams[0].guest_port, 1000);
    send_packet(3, 1000, 1, 0, 0); /* the first one goes */
    send_packet(1, 1002, 1, 0, 0);
    cr_assert_not(vsock.streams[0].open, "nobody takes its place");
    for (uint32_t port = 6; port < 60; port++)
        send_packet(1, 1000, port, 0, 0);
    cr_assert_leq(vsock.reset_count, VSOCK_RESETS);
}

Test(vm_vsock, what_waits_for_the_guest_outlives_the_first_reset)
{
    start_vsock();
    vsock_put(&vsock, 1, "input", 5);
    vsock_end(&vsock, 1);
    driver_start(&v, &vsock.device); /* it begins with a reset */
    cr_assert_eq(vsock.streams[1].to_len, 5);
    send_packet(1, 1000, 2, 0, 0);
    driver_start(&v, &vsock.device);
    cr_assert_eq(vsock.streams[1].to_len, 0, "of one that was connected nothing is left");
}

/* ---- connections of the code: VM-17, VM-18, VM-19 ---- */

static struct egress egress;
static int far; /* the other end of the last one that was dialled */
static struct guest_target asked;

static int dial_pair(int family, const struct guest_target *to)
{
    int pair[2];
    (void)family;
    asked = *to;
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair), 0);
    far = pair[1];
    return pair[0];
}

static void start_egress(void)
{
    struct err err = ERR_INIT;
    start_vsock();
    cr_assert_eq(egress_open(&egress, &vsock, false, true, &err), 0);
    egress.dial = dial_pair;
}

static void step_egress(void)
{
    struct pollfd fds[EGRESS_FDS];
    driver_buffers(&v, 0);
    egress_watch(&egress, fds);
    cr_assert_geq(poll(fds, EGRESS_FDS, 0), 0);
    egress_step(&egress, fds);
}

static void send_data(uint32_t guest_port, const void *data, uint32_t len)
{
    static struct packet p;
    p = (struct packet){.from = 3,
                        .to = 2,
                        .from_port = guest_port,
                        .to_port = GUEST_CARRY,
                        .len = len,
                        .type = 1,
                        .op = 5,
                        .room = UINT32_MAX};
    memcpy(p.data, data, len);
    driver_request(&v, 1, &p, 44 + len, 0);
}

static void send_shutdown(uint32_t guest_port, uint32_t flags)
{
    struct packet p = {.from = 3,
                       .to = 2,
                       .from_port = guest_port,
                       .to_port = GUEST_CARRY,
                       .type = 1,
                       .op = 4,
                       .flags = flags,
                       .room = UINT32_MAX};
    driver_request(&v, 1, &p, 44, 0);
}

static const struct guest_target goal = {.address = {[10] = 0xff, 0xff, 192, 0, 2, 7},
                                         .port = {1, 187}};

Test(vm_egress, so_many_streams_and_none_without_rules)
{
    unsigned open = 0;
    start_egress();
    for (uint32_t port = 1000; port < 1200; port++)
        send_packet(1, port, GUEST_CARRY, 0, 0);
    for (unsigned i = 0; i < VSOCK_STREAMS; i++)
        open += vsock.streams[i].open;
    cr_assert_eq(open, VSOCK_CARRIED);
    cr_assert_leq(vsock.reset_count, VSOCK_RESETS);
    start_egress();
    vsock.carried_max = 0;
    send_packet(1, 1000, GUEST_CARRY, 0, 0);
    cr_assert_not(vsock.streams[VSOCK_FIXED].open);
    cr_assert_eq(vsock.reset_count, 1, "it is told so");
}

Test(vm_egress, a_place_is_checked)
{
    struct guest_target to;
    uint8_t bytes[sizeof to];
    memcpy(bytes, &goal, sizeof bytes);
    cr_assert(egress_target(AF_INET6, bytes, sizeof bytes, &to), "the control");
    cr_assert(egress_target(AF_INET, bytes, sizeof bytes, &to));
    cr_assert_not(egress_target(AF_INET6, bytes, sizeof bytes - 1, &to), "too short");
    bytes[0] = 0x20;
    cr_assert(egress_target(AF_INET6, bytes, sizeof bytes, &to));
    cr_assert_not(egress_target(AF_INET, bytes, sizeof bytes, &to), "no IPv6 here");
    bytes[19] = 1;
    cr_assert_not(egress_target(AF_INET6, bytes, sizeof bytes, &to));
    memset(bytes + 16, 0, 4);
    cr_assert_not(egress_target(AF_INET6, bytes, sizeof bytes, &to), "no port");
}

Test(vm_egress, a_connection_is_carried_to_where_it_leads)
{
    char got[64];
    const struct vsock_stream *s = &vsock.streams[VSOCK_FIXED];
    start_egress();
    send_packet(1, 1000, GUEST_CARRY, 0, 0);
    send_data(1000, &goal, 10); /* in two parts */
    step_egress();
    cr_assert_not(egress.lines[0].dialled);
    send_data(1000, (const char *)&goal + 10, sizeof goal - 10);
    send_data(1000, "question", 8);
    step_egress();
    cr_assert_eq(memcmp(&asked, &goal, sizeof goal), 0);
    cr_assert_eq(read(far, got, sizeof got), 8);
    send_shutdown(1000, 2); /* its half is over, and the other is not */
    step_egress();
    cr_assert_eq(read(far, got, sizeof got), 0);
    cr_assert_eq(write(far, "answer", 6), 6);
    close(far);
    step_egress();
    cr_assert_eq(s->sent, 2 + 6u, "a length, and the piece");
    step_egress();
    cr_assert_eq(s->sent, 2 + 6 + 2u, "a piece of none: the end");
    cr_assert(s->end_told && !s->reset);
    cr_assert_eq(egress.lines[0].fd, -1);
    cr_assert(s->held, "until the guest closes it");
    send_shutdown(1000, 3);
    step_egress();
    cr_assert_not(s->held || s->open);
    send_packet(1, 1000, GUEST_CARRY, 0, 0);
    cr_assert(s->held && s->open && !egress.lines[0].dialled, "its place is another's");
}

static int dial_nobody(int family, const struct guest_target *to)
{
    (void)family, (void)to;
    return -ECONNREFUSED;
}

Test(vm_egress, what_is_broken_off_is_reset)
{
    start_egress();
    egress.dial = dial_nobody;
    send_packet(1, 1000, GUEST_CARRY, 0, 0);
    send_data(1000, &goal, sizeof goal);
    step_egress();
    step_egress();
    cr_assert_not(vsock.streams[VSOCK_FIXED].open, "the guest was told");
    cr_assert_not(vsock.streams[VSOCK_FIXED].held);
    /* And the other way round. */
    egress.dial = dial_pair;
    send_packet(1, 1001, GUEST_CARRY, 0, 0);
    send_data(1001, &goal, sizeof goal);
    step_egress();
    send_packet(3, 1001, GUEST_CARRY, 0, 0);
    step_egress();
    char got;
    cr_assert_eq(read(far, &got, 1), 0);
    cr_assert_not(vsock.streams[VSOCK_FIXED].held);
}

/* VM-19. A guest that reads nothing makes the monitor read nothing; one that floods is held to its
 * window. */
Test(vm_egress, what_is_not_taken_is_not_read)
{
    static char much[VSOCK_WINDOW];
    size_t sent = 0;
    start_egress();
    send_packet(1, 1000, GUEST_CARRY, 0, 0);
    send_data(1000, &goal, sizeof goal);
    step_egress();
    vsock.streams[VSOCK_FIXED].guest_room = 0;
    for (int i = 0; i < 64; i++) {
        ssize_t n = write(far, much, sizeof much);
        sent += n > 0 ? (size_t)n : 0;
        step_egress();
        cr_assert_leq(vsock.streams[VSOCK_FIXED].to_len, VSOCK_WINDOW);
    }
    cr_assert_lt(sent, 64 * sizeof much, "it stops");
    struct pollfd fds[EGRESS_FDS];
    egress_watch(&egress, fds);
    cr_assert_eq(fds[1].fd, -1, "and waits for nothing");
}

/* The other side may take a part only. The guest has nothing to say until its window opens, so the
 * monitor has to wait for that side. */
Test(vm_egress, what_was_taken_in_part_goes_on)
{
    static char much[4096], got[4096];
    struct pollfd fds[EGRESS_FDS];
    const struct vsock_stream *s = &vsock.streams[VSOCK_FIXED];
    size_t came = 0;
    start_egress();
    send_packet(1, 1000, GUEST_CARRY, 0, 0);
    send_data(1000, &goal, sizeof goal);
    step_egress();
    cr_assert_eq(setsockopt(egress.lines[0].fd, SOL_SOCKET, SO_SNDBUF, &(int){0}, sizeof(int)), 0);
    send_data(1000, much, sizeof much);
    send_data(1000, much, sizeof much);
    step_egress();
    cr_assert_gt(s->from_len, 0, "the control: not all of it");
    cr_assert_lt(s->from_len, 2 * sizeof much, "the control: some of it");
    egress_watch(&egress, fds);
    cr_assert(fds[1].events & POLLOUT);
    for (ssize_t n; (n = read(far, got, sizeof got)) > 0; came += (size_t)n)
        step_egress();
    cr_assert_eq(came, 2 * sizeof much);
}

static int dial_tcp(int family, const struct guest_target *to)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)family, (void)to;
    cr_assert(bind(listener, (struct sockaddr *)&at, sizeof at) == 0 && listen(listener, 1) == 0 &&
              getsockname(listener, (struct sockaddr *)&at, &len) == 0 &&
              connect(fd, (struct sockaddr *)&at, len) == 0 &&
              (far = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) >= 0 &&
              fcntl(fd, F_SETFL, O_NONBLOCK) == 0);
    close(listener);
    return fd;
}

/* Whoever writes first is told that the other side broke off, and whoever reads then that all came.
 * The guest must not take half an answer for a whole one. */
static void end_while_writing(uint32_t port, bool broken_off)
{
    start_egress();
    egress.dial = dial_tcp;
    send_packet(1, port, GUEST_CARRY, 0, 0);
    send_data(port, &goal, sizeof goal);
    step_egress();
    if (broken_off)
        cr_assert_eq(setsockopt(far, SOL_SOCKET, SO_LINGER, &(struct linger){.l_onoff = 1},
                                sizeof(struct linger)),
                     0);
    close(far);
    struct pollfd gone = {.fd = egress.lines[0].fd, .events = POLLIN};
    cr_assert_eq(poll(&gone, 1, 30000), 1);
    send_data(port, "more", 4);
    struct pollfd fds[EGRESS_FDS] = {{0}};
    egress_step(&egress, fds); /* it writes, before poll says that there is something to read */
    for (int i = 0; i < 4; i++)
        step_egress();
}

Test(vm_egress, what_was_broken_off_is_no_end)
{
    const struct vsock_stream *s = &vsock.streams[VSOCK_FIXED];
    end_while_writing(1000, false);
    cr_expect_eq(s->sent, 2, "the control: a piece of none, which is the end");
    cr_expect(s->open && !s->reset);
    end_while_writing(1001, true);
    cr_expect_eq(s->sent, 0, "half an answer was called all of it");
    cr_expect(s->reset || !s->open);
}

Test(vm_egress, questions_have_lengths)
{
    int pair[2];
    char got[600];
    uint8_t question[2 + 20] = {0, 20, 'q'};
    start_egress();
    cr_assert_eq(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, pair), 0);
    egress.names_fd = pair[0];
    send_packet(1, 1000, GUEST_NAMES, 0, 0);
    vsock.streams[GUEST_NAMES - 1].from_len = sizeof question;
    memcpy(vsock.streams[GUEST_NAMES - 1].from, question, sizeof question);
    step_egress();
    cr_assert_eq(read(pair[1], got, sizeof got), 20, "the control");
    cr_assert_eq(write(pair[1], got, 20), 20);
    step_egress();
    cr_assert_eq(vsock.streams[GUEST_NAMES - 1].sent, 22u);
    static const uint8_t lengths[][2] = {{0, 0}, {0, 11}, {2, 1}, {255, 255}};
    for (size_t i = 0; i < 4; i++) {
        struct vsock_stream *s = &vsock.streams[GUEST_NAMES - 1];
        s->open = true, s->reset = false;
        s->from_len = 2;
        memcpy(s->from, lengths[i], 2);
        step_egress();
        cr_assert_not(s->open, "row %zu", i);
    }
    cr_assert_lt(read(pair[1], got, sizeof got), 0, "nothing came of it");
}

/* ---- programs of a sandbox that lives: VM-17, VM-26 ---- */

static struct joins joins;
#define JOINED(i) (vsock.streams[VSOCK_FIXED + VSOCK_CARRIED + (i)])

static void start_joins(void)
{
    struct err err = ERR_INIT;
    start_vsock();
    joins_init(&joins, &vsock);
    cr_assert_eq(joins_open(&joins, &err), 0, "%s", err.message);
    signal(SIGPIPE, SIG_IGN);
}

static int join_one(void)
{
    struct sockaddr_un full = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    memcpy(full.sun_path + 1, joins.name, JOIN_NAME_LEN);
    cr_assert_eq(connect(fd, (struct sockaddr *)&full,
                         (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + JOIN_NAME_LEN)),
                 0);
    return fd;
}

static void step_joins(unsigned times)
{
    struct pollfd fds[JOINS_FDS];
    for (unsigned i = 0; i < times; i++) {
        driver_buffers(&v, 0);
        joins_watch(&joins, fds);
        cr_assert_geq(poll(fds, JOINS_FDS, 0), 0);
        joins_step(&joins, fds);
    }
}

static void say_joined(uint32_t guest_port, const char *text)
{
    static struct packet p;
    p = (struct packet){.from = 3,
                        .to = 2,
                        .from_port = guest_port,
                        .to_port = GUEST_JOIN,
                        .len = (uint32_t)strlen(text),
                        .type = 1,
                        .op = 5,
                        .room = UINT32_MAX};
    memcpy(p.data, text, strlen(text));
    driver_request(&v, 1, &p, 44 + p.len, 0);
}

Test(vm_joins, a_run_has_none)
{
    start_vsock();
    send_packet(1, 1000, GUEST_JOIN, 0, 0);
    cr_assert_not(JOINED(0).open);
    start_joins();
    send_packet(1, 1000, GUEST_JOIN, 0, 0);
    cr_assert(JOINED(0).open, "the control");
    for (uint32_t port = 1001; port < 1001 + VSOCK_JOINED; port++)
        send_packet(1, port, GUEST_JOIN, 0, 0);
    cr_assert_gt(vsock.reset_count, 0u, "VM-17");
}

Test(vm_joins, who_connects_gets_a_stream_of_its_own)
{
    char got[16] = "";
    start_joins();
    int early = join_one();
    step_joins(2);
    cr_assert_eq(joins.lines[0].fd, -1, "nothing to join yet");
    send_packet(1, 1000, GUEST_JOIN, 0, 0);
    send_packet(1, 1001, GUEST_JOIN, 0, 0);
    int late = join_one();
    step_joins(4);
    cr_assert(joins.lines[0].fd >= 0 && joins.lines[1].fd >= 0);
    cr_assert_eq(write(early, "order", 5), 5);
    step_joins(3);
    cr_assert(JOINED(0).sent == 5 && JOINED(1).sent == 0);
    say_joined(1001, "answer");
    step_joins(2);
    cr_assert_eq(read(early, got, sizeof got), -1);
    cr_assert_eq(read(late, got, sizeof got), 6);
}

Test(vm_joins, an_end_is_passed_on_both_ways)
{
    char got[16];
    start_joins();
    send_packet(1, 1000, GUEST_JOIN, 0, 0);
    send_packet(1, 1001, GUEST_JOIN, 0, 0);
    int one = join_one(), two = join_one();
    step_joins(4);
    close(one); /* killed: the guest is told, though it reads nothing */
    JOINED(0).guest_room = 0;
    step_joins(3);
    cr_assert(!JOINED(0).open && !JOINED(0).held, "its place is free again");
    say_joined(1001, "last");
    send_packet(3, 1001, GUEST_JOIN, 0, 0); /* a reset */
    step_joins(3);
    cr_assert_eq(read(two, got, sizeof got), 4, "what came before is not lost");
    cr_assert_eq(read(two, got, sizeof got), 0);
    cr_assert_not(JOINED(1).held);
}

/* VM-19's rule here: one that does not read stops its own stream, and no other. */
Test(vm_joins, what_is_not_read_is_not_taken)
{
    static char much[4000];
    char got[16];
    memset(much, 'x', sizeof much - 1);
    start_joins();
    send_packet(1, 1000, GUEST_JOIN, 0, 0);
    send_packet(1, 1001, GUEST_JOIN, 0, 0);
    join_one(); /* reads nothing */
    int two = join_one();
    step_joins(4);
    for (unsigned i = 0; i < 1000 && JOINED(0).from_len + sizeof much <= VSOCK_WINDOW; i++) {
        say_joined(1000, much);
        step_joins(1);
    }
    cr_assert_gt(JOINED(0).from_len, 0u, "it stands still");
    say_joined(1001, "heard");
    step_joins(2);
    cr_assert_eq(read(two, got, sizeof got), 5);
    cr_assert(JOINED(0).open);
}

/* VM-13: of sockets one kind is left, and none in a run without rules. */
static int try_sockets(bool carry)
{
    static const int allowed[] = {SEAL_CALLS_LIFE};
    const struct seal_choice choices[] = {
        {SYS_socket, 0, ~0u, {AF_INET6}, 1, true},
        {SYS_socket, 2, ~0u, {0}, 1, true},
        {SYS_socket, 1, ~0u, {SOCK_STREAM | SOCK_CLOEXEC}, carry ? 1 : 0},
    };
    struct err err = ERR_INIT;
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (seal_calls(&(struct seal_calls){allowed, ARRAY_LEN(allowed), choices, 3}, "a test", &err) <
        0)
        return 9;
    int right = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0) >= 0;
    int wrong = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0) >= 0 ||
                socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0) >= 0 ||
                socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0) >= 0 ||
                socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 262) >= 0 ||
                socket(AF_NETLINK, SOCK_RAW, 0) >= 0;
    return right | wrong << 1;
}

Test(vm_egress, one_kind_of_socket_is_left)
{
    for (int carry = 0; carry < 2; carry++) {
        int status = 0;
        pid_t pid = fork();
        if (pid == 0)
            seal_exit(try_sockets(carry));
        cr_assert_eq(waitpid(pid, &status, 0), pid);
        cr_assert(WIFEXITED(status));
        cr_assert_eq(WEXITSTATUS(status), carry, "%d", status);
    }
}

/* ---- a guest that never says a word: V-17 ---- */

Test(vm_session, a_guest_that_does_not_come_up_ends_the_run)
{
    static struct session session;
    struct pollfd fds[SESSION_FDS] = {{0}};
    start_vsock();
    session = (struct session){.vsock = &vsock, .in_ended = true};
    session_begin(&session, 600);
    session.begun.tv_sec -= 60;
    cr_assert_gt(session_patience(&session), 0, "the control: the limit is the one that was given");
    session_begin(&session, 60);
    cr_assert_eq(session_step(&session, fds), -1, "the control: it has time");
    cr_assert_gt(session_patience(&session), 0);
    session.begun.tv_sec -= 60; /* VM-14 */
    cr_assert_eq(session_patience(&session), 0);
    cr_assert_eq(session_step(&session, fds), 125);
    session.greeted = true;
    cr_assert_eq(session_patience(&session), -1, "one that came up is not waited for");
}

/* VM-30 */
static void greet_one(uint8_t entropy[GUEST_ENTROPY])
{
    static struct session session;
    struct guest_hello hello;
    struct pollfd fds[SESSION_FDS] = {{0}};
    start_vsock();
    session = (struct session){.vsock = &vsock, .in_ended = true, .signal_fd = -1};
    session_begin(&session, 60);
    vsock.streams[0].open = vsock.streams[0].taken_once = true;
    cr_assert_eq(session_step(&session, fds), -1);
    cr_assert_eq(vsock.streams[0].to_len, sizeof hello);
    memcpy(&hello, vsock.streams[0].to, sizeof hello);
    cr_assert_eq(hello.magic, GUEST_MAGIC);
    memcpy(entropy, hello.entropy, GUEST_ENTROPY);
    for (size_t i = 0; i < GUEST_ENTROPY; i++)
        cr_expect_eq(session.hello.entropy[i], 0, "it is not kept");
}

Test(vm_session, each_guest_is_sent_random_numbers_of_its_own)
{
    uint8_t first[GUEST_ENTROPY], second[GUEST_ENTROPY];
    greet_one(first);
    greet_one(second);
    for (size_t i = 0; i + 8 <= GUEST_ENTROPY; i += 8)
        cr_expect_neq(memcmp(first + i, second + i, 8), 0, "%zu", i);
}

/* In a sandbox that lives it is up when init in the guest says so, and then its name is told. */
Test(vm_session, who_serves_is_up_when_it_says_so)
{
    static struct session session;
    struct pollfd fds[SESSION_FDS] = {{0}};
    struct guest_word word = {.type = GUEST_EXIT};
    char got[16] = "";
    int pair[2];
    start_vsock();
    cr_assert_eq(pipe(pair), 0);
    cr_assert_eq(dup2(pair[1], 1), 1);
    session = (struct session){.vsock = &vsock, .in_ended = true};
    session_serve(&session, "abcde");
    session_begin(&session, 60);
    session.greeted = true;
    cr_assert_gt(session_patience(&session), 0, "VM-14: that it was greeted is not enough");
    memcpy(vsock.streams[0].from, &word, sizeof word);
    vsock.streams[0].from_len = sizeof word;
    cr_assert_eq(session_step(&session, fds), -1, "there is no code whose end it could tell");
    word.type = GUEST_UP;
    memcpy(vsock.streams[0].from, &word, sizeof word);
    vsock.streams[0].from_len = sizeof word;
    cr_assert_eq(session_step(&session, fds), -1);
    cr_assert_eq(session_patience(&session), -1);
    cr_assert_eq(read(pair[0], got, sizeof got), 6);
    cr_assert_str_eq(got, "abcde\n");
}

/* ---- a terminal: the monitor's is a line to the guest's ---- */

static struct session line;
static int keyboard; /* the other side of descriptors 0 to 2 */

static void open_line(void)
{
    struct winsize size = {.ws_row = 31, .ws_col = 97};
    struct err err = ERR_INIT;
    int slave, plan = memfd_create("plan", MFD_CLOEXEC);
    cr_assert_eq(write(plan, "a plan", 6), 6);
    keyboard = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    cr_assert(keyboard >= 0 && unlockpt(keyboard) == 0);
    cr_assert_geq(slave = open(ptsname(keyboard), O_RDWR | O_NOCTTY), 0);
    for (int fd = 0; fd < 3; fd++)
        cr_assert_eq(dup2(slave, fd), fd);
    cr_assert_eq(ioctl(keyboard, TIOCSWINSZ, &size), 0);
    start_vsock();
    cr_assert_eq(session_open(&line, &vsock, plan, 1000, true, &err), 0, "%s", err.message);
    session_begin(&line, 60);
}

static tcflag_t line_flags(tcflag_t *output)
{
    struct termios now;
    cr_assert_eq(tcgetattr(0, &now), 0);
    *output = now.c_oflag;
    return now.c_lflag;
}

static int step_line(short signals)
{
    struct pollfd fds[SESSION_FDS] = {[3] = {.revents = signals}};
    return session_step(&line, fds);
}

Test(vm_session, a_terminal_changes_no_byte_once_the_guest_is_up)
{
    struct guest_hello hello;
    struct guest_word word;
    tcflag_t output, flags;
    open_line();
    flags = line_flags(&output);
    cr_assert_eq(flags & (ECHO | ICANON | ISIG), (tcflag_t)(ICANON | ISIG), "^C ends a boot");
    vsock.streams[0].open = true;
    cr_assert_eq(step_line(0), -1);
    flags = line_flags(&output);
    cr_assert_eq(flags & (ECHO | ICANON | ISIG | IEXTEN), 0u);
    cr_assert_eq(output & OPOST, 0u);
    memcpy(&hello, vsock.streams[0].to, sizeof hello);
    cr_assert_eq(hello.terminal, 1u);
    cr_assert_eq(hello.size.rows, 31);
    cr_assert_eq(hello.size.columns, 97);
    size_t before = vsock.streams[0].to_len;
    cr_assert_eq(ioctl(keyboard, TIOCSWINSZ, &(struct winsize){.ws_row = 5, .ws_col = 6}), 0);
    raise(SIGWINCH);
    cr_assert_eq(step_line(POLLIN), -1);
    cr_assert_eq(vsock.streams[0].to_len, before + sizeof word);
    memcpy(&word, vsock.streams[0].to + before, sizeof word);
    cr_assert_eq(word.type, (uint32_t)GUEST_SIZE);
    cr_assert_eq(word.size.rows, 5);
    cr_assert_eq(word.size.columns, 6);
}

Test(vm_session, a_signal_ends_a_boot)
{
    open_line();
    raise(SIGWINCH);
    cr_assert_eq(step_line(POLLIN), -1, "the control: a change of the size does not");
    raise(SIGINT);
    cr_assert_eq(step_line(POLLIN), 128 + SIGINT);
    cr_assert_eq(line.signal, SIGINT);
}

/* It waits until there is room to pass it on. */
Test(vm_session, a_signal_finds_its_way_behind_the_plan)
{
    struct pollfd fds[SESSION_FDS];
    struct guest_word word;
    open_line();
    vsock.streams[0].open = true;
    cr_assert_eq(step_line(0), -1);
    session_watch(&line, fds);
    cr_assert_geq(fds[3].fd, 0, "the control: the plan is on its way as a whole");
    vsock.streams[0].to_len = VSOCK_WINDOW - sizeof word + 1;
    raise(SIGTERM);
    session_watch(&line, fds);
    cr_assert_lt(fds[3].fd, 0, "it would be told of again and again");
    cr_assert_eq(step_line(POLLIN), -1);
    vsock.streams[0].to_len = 0; /* the guest took it */
    session_watch(&line, fds);
    cr_assert_geq(fds[3].fd, 0);
    cr_assert_eq(step_line(POLLIN), -1);
    cr_assert_eq(vsock.streams[0].to_len, sizeof word);
    memcpy(&word, vsock.streams[0].to, sizeof word);
    cr_assert_eq(word.type, (uint32_t)GUEST_SIGNAL);
    cr_assert_eq(word.value, SIGTERM);
}

/* ---- virtio-fs: V-09 to V-15 ---- */

static struct fs fs;
static char place[64];

static void start_fs(void)
{
    char path[96];
    snprintf(place, sizeof place, "/tmp/test-vm-XXXXXX");
    cr_assert(mkdtemp(place));
    snprintf(path, sizeof path, "%s/view", place);
    mkdir(path, 0755);
    int root = open(path, O_PATH | O_CLOEXEC);
    snprintf(path, sizeof path, "%s/flag", place);
    int fd = open(path, O_CREAT | O_WRONLY, 0600);
    cr_assert(fd >= 0 && write(fd, "FLAG", 4) == 4);
    close(fd);
    snprintf(path, sizeof path, "%s/view/file", place);
    fd = open(path, O_CREAT | O_WRONLY, 0644);
    cr_assert(fd >= 0 && write(fd, "contents", 8) == 8);
    close(fd);
    snprintf(path, sizeof path, "%s/view/fifo", place);
    cr_assert_eq(mkfifo(path, 0666), 0);
    snprintf(path, sizeof path, "%s/view/link", place);
    cr_assert_eq(symlink("../flag", path), 0);
    driver_memory(&v);
    cr_assert_eq(fs_init(&fs, &v.memory, root, open("/proc/self/fd", O_PATH | O_CLOEXEC)), 0);
    driver_start(&v, &fs.device);
}

static void stop_fs(void)
{
    char command[128];
    fs_done(&fs);
    snprintf(command, sizeof command, "rm -rf %s", place);
    cr_assert_eq(system(command), 0);
}

/* The error of the answer; its body is at `answer`. */
static const uint8_t *answer;
static int ask_sized(uint32_t op, uint64_t node, const void *arg, size_t len, uint32_t claimed)
{
    static uint8_t request[0x8000];
    struct fuse_in_header head = {.len = claimed, .opcode = op, .unique = 1, .nodeid = node};
    struct fuse_out_header out;
    memcpy(request, &head, sizeof head);
    if (len)
        memcpy(request + sizeof head, arg, len);
    driver_request(&v, 1, request, (uint32_t)(sizeof head + len), 8192);
    memcpy(&out, DRIVER_ANSWER(&v), sizeof out);
    answer = DRIVER_ANSWER(&v) + sizeof out;
    return out.unique == 1 ? out.error : 1;
}
static int ask(uint32_t op, uint64_t node, const void *arg, size_t len)
{
    return ask_sized(op, node, arg, len, (uint32_t)(sizeof(struct fuse_in_header) + len));
}
static uint64_t lookup(const char *name)
{
    struct fuse_entry_out e;
    cr_assert_eq(ask(FUSE_LOOKUP, 1, name, strlen(name) + 1), 0);
    memcpy(&e, answer, sizeof e);
    return e.nodeid;
}

Test(vm_fs, names_are_names, .init = start_fs, .fini = stop_fs)
{
    cr_assert_neq(lookup("file"), 0, "the control");
    cr_assert_eq(lookup("absent"), 0);
    static const char *const names[] = {"", ".", "..", "../flag", "/etc/passwd", "a/b"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        cr_assert_eq(ask(FUSE_LOOKUP, 1, names[i], strlen(names[i]) + 1), -EINVAL, "%s", names[i]);
    cr_assert_eq(ask(FUSE_LOOKUP, 1, "file", 4), -EINVAL, "without an end");
    /* A link is shown, never followed. */
    uint64_t link = lookup("link");
    cr_assert_eq(ask(FUSE_READLINK, link, NULL, 0), 0);
    cr_assert_eq(memcmp(answer, "../flag", 7), 0);
    struct fuse_open_in in = {0};
    cr_assert_eq(ask(FUSE_OPEN, link, &in, sizeof in), -EACCES);
}

/* Where workers of the sandbox write beside the guest it must not go by what it knows. */
Test(vm_fs, what_others_change_is_not_believed, .init = start_fs, .fini = stop_fs)
{
    struct fuse_entry_out e;
    struct fuse_open_out o;
    struct fuse_open_in in = {0};
    static const char *const names[] = {"file", "absent"};
    for (int shared = 0; shared < 2; shared++) {
        fs_share(&fs, shared);
        for (size_t i = 0; i < 2; i++) {
            cr_assert_eq(ask(FUSE_LOOKUP, 1, names[i], strlen(names[i]) + 1), 0);
            memcpy(&e, answer, sizeof e);
            cr_assert_eq(e.entry_valid, shared ? 0u : 1u, "%s", names[i]);
        }
        cr_assert_eq(ask(FUSE_OPEN, lookup("file"), &in, sizeof in), 0);
        memcpy(&o, answer, sizeof o);
        cr_assert_eq(o.open_flags & FOPEN_KEEP_CACHE, shared ? 0u : FOPEN_KEEP_CACHE);
    }
}

Test(vm_fs, lengths_that_lie_are_no_requests, .init = start_fs, .fini = stop_fs)
{
    cr_assert_eq(ask_sized(FUSE_LOOKUP, 1, "file", 5, 39), 1, "no answer");
    cr_assert_eq(ask_sized(FUSE_LOOKUP, 1, "file", 5, UINT32_MAX), 1);
    struct fuse_write_in w = {.size = UINT32_MAX};
    struct fuse_open_in in = {.flags = O_RDWR};
    uint64_t file = lookup("file");
    cr_assert_eq(ask(FUSE_OPEN, file, &in, sizeof in), 0);
    cr_assert_eq(ask(FUSE_WRITE, file, &w, sizeof w), -EINVAL);
    for (uint32_t op = 50; op < 200; op++)
        cr_assert_eq(ask(op, 1, NULL, 0), -ENOSYS);
}

Test(vm_fs, numbers_that_were_never_issued, .init = start_fs, .fini = stop_fs)
{
    struct fuse_read_in in = {.fh = 7, .size = 100};
    struct fuse_forget_in forget = {.nlookup = UINT64_MAX};
    uint64_t file = lookup("file");
    cr_assert_eq(ask(FUSE_GETATTR, 12345, &in, 16), -ESTALE);
    cr_assert_eq(ask(FUSE_GETATTR, UINT64_MAX, &in, 16), -ESTALE);
    cr_assert_eq(ask(FUSE_READ, file, &in, sizeof in), -EBADF);
    struct fuse_open_in open_in = {0};
    struct fuse_open_out folder;
    cr_assert_eq(ask(FUSE_OPENDIR, 1, &open_in, sizeof open_in), 0);
    memcpy(&folder, answer, sizeof folder);
    in.fh = folder.fh;
    cr_assert_eq(ask(FUSE_READ, file, &in, sizeof in), -EBADF, "a folder's handle is no file's");
    ask(FUSE_FORGET, file, &forget, sizeof forget);
    cr_assert_eq(ask(FUSE_GETATTR, file, &in, 16), -ESTALE);
    ask(FUSE_FORGET, 1, &forget, sizeof forget);
    cr_assert_eq(ask(FUSE_GETATTR, 1, &in, 16), 0, "the root stays");
    struct fuse_release_in release = {.fh = folder.fh};
    cr_assert_eq(ask(FUSE_RELEASEDIR, 1, &release, sizeof release), 0);
    cr_assert_eq(ask(FUSE_RELEASEDIR, 1, &release, sizeof release), 0, "twice");
    cr_assert_eq(ask(FUSE_READDIR, 1, &in, sizeof in), -EBADF);
}

Test(vm_fs, special_files_and_set_id_bits, .init = start_fs, .fini = stop_fs)
{
    struct {
        struct fuse_mknod_in in;
        char name[8];
    } node = {{.mode = S_IFREG | 06755}, "made"};
    struct stat sb;
    char path[96];
    cr_assert_eq(ask(FUSE_MKNOD, 1, &node, sizeof node), 0, "the control");
    snprintf(path, sizeof path, "%s/view/made", place);
    cr_assert_eq(stat(path, &sb), 0);
    cr_assert_eq(sb.st_mode & 07000, 0u);
    static const uint32_t kinds[] = {S_IFCHR, S_IFBLK, S_IFIFO, S_IFSOCK};
    for (size_t i = 0; i < 4; i++) {
        node.in.mode = kinds[i] | 0666;
        snprintf(node.name, sizeof node.name, "node%zu", i);
        cr_assert_eq(ask(FUSE_MKNOD, 1, &node, sizeof node), -EPERM);
    }
    /* One that the host has placed there is never opened: it would hold the thread up. */
    struct fuse_open_in in = {.flags = O_RDONLY};
    cr_assert_eq(ask(FUSE_OPEN, lookup("fifo"), &in, sizeof in), -EACCES);
    struct fuse_setattr_in set = {.valid = FATTR_MODE, .mode = 06777};
    cr_assert_eq(ask(FUSE_SETATTR, lookup("made"), &set, sizeof set), 0);
    cr_assert_eq(stat(path, &sb), 0);
    cr_assert_eq(sb.st_mode & 07777, 0777u);
    set = (struct fuse_setattr_in){.valid = FATTR_UID, .uid = 12345};
    cr_assert_eq(ask(FUSE_SETATTR, lookup("made"), &set, sizeof set), -EPERM);
}

/* VM-9. Opening a FIFO waits for somebody at its other end, who never comes: no request of the
 * guest's, whatever it is about, leads to one. */
Test(vm_fs, no_request_opens_what_holds_the_monitor_up, .init = start_fs, .fini = stop_fs,
     .timeout = 60)
{
    static const uint32_t modes[] = {O_RDONLY, O_WRONLY, O_RDWR};
    struct {
        struct fuse_create_in in;
        char name[8];
    } create = {.in = {.mode = 0644}, .name = "fifo"};
    struct fuse_setattr_in set = {.valid = FATTR_SIZE, .size = 3};
    struct fuse_open_in folder = {0};
    struct stat sb;
    char path[96];
    cr_assert_eq(ask(FUSE_SETATTR, lookup("file"), &set, sizeof set), 0, "the control");
    snprintf(path, sizeof path, "%s/view/file", place);
    cr_assert(stat(path, &sb) == 0 && sb.st_size == 3);
    uint64_t fifo = lookup("fifo");
    cr_assert_eq(ask(FUSE_SETATTR, fifo, &set, sizeof set), -EACCES);
    set.valid |= FATTR_FH; /* that it does not have */
    cr_assert_eq(ask(FUSE_SETATTR, fifo, &set, sizeof set), -EACCES);
    cr_assert_eq(ask(FUSE_OPENDIR, fifo, &folder, sizeof folder), -EACCES);
    for (size_t i = 0; i < 3; i++) {
        create.in.flags = modes[i];
        struct fuse_open_in in = {.flags = modes[i]};
        cr_assert_eq(ask(FUSE_OPEN, fifo, &in, sizeof in), -EACCES);
        cr_assert_eq(ask(FUSE_CREATE, 1, &create, sizeof create), -EACCES);
    }
    /* What does not open it does not wait for it either. */
    set =
        (struct fuse_setattr_in){.valid = FATTR_MODE | FATTR_MTIME | FATTR_MTIME_NOW, .mode = 0600};
    cr_assert_eq(ask(FUSE_SETATTR, fifo, &set, sizeof set), 0);
}

static uint64_t lookup_in(uint64_t folder, const char *name)
{
    struct fuse_entry_out e;
    cr_assert_eq(ask(FUSE_LOOKUP, folder, name, strlen(name) + 1), 0);
    memcpy(&e, answer, sizeof e);
    return e.nodeid;
}

static int open_to_write(uint64_t node)
{
    struct fuse_open_in in = {.flags = O_WRONLY};
    return ask(FUSE_OPEN, node, &in, sizeof in);
}

/* VM-22: the same folder is granted in two places, and in one of them read-only. */
Test(vm_fs, a_place_keeps_its_own_rights, .init = start_fs, .fini = stop_fs)
{
    char from[96], to[96];
    if (unshare(CLONE_NEWNS | (geteuid() ? CLONE_NEWUSER : 0)) < 0)
        cr_skip_test("this user can make no mount namespace");
    cr_assert_eq(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
    for (unsigned i = 0; i < 2; i++) {
        snprintf(from, sizeof from, "%s/shared", place);
        snprintf(to, sizeof to, "%s/view/%s", place, i ? "ro" : "rw");
        if (i == 0) {
            cr_assert_eq(mkdir(from, 0755), 0);
            snprintf(to, sizeof to, "%s/shared/file", place);
            close(open(to, O_CREAT | O_WRONLY, 0644));
            snprintf(to, sizeof to, "%s/view/rw", place);
        }
        cr_assert_eq(mkdir(to, 0755), 0);
        cr_assert_eq(mount(from, to, NULL, MS_BIND, NULL), 0);
    }
    cr_assert_eq(mount(NULL, to, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY, NULL), 0);
    fs_done(&fs);
    snprintf(from, sizeof from, "%s/view", place);
    cr_assert_eq(fs_init(&fs, &v.memory, open(from, O_PATH | O_CLOEXEC),
                         open("/proc/self/fd", O_PATH | O_CLOEXEC)),
                 0);
    driver_start(&v, &fs.device);
    uint64_t rw = lookup_in(lookup("rw"), "file"), ro = lookup_in(lookup("ro"), "file");
    cr_assert_eq(open_to_write(rw), 0, "control: it may be written there");
    cr_expect_eq(open_to_write(ro), -EROFS, "and not here, whichever was named first");
    cr_assert_eq(open_to_write(lookup_in(lookup("rw"), "file")), 0);
    umount2(to, MNT_DETACH);
    snprintf(to, sizeof to, "%s/view/rw", place);
    umount2(to, MNT_DETACH);
}

Test(vm_fs, the_monitors_own_proc_is_closed)
{
    driver_memory(&v);
    int self = open("/proc/self/fd", O_PATH | O_CLOEXEC);
    cr_assert_eq(fs_init(&fs, &v.memory, open("/", O_PATH | O_CLOEXEC), self), 0);
    driver_start(&v, &fs.device);
    uint64_t proc = lookup("proc");
    cr_assert_neq(proc, 0, "there is a folder to mount the guest's own on");
    cr_assert_eq(ask(FUSE_LOOKUP, proc, "self", 5), -EACCES);
    struct fuse_open_in in = {0};
    cr_assert_eq(ask(FUSE_OPENDIR, proc, &in, sizeof in), -EACCES);
    fs_done(&fs);
}

Test(vm_fs, hoarding_ends, .init = start_fs, .fini = stop_fs)
{
    char path[96];
    fs.nodes_max = 40;
    fs.handles_max = 10;
    int last = 0;
    for (int i = 0; i < 60; i++) {
        snprintf(path, sizeof path, "%s/view/n%d", place, i);
        close(open(path, O_CREAT | O_WRONLY, 0644));
        snprintf(path, sizeof path, "n%d", i);
        last = ask(FUSE_LOOKUP, 1, path, strlen(path) + 1);
    }
    cr_assert_eq(last, -ENFILE);
    struct fuse_open_in in = {0};
    for (int i = 0; i < 20; i++)
        last = ask(FUSE_OPENDIR, 1, &in, sizeof in);
    cr_assert_eq(last, -ENFILE);
    cr_assert(device_live(&fs.device));
}
