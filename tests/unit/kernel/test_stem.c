/* What the plan of a template process has and lacks, and whom it maps. */
#include "kernel/kernel.h"

#include "base/cleanup.h"

#include <criterion/criterion.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>

#define BOTH_IDS (1u << CAP_SETUID | 1u << CAP_SETGID)

static void text_of(struct kernel *k, struct buf *out)
{
    struct plan plan;
    plan_init(&plan);
    buf_init(out, 1u << 20);
    for (int stage = 0; stage < STAGE_COUNT; stage++)
        cr_assert_eq(kernel_plan(k, (enum plan_stage)stage, &plan, NULL), 0);
    cr_assert_eq(plan_finish(&plan, NULL), 0);
    cr_assert_eq(plan_text(plan.bytes.data, plan.bytes.len, out, NULL), 0);
    plan_done(&plan);
}

static void make(struct kernel *k, bool stem, uid_t lease)
{
    static struct policy p;
    struct kernel_request r = {.policy = &p, .stem = stem, .lease = lease};
    policy_done(&p);
    cr_assert_eq(policy_init(&p, LEVEL_HIGH), 0);
    kernel_init(k);
    cr_assert_eq(kernel_open(k, &r, NULL), 0);
}

Test(stem, is_not_sealed_and_keeps_what_it_needs_and_no_more)
{
    struct kernel k;
    cleanup_buf struct buf text;
    make(&k, true, 0);
    text_of(&k, &text);
    cr_assert_null(strstr(buf_text(&text), "seccomp"));
    cr_assert_null(strstr(buf_text(&text), "quotas"), "its clones need user namespaces");
    cr_assert(strstr(buf_text(&text), "no-new-privs"));
    cr_assert(strstr(buf_text(&text), "drop-caps"));
    cr_assert_eq(k.keep_caps, k.privileged ? BOTH_IDS : 0u);
}

Test(stem, every_other_sandbox_is)
{
    struct kernel k;
    cleanup_buf struct buf text;
    make(&k, false, 0);
    text_of(&k, &text);
    cr_assert(strstr(buf_text(&text), "seccomp") && strstr(buf_text(&text), "quotas"));
    cr_assert(strstr(buf_text(&text), "drop-caps\n"));
    cr_assert_eq(k.keep_caps, 0u);
}

Test(stem, roots_has_its_block_and_a_clone_one_of_it)
{
    struct kernel stem, clone;
    char text[KERNEL_MAP_SIZE];
    uid_t lease = kernel_lease();
    cr_assert_eq(lease % KERNEL_LEASE_SIZE, 0u);
    cr_assert(lease >= 0x70000000u && lease + KERNEL_LEASE_SIZE - 1 <= 0x77ffffffu);
    make(&stem, true, lease);
    make(&clone, false, lease);
    if (stem.privileged) {
        cr_assert(clone.host_uid >= lease && clone.host_uid < lease + KERNEL_LEASE_SIZE);
        cr_assert_not(clone.host_uid & KERNEL_UID_PROXY);
    }
    stem.privileged = clone.privileged = true;
    stem.host_uid = lease + 5;
    kernel_map_text(&stem, stem.host_uid, 0, text);
    char want[KERNEL_MAP_SIZE];
    snprintf(want, sizeof want, "%u %u 4194304", lease, lease);
    cr_assert_str_eq(text, want);
    kernel_map_text(&clone, lease + 7, 0, text);
    snprintf(want, sizeof want, "1000 %u 1", lease + 7);
    cr_assert_str_eq(text, want);
    stem.privileged = false;
    stem.inside_uid = 1000;
    kernel_map_text(&stem, 501, 0, text);
    cr_assert_str_eq(text, "1000 501 1");
}
