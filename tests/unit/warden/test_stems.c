/* The launcher's list of stems, with machines whose wardens do as a test says: what is chosen, kept
 * and given up, and when the next one is started. */
#include "warden/stems.h"

#include "warden/stem.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static enum { PARKS, LEAVES_IT_OPEN, SAYS_HALF, ENDS, COMPLAINS, LASTS } warden;
static struct stems stems;
static struct template machine = {.name = "machine", .policy = {.tier = TIER_VM}};
static uint64_t now = 1000;
static char said[2000];
static unsigned started;

static uint64_t clock_ms(void)
{
    return now;
}

static void hear(void *ctx, const char *text)
{
    (void)ctx;
    strncat(said, text, sizeof said - strlen(said) - 2);
    strcat(said, "\n");
}

/* In a child, in the place of a stem's warden. */
static void become(void *ctx, int sock, int door, const struct template *t, uid_t lease,
                   const struct parked *park)
{
    struct parked_facts facts = {.machine = {.memory = 4096, .cpus = 1}, .uid = 1000};
    struct err err = ERR_INIT;
    char byte;
    (void)ctx, (void)t, (void)lease;
    for (int fd = 3; fd < 256; fd++) /* the parent's ends */
        if (fd != sock && fd != door && fd != park->memory && fd != park->state)
            close(fd);
    if (warden == LASTS)
        while (read(sock, &byte, 1) > 0)
            ;
    if (warden == COMPLAINS)
        dprintf(sock, "no kernel");
    if (warden >= ENDS)
        _exit(1);
    if (parked_size(park, 4096, &err) < 0 || pwrite(park->memory, "parked", 6, 0) != 6 ||
        (warden != LEAVES_IT_OPEN && parked_seal(park, &err) < 0))
        _exit(2);
    send(door, &facts, sizeof facts - (warden == SAYS_HALF), 0);
    _exit(0);
}

static void begin(void)
{
    struct loop *loop;
    cr_assert_eq(loop_new(&loop, NULL), 0);
    loop_set_clock(loop, clock_ms);
    stems_init(&stems, loop);
    stems.say = hear;
    stems.become = become;
}

static void end(void)
{
    stems_done(&stems);
    loop_free(stems.loop);
}

TestSuite(stems, .init = begin, .fini = end, .timeout = 120);

/* The end of all wardens that end by themselves. The loop has not heard of anything then: what is
 * said last must not be lost. */
static void wait_for_wardens(void)
{
    int status;
    pid_t pid;
    while (stems.count > 0 && (pid = waitpid(-1, &status, 0)) > 0)
        stems_child(&stems, pid, status);
}

static struct loop_timer stop;
static void on_stop(struct loop_timer *t)
{
    (void)t;
    loop_stop(stems.loop);
}

/* One round, so much later: what was said is heard. */
static void pass(uint64_t ms)
{
    stop.fn = on_stop;
    loop_timer_set(stems.loop, &stop, 1);
    now += ms;
    loop_run(stems.loop);
}

static struct stem *take(struct stem_source *from)
{
    unsigned before = stems.count;
    struct stem *got = stems_take(&stems, &machine, true, from);
    started += stems.count > before;
    return got;
}

static void park_one(void)
{
    struct stem_source from;
    cr_assert_null(take(&from), "it is not parked yet");
    cr_assert_eq(stems.count, 1);
    wait_for_wardens();
    cr_assert_eq(stems.count, 1, "it stays without its warden: %s", said);
}

Test(stems, a_parked_machine_is_two_sealed_files)
{
    struct stem_source from;
    char text[6];
    park_one();
    struct stem *m = take(&from);
    cr_assert(m && from.machine);
    cr_assert(parked_sealed(&from.parked));
    cr_assert_eq(from.parked.facts.machine.memory, 4096);
    cr_assert_eq(pread(from.parked.memory, text, 6, 0), 6);
    cr_assert_eq(memcmp(text, "parked", 6), 0);
    cr_assert_lt(pwrite(from.parked.memory, "x", 1, 0), 0);
    cr_assert_lt(ftruncate(from.parked.memory, 0), 0);
    cr_assert_eq(mmap(NULL, 4096, PROT_WRITE, MAP_SHARED, from.parked.memory, 0), MAP_FAILED);
    void *own = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, from.parked.memory, 0);
    cr_assert_neq(own, MAP_FAILED, "control: as a copy of one's own");
    munmap(own, 4096);
    cr_assert_eq(take(&from), m);
    cr_assert_eq(started, 1);
    cr_assert_eq(said[0], '\0', "%s", said);
    stems_drop(&stems, m);
    stems_drop(&stems, m);
    cr_assert_eq(stems.count, 1);
}

static void refused_then_backs_off(const char *why)
{
    struct stem_source from;
    cr_assert_null(take(&from));
    wait_for_wardens();
    cr_assert_eq(stems.count, 0);
    cr_assert(strstr(said, why), "%s", said);
    cr_assert_null(take(&from));
    cr_assert_eq(stems.count, 0, "not at once");
    pass(2000);
    warden = PARKS;
    cr_assert_null(take(&from));
    wait_for_wardens();
    cr_assert_not_null(take(&from), "%s", said);
}

Test(stems, what_can_still_be_changed_is_not_used)
{
    warden = LEAVES_IT_OPEN;
    refused_then_backs_off("can still be changed");
}

Test(stems, half_a_word_is_none)
{
    warden = SAYS_HALF;
    refused_then_backs_off("it is not used");
}

Test(stems, a_warden_that_ends_without_a_word)
{
    warden = ENDS;
    refused_then_backs_off("its parked machine could not be kept");
}

Test(stems, a_warden_that_complains)
{
    warden = COMPLAINS;
    refused_then_backs_off("template machine: no kernel");
}

Test(stems, a_failure_is_waited_for_longer_each_time)
{
    struct stem_source from;
    uint64_t last = 0;
    warden = ENDS;
    for (int i = 0; i < 5; i++) {
        uint64_t since = now;
        while (take(&from) == NULL && stems.count == 0)
            pass(50);
        uint64_t waited = now - since;
        wait_for_wardens();
        cr_assert_eq(stems.count, 0);
        cr_assert(i < 2 || waited > last, "%lu after %lu", (unsigned long)waited,
                  (unsigned long)last);
        last = waited;
    }
}

Test(stems, who_could_not_clone_it_is_believed)
{
    struct stem_source from;
    park_one();
    struct stem *m = take(&from);
    cr_assert_eq(dprintf(from.door, "another kernel is to be booted now") > 0, true);
    pass(2);
    cr_assert(strstr(said, "given up: another kernel is to be booted now"), "%s", said);
    cr_assert_lt(fcntl(from.parked.memory, F_GETFD), 0, "its files are closed");
    cr_assert_eq(stems.count, 1, "somebody was made from it");
    stems_drop(&stems, m);
    cr_assert_eq(stems.count, 0);
    pass(2000);
    park_one();
    cr_assert_not_null(take(&from));
}

/* A machine is parked well each time, and none of them can be cloned. */
Test(stems, clones_that_fail_are_waited_for_longer_each_time)
{
    struct stem_source from;
    uint64_t last = 0, since = now;
    for (int i = 0; i < 6; i++) {
        for (since = now; take(&from) == NULL && stems.count == 0;)
            pass(50);
        cr_assert(i < 2 || now - since > last, "%lu after %lu", (unsigned long)(now - since),
                  (unsigned long)last);
        last = now - since;
        wait_for_wardens();
        struct stem *m = take(&from);
        cr_assert_not_null(m, "control: it is parked: %s", said);
        if (i == 4) /* of use for longer than the longest pause: what was before is forgotten */
            pass(STEMS_AGE_MS / 2);
        if (i == 4)
            last = 0;
        cr_assert_gt(dprintf(from.door, "it did not come up"), 0);
        pass(2);
        stems_drop(&stems, m);
        cr_assert_eq(stems.count, 0);
    }
    for (since = now; take(&from) == NULL && stems.count == 0;)
        pass(50);
    cr_assert_leq(now - since, 2600, "%lu", (unsigned long)(now - since));
}

/* Each has clones that live on. */
Test(stems, so_many_are_kept_in_memory_and_no_more)
{
    struct stem_source from;
    struct stem *kept[STEMS_KEPT_MAX];
    for (unsigned i = 0; i < STEMS_KEPT_MAX; i++) {
        cr_assert_null(take(&from));
        wait_for_wardens();
        kept[i] = take(&from);
        cr_assert_not_null(kept[i], "%s", said);
        stems_retire(&stems, "machine");
    }
    cr_assert_null(take(&from));
    cr_assert_eq(stems.count, STEMS_KEPT_MAX, "no other one is parked");
    cr_assert(strstr(said, "too many are kept"), "%s", said);
    stems_drop(&stems, kept[0]);
    pass(10 * 60 * 1000);
    cr_assert_null(take(&from));
    cr_assert_eq(stems.count, STEMS_KEPT_MAX, "control: one has gone, another one comes");
    for (unsigned i = 1; i < STEMS_KEPT_MAX; i++)
        stems_drop(&stems, kept[i]);
    wait_for_wardens();
}

/* VM-33 */
Test(stems, clones_share_no_open_file)
{
    struct stem_source from;
    struct err err = ERR_INIT;
    int memory = -1, state = -1, other, second;
    park_one();
    cr_assert_not_null(take(&from));
    cr_assert_eq(parked_read(&from.parked, &memory, &state, &err), 0, "%s", err.message);
    cr_assert_eq(parked_read(&from.parked, &other, &second, &err), 0, "%s", err.message);
    cr_expect_eq(fcntl(memory, F_GETFL) & O_ACCMODE, O_RDONLY);
    cr_expect_eq(fcntl(state, F_GETFL) & O_ACCMODE, O_RDONLY);
    cr_assert_eq(lseek(memory, 77, SEEK_SET), 77);
    cr_expect_eq(lseek(other, 0, SEEK_CUR), 0);
    int shared = dup(memory);
    cr_expect_eq(lseek(shared, 0, SEEK_CUR), 77, "control: one that was handed on");
    char text[6];
    cr_expect_eq(pread(other, text, 6, 0), 6);
    cr_expect_eq(memcmp(text, "parked", 6), 0);
    const struct parked none = PARKED_NONE;
    cr_expect_lt(parked_read(&none, &memory, &state, &err), 0);
}

Test(stems, an_old_one_is_used_until_there_is_another)
{
    struct stem_source from;
    park_one();
    struct stem *old = take(&from);
    stems_drop(&stems, old);
    pass(STEMS_AGE_MS);
    cr_assert_eq(take(&from), old);
    stems_drop(&stems, old);
    cr_assert_eq(started, 2);
    wait_for_wardens();
    struct stem *young = take(&from);
    cr_assert(young && young != old);
    cr_assert_eq(stems.count, 1);
}

Test(stems, so_many_clones_and_no_more)
{
    struct stem_source from;
    park_one();
    struct stem *old = NULL;
    for (unsigned i = 0; i < STEMS_CLONES_MAX; i++) {
        cr_assert_not_null(old = take(&from));
        stems_drop(&stems, old);
    }
    cr_assert_eq(started, 1);
    take(&from);
    cr_assert_eq(started, 2);
}

Test(stems, one_that_is_not_parked_in_time_is_given_up)
{
    struct stem_source from;
    warden = LASTS;
    cr_assert_null(take(&from));
    pass(60 * 60 * 1000);
    warden = PARKS;
    cr_assert_null(take(&from));
    cr_assert_eq(stems.count, 1);
    wait_for_wardens(); /* its end of the socket was closed */
    cr_assert_eq(stems.count, 0, "%s", said);
}

Test(stems, none_is_wanted_any_more)
{
    struct stem_source from;
    park_one();
    stems_retire(&stems, "machine");
    cr_assert_eq(stems.count, 0);
    stems_close(&stems);
    cr_assert_null(take(&from));
    cr_assert_eq(stems.count, 0, "no new ones at the end");
}

static bool fits(struct parked_facts wanted)
{
    const struct parked have = {.facts = {.machine = {.kernel_hash = "a", .memory = 2, .cpus = 1},
                                          .monitor = "m",
                                          .uid = 1000}};
    char why[128];
    bool yes = parked_fits(&have, &wanted, why);
    cr_assert_eq(yes, !why[0]);
    return yes;
}

Test(stems, a_clone_has_everything_in_common_with_what_was_parked)
{
    const struct parked_facts same = {
        .machine = {.kernel_hash = "a", .memory = 2, .cpus = 1}, .monitor = "m", .uid = 1000};
    struct parked_facts other = same;
    cr_assert(fits(same), "control");
    strcpy(other.machine.kernel_hash, "b");
    cr_assert_not(fits(other));
    other = same;
    strcpy(other.monitor, "n");
    cr_assert_not(fits(other));
    other = same;
    other.machine.memory++;
    cr_assert_not(fits(other));
    other = same;
    other.machine.cpus++;
    cr_assert_not(fits(other));
    other = same;
    other.uid++;
    cr_assert_not(fits(other));
}

static bool parks(enum tier tier, enum level level, enum tier wish)
{
    struct template t = {.policy = {.tier = tier, .level = level, .root = "host"}};
    if (wish != TIER_AUTO)
        t.policy.wish.tiers[t.policy.wish.count++] = TIER_VM;
    if (wish != TIER_AUTO)
        t.policy.wish.tiers[t.policy.wish.count++] = wish;
    return stem_parks(&t);
}

Test(stems, whose_machines_are_parked)
{
    cr_assert(parks(TIER_VM, LEVEL_HIGH, TIER_AUTO));
    cr_assert(parks(TIER_AUTO, LEVEL_CRITICAL, TIER_AUTO));
    cr_assert_not(parks(TIER_AUTO, LEVEL_HIGH, TIER_AUTO));
    cr_assert_not(parks(TIER_CONTAINER, LEVEL_CRITICAL, TIER_AUTO));
    cr_assert_not(parks(TIER_VM, LEVEL_CRITICAL, TIER_CONTAINER), "it may end on another tier");
}
