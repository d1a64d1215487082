/* The vm tier: brig-vmm takes the place of the code, inside all walls of the container tier, and
 * the code runs in the guest that it boots.
 *
 * The memory limit of the policy is that of guest and monitor together: the guest has what is left
 * after MACHINE_OVERHEAD, and in a session MACHINE_SESSION besides, for the processes that stand
 * beside its programs. */
#include "base/cleanup.h"
#include "base/num.h"
#include "os/beside.h"
#include "os/fd.h"
#include "os/rights.h"
#include "plan/guest.h"
#include "sandbox/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define MACHINE_OVERHEAD (32ull << 20)
#define MACHINE_SESSION  (32ull << 20)
#define MACHINE_LEAST    (128ull << 20) /* of the guest's own */
#define MACHINE_CPUS     8u
#define MACHINE_PIECE    (2ull << 20)
#define BOOT_SECONDS     60u
#define BOOT_SECONDS_MAX 3600u
#define BOOT_VARIABLE    "BRIG_VM_BOOT_SECONDS"

/* Of the time to boot. A clone that does not come up in it is booted. */
#define CLONE_SHARE 4

/* In the order in which engines/vm/main.c takes them. */
#define HANDED_MOST 5
static const struct {
    const char *word; /* of a session's monitor */
    unsigned count;
    enum machine_hand what[HANDED_MOST];
} ways[] = {
    [MACHINE_BOOT] = {"serve", KERNEL_HANDED, {HAND_KVM, HAND_KERNEL, HAND_INITRAMFS, HAND_PLAN}},
    [MACHINE_PARK] = {"park", 5, {HAND_KVM, HAND_KERNEL, HAND_INITRAMFS, HAND_MEMORY, HAND_STATE}},
    [MACHINE_CLONE] = {"clone", 4, {HAND_KVM, HAND_MEMORY, HAND_STATE, HAND_PLAN}},
};

static unsigned gather(const struct sandbox *s, int fds[static HANDED_MOST])
{
    unsigned count = ways[s->machine.way].count;
    for (unsigned i = 0; i < count; i++)
        fds[i] = s->machine.fds[ways[s->machine.way].what[i]];
    return count;
}

/* What is asked for and cannot be given stops the start. */
int machine_check_policy(const struct policy *p, struct err *err)
{
    if (p->memory < MACHINE_LEAST + MACHINE_OVERHEAD) {
        err_set(err, ERR_UNSUPPORTED, "a virtual machine needs at least 160 MiB of memory");
        err_at(err, BOUNDARY_KERNEL);
        return err_hint(err, "--memory 512M");
    }
    if (p->cpus_milli != POLICY_UNLIMITED && p->cpus_milli > MACHINE_CPUS * 1000) {
        err_set(err, ERR_UNSUPPORTED, "a virtual machine has at most %u processors", MACHINE_CPUS);
        err_at(err, BOUNDARY_KERNEL);
        return err_hint(err, "--cpus %u", MACHINE_CPUS);
    }
    return 0;
}

static uint64_t at_most(uint64_t value, uint64_t most)
{
    return value < most ? value : most;
}

/* What lives on has what it writes in memory as well, beside a guest whose caches fill all that it
 * has: room for that is left, so that a full disk is an error and not the end of the monitor. */
static uint64_t guest_memory(const struct sandbox *s)
{
    const struct policy *p = s->request->policy;
    uint64_t memory = at_most(p->memory, 1ull << 40) - MACHINE_OVERHEAD;
    if (s->session && memory > MACHINE_SESSION) {
        memory -= MACHINE_SESSION;
        memory -= at_most(p->disk, memory / 2);
    }
    return memory & ~(MACHINE_PIECE - 1);
}

static int check_session(const struct sandbox *s, struct err *err)
{
    if (!s->session)
        return 0;
    if (s->request->review)
        return engine_refuse(TIER_VM, "a project, which is changed in review mode,", err);
    if (guest_memory(s) >= MACHINE_LEAST)
        return 0;
    err_set(
        err, ERR_UNSUPPORTED,
        "a virtual machine of brig serve needs at least 192 MiB of memory besides its disk, or 320 "
        "MiB");
    err_at(err, BOUNDARY_KERNEL);
    return err_hint(err, "lifecycle: {memory: 512M}");
}

/* More than the host has would only wait for each other: a guest's kernel holds locks that another
 * of its processors turns in circles for. */
static unsigned guest_cpus(const struct policy *p)
{
    unsigned wanted = sandbox_cpus(p);
    return wanted < MACHINE_CPUS ? wanted : MACHINE_CPUS;
}

/* A boot takes a second. What makes it take minutes is the host's business, and known to who runs
 * it. */
static int read_boot_seconds(uint64_t *ret, struct err *err)
{
    const char *word = getenv(BOOT_VARIABLE);
    *ret = BOOT_SECONDS;
    if (!word || !*word)
        return 0;
    if (num_parse_uint(word, ret, err) < 0 || *ret < 1 || *ret > BOOT_SECONDS_MAX)
        return err_set(err, ERR_USAGE, BOOT_VARIABLE " is not a number of seconds from 1 to %u: %s",
                       BOOT_SECONDS_MAX, word);
    return 0;
}

static void write_arguments(struct sandbox *s)
{
    bool rules = s->request->policy->network_mode == NETWORK_ALLOWLIST;
    const uint64_t numbers[] = {
        s->machine.facts.memory, s->machine.facts.cpus,
        s->kernel.inside_uid,    rules ? GUEST_NETWORK_RULES : GUEST_NETWORK_NAMES,
        INIT_FD_TREES,           INIT_FD_TREES + 1,
        INIT_FD_TREES + 2,       INIT_FD_TREES + 3,
        s->machine.boot_seconds, s->request->tty};
    _Static_assert(KERNEL_HANDED == 4, "as many descriptors follow each other");
    _Static_assert(ARRAY_LEN(numbers) == ARRAY_LEN(s->machine.numbers), "one of each");
    s->machine.argv[0] = (char *)TOOL_PATH;
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
        snprintf(s->machine.numbers[i], sizeof s->machine.numbers[i], "%" PRIu64, numbers[i]);
        s->machine.argv[i + 1] = s->machine.numbers[i];
    }
    s->machine.argv[ARRAY_LEN(numbers) + 1] = NULL;
}

uint64_t machine_boot_ms(void)
{
    struct err err = ERR_INIT;
    uint64_t seconds;
    if (read_boot_seconds(&seconds, &err) < 0)
        seconds = BOOT_SECONDS; /* whoever starts one is told */
    return seconds * 1000 * (CLONE_SHARE + 1) / CLONE_SHARE;
}

static int find_monitor(struct sandbox *s, struct err *err)
{
    if (!s->request->engine)
        return program_beside("brig-vmm", s->machine.program, sizeof s->machine.program, err);
    snprintf(s->machine.program, sizeof s->machine.program, "%s", s->request->engine);
    return 0;
}

/* Another build of the monitor, or another file in its place, is another identity. It is taken
 * before the monitor is started: a file that is put there meanwhile is not taken for what ran. */
static int identify(const char *program, char ret[static MONITOR_SIZE], struct err *err)
{
    struct stat sb;
    if (stat(program, &sb) < 0)
        return err_sys(err, "look at %s", program);
    snprintf(ret, MONITOR_SIZE, "%jx:%jx %jd %jd.%09ld %jd.%09ld", (uintmax_t)sb.st_dev,
             (uintmax_t)sb.st_ino, (intmax_t)sb.st_size, (intmax_t)sb.st_mtim.tv_sec,
             sb.st_mtim.tv_nsec, (intmax_t)sb.st_ctim.tv_sec, sb.st_ctim.tv_nsec);
    return 0;
}

struct parked_facts machine_facts(const struct sandbox *s)
{
    struct parked_facts facts = {.machine = s->machine.facts, .uid = s->kernel.inside_uid};
    memcpy(facts.monitor, s->machine.monitor, sizeof facts.monitor);
    return facts;
}

static int choose_way(struct sandbox *s, struct err *err)
{
    struct parked_facts wanted = machine_facts(s);
    s->machine.way = s->park ? MACHINE_PARK : MACHINE_BOOT;
    if (!s->parked)
        return 0;
    if (guests_hash(&s->machine.guest, wanted.machine.kernel_hash, err) < 0)
        return err_number(err);
    if (!parked_fits(s->parked, &wanted, s->machine.why_not))
        return 0;
    s->machine.way = MACHINE_CLONE;
    s->machine.facts = s->parked->facts.machine;
    s->machine.facts.cloned = true;
    return 0;
}

int sandbox_machine_open(struct sandbox *s, struct err *err)
{
    const struct policy *p = s->request->policy;
    for (size_t i = 0; i < ARRAY_LEN(s->machine.fds); i++)
        s->machine.fds[i] = -1;
    if (!tier_row(s->kernel.tier)->machine)
        return 0;
    if (engine_check_request(s, err) < 0 || machine_check_policy(p, err) < 0 ||
        check_session(s, err) < 0 || read_boot_seconds(&s->machine.boot_seconds, err) < 0)
        return err_number(err);
    if (find_monitor(s, err) < 0 || identify(s->machine.program, s->machine.monitor, err) < 0 ||
        guests_choose(&s->machine.guest, err) < 0)
        return err_at(err, BOUNDARY_KERNEL);
    s->machine.on = true;
    s->machine.facts.memory = guest_memory(s);
    s->machine.facts.later = s->session;
    s->machine.facts.cpus = guest_cpus(p);
    snprintf(s->machine.facts.release, sizeof s->machine.facts.release, "%s",
             s->machine.guest.release);
    if (choose_way(s, err) < 0)
        return err_at(err, BOUNDARY_KERNEL);
    s->kernel.machine = &s->machine.facts;
    write_arguments(s);
    return 0;
}

static int open_files(struct sandbox *s, struct err *err)
{
    struct guest_files files;
    size_t len;
    const void *init = kernel_init_program(&len);
    int result = guests_open(&s->machine.guest, init, len, &files, err);
    s->machine.fds[HAND_KERNEL] = files.kernel;
    s->machine.fds[HAND_INITRAMFS] = files.initramfs;
    if (result < 0)
        return err_at(err, BOUNDARY_KERNEL);
    snprintf(s->machine.facts.kernel_hash, sizeof s->machine.facts.kernel_hash, "%s",
             files.kernel_hash);
    snprintf(s->machine.facts.initramfs_hash, sizeof s->machine.facts.initramfs_hash, "%s",
             files.initramfs_hash);
    return 0;
}

static int take_empty(struct sandbox *s, const struct parked *p, struct err *err)
{
    s->machine.fds[HAND_MEMORY] = fcntl(p->memory, F_DUPFD_CLOEXEC, 3);
    s->machine.fds[HAND_STATE] = fcntl(p->state, F_DUPFD_CLOEXEC, 3);
    if (s->machine.fds[HAND_MEMORY] < 0 || s->machine.fds[HAND_STATE] < 0)
        return err_sys(err, "take over the files of a parked machine");
    return 0;
}

int sandbox_machine_prepare(struct sandbox *s, struct err *err)
{
    enum machine_way way = s->machine.way;
    if (!s->machine.on)
        return 0;
    s->machine.fds[HAND_KVM] = open("/dev/kvm", O_RDWR | O_CLOEXEC);
    if (s->machine.fds[HAND_KVM] < 0)
        return err_sys(err, "open /dev/kvm");
    if ((way != MACHINE_CLONE && open_files(s, err) < 0) ||
        (way == MACHINE_CLONE && parked_read(s->parked, &s->machine.fds[HAND_MEMORY],
                                             &s->machine.fds[HAND_STATE], err) < 0) ||
        (way == MACHINE_PARK && (take_empty(s, s->park, err) < 0 ||
                                 parked_size(s->park, s->machine.facts.memory, err) < 0)))
        return err_number(err);
    s->machine.fds[HAND_PLAN] = memfd_empty("brig-guest-plan", false, err);
    return s->machine.fds[HAND_PLAN] < 0 ? err_number(err) : 0;
}

int machine_boot_instead(struct sandbox *s, struct err *err)
{
    sandbox_machine_done(s);
    s->machine.way = MACHINE_BOOT;
    s->machine.facts.cloned = false;
    return sandbox_machine_prepare(s, err) < 0 ? err_number(err) : sandbox_machine_write(s, err);
}

unsigned sandbox_machine_hand(struct sandbox *s, int *fds)
{
    int handed[HANDED_MOST];
    if (!s->machine.on || s->session)
        return 0;
    s->machine.facts.first_tree = s->filesystem.tree_count;
    unsigned count = gather(s, handed);
    memcpy(fds, handed, count * sizeof *fds);
    return count;
}

int sandbox_machine_write(struct sandbox *s, struct err *err)
{
    struct plan plan;
    if (!s->machine.on)
        return 0;
    plan_init(&plan);
    network_plan_guest(&s->network, &plan);
    lifecycle_plan_guest(s->request->policy, &plan);
    plan_op(&plan, OP_NO_NEW_PRIVS);
    filesystem_plan_guest(&s->filesystem, &plan);
    int result = kernel_plan_guest(&plan, err);
    /* A session's programs bring their own variables. */
    if (result >= 0 && !s->session)
        result = credentials_plan(&s->credentials, STAGE_CODE, &plan, err);
    for (char *const *arg = s->session ? NULL : s->request->argv; arg && *arg; arg++)
        plan_arg(&plan, *arg);
    if (result >= 0 && (result = plan_finish(&plan, err)) >= 0)
        result = memfd_fill(s->machine.fds[HAND_PLAN], plan.bytes.data, plan.bytes.len, err);
    plan_done(&plan);
    return result;
}

void sandbox_machine_done(struct sandbox *s)
{
    for (size_t i = 0; i < ARRAY_LEN(s->machine.fds); i++)
        if (s->machine.on && s->machine.fds[i] >= 0)
            close(fd_steal(&s->machine.fds[i]));
}

static uint64_t patience(const struct sandbox *s)
{
    uint64_t seconds = s->machine.boot_seconds;
    return s->machine.way == MACHINE_CLONE ? (seconds + CLONE_SHARE - 1) / CLONE_SHARE : seconds;
}

/* As engines/vm/main.c reads them. Rules may come later: the monitor can carry what they allow, and
 * until then meets sockets that do not listen. */
void machine_plan_boot(const struct sandbox *s, struct plan *plan)
{
    plan_arg(plan, TOOL_PATH);
    plan_arg(plan, ways[s->machine.way].word);
    plan_arg_number(plan, s->machine.facts.memory);
    plan_arg_number(plan, s->machine.facts.cpus);
    plan_arg_number(plan, s->kernel.inside_uid);
    plan_arg_number(plan, GUEST_NETWORK_RULES);
    plan_arg_number(plan, patience(s));
}

int machine_hand_over(struct sandbox *s, int *theirs, struct err *err)
{
    char byte = 0;
    const struct iovec part = {&byte, 1};
    int handed[HANDED_MOST], pair[2];
    unsigned count = gather(s, handed);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return err_sys(err, "make a socket to the monitor");
    *theirs = pair[1];
    ssize_t n = rights_send(pair[0], &part, 1, handed, count, MSG_DONTWAIT);
    close(pair[0]);
    sandbox_machine_done(s);
    errno = n < 0 ? (int)-n : 0;
    return n < 0 ? err_sys(err, "hand the monitor what it needs") : 0;
}

/* As engines/vm/join.c reads them. */
void machine_plan_join(const struct sandbox *s, const struct sentry_program *program,
                       struct plan *plan)
{
    (void)s;
    plan_arg(plan, TOOL_PATH);
    plan_arg(plan, "join");
    plan_arg(plan, program->name);
    plan_arg_number(plan, program->count);
    sentry_plan_size(program, plan);
    plan_arg(plan, program->folder);
    plan_arg(plan, "--");
}

void machine_plan_connect(const struct sandbox *s, const char *name, int port, struct plan *plan)
{
    (void)s;
    plan_arg(plan, TOOL_PATH);
    plan_arg(plan, "join");
    plan_arg(plan, name);
    plan_arg(plan, "port");
    plan_arg_number(plan, (uint64_t)port);
}
