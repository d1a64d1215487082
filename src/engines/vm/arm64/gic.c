/* The words of a GICv3, as KVM lets them be read and written: the distributor's, which all
 * processors share, then those of each processor's redistributor and interface.
 *
 * They are named by the table below alone, in the order in which they are written: how an interrupt
 * is set up comes before whether it is pending. */
#include "engines/vm/arm64/gic.h"

#include <linux/kvm.h>
#include <sys/ioctl.h>

#define TAG_GIC   STATE_TAG('G', 'I', 'C', '3')
#define WORDS_MAX (96u + 40u * MACHINE_CPUS_MAX)
#define OWN_FRAME 0x10000u /* of a redistributor: a processor's own interrupts */
#define INTERFACE(op0, op1, crn, crm, op2)                                                         \
    (__ARM64_SYS_REG(op0, op1, crn, crm, op2) & KVM_DEV_ARM_VGIC_SYSREG_INSTR_MASK)
#define INTERFACE_CONTROL INTERFACE(3, 0, 12, 12, 4) /* ICC_CTLR_EL1 */

struct words {
    unsigned count;
    struct {
        uint32_t group;
        uint64_t attribute;
    } at[WORDS_MAX];
};

/* Registers that have some bits for each interrupt: the same offsets in the distributor and in a
 * redistributor's second frame. */
static const struct {
    uint32_t offset, bits;
} each_interrupt[] = {
    {0x080, 1}, /* IGROUPR */
    {0x100, 1}, /* ISENABLER */
    {0xc00, 2}, /* ICFGR */
    {0x400, 8}, /* IPRIORITYR */
    {0x200, 1}, /* ISPENDR */
    {0x300, 1}, /* ISACTIVER */
};
#define DISABLE   0x180u  /* ICENABLER */
#define CONTROL   0x000u  /* GICD_CTLR */
#define ROUTES    0x6000u /* GICD_IROUTER, of 64 bits for each interrupt */
#define OWN_COUNT 32u

static void add(struct words *words, uint32_t group, uint64_t attribute)
{
    words->at[words->count].group = group;
    words->at[words->count++].attribute = attribute;
}

static void add_interrupts(struct words *words, uint32_t group, uint64_t base, uint32_t first,
                           uint32_t count)
{
    for (size_t i = 0; i < sizeof each_interrupt / sizeof *each_interrupt; i++) {
        uint32_t bits = each_interrupt[i].bits;
        for (uint32_t at = first * bits / 8; at < (first + count) * bits / 8; at += 4)
            add(words, group, base + each_interrupt[i].offset + at);
    }
}

/* Which of these lines is raised at the moment, 32 of them. */
static void add_levels(struct words *words, uint64_t cpu, uint32_t first)
{
    add(words, KVM_DEV_ARM_VGIC_GRP_LEVEL_INFO,
        cpu | VGIC_LEVEL_INFO_LINE_LEVEL << KVM_DEV_ARM_VGIC_LINE_LEVEL_INFO_SHIFT | first);
}

static void add_distributor(struct words *words)
{
    add(words, KVM_DEV_ARM_VGIC_GRP_DIST_REGS, CONTROL);
    for (uint32_t i = OWN_COUNT; i < GIC_INTERRUPTS; i++) {
        add(words, KVM_DEV_ARM_VGIC_GRP_DIST_REGS, ROUTES + 8 * i);
        add(words, KVM_DEV_ARM_VGIC_GRP_DIST_REGS, ROUTES + 8 * i + 4);
    }
    add_interrupts(words, KVM_DEV_ARM_VGIC_GRP_DIST_REGS, 0, OWN_COUNT, GIC_INTERRUPTS - OWN_COUNT);
    add_levels(words, 0, OWN_COUNT);
}

/* How many words of active priorities each group has, by the number of bits of a priority. */
static unsigned active_words(uint64_t control)
{
    unsigned bits = (unsigned)(control >> 8 & 7) + 1;
    return bits <= 5 ? 1 : 1u << (bits - 5);
}

static void add_cpu(struct words *words, uint64_t cpu, unsigned active)
{
    static const uint64_t interface[] = {
        INTERFACE(3, 0, 12, 12, 5),                           /* ICC_SRE_EL1, before all others */
        INTERFACE_CONTROL,          INTERFACE(3, 0, 4, 6, 0), /* ICC_PMR_EL1 */
        INTERFACE(3, 0, 12, 8, 3),                            /* ICC_BPR0_EL1 */
        INTERFACE(3, 0, 12, 12, 3),                           /* ICC_BPR1_EL1 */
        INTERFACE(3, 0, 12, 12, 6),                           /* ICC_IGRPEN0_EL1 */
        INTERFACE(3, 0, 12, 12, 7),                           /* ICC_IGRPEN1_EL1 */
    };
    add_interrupts(words, KVM_DEV_ARM_VGIC_GRP_REDIST_REGS, cpu | OWN_FRAME, 0, OWN_COUNT);
    add_levels(words, cpu, 0);
    for (size_t i = 0; i < sizeof interface / sizeof *interface; i++)
        add(words, KVM_DEV_ARM_VGIC_GRP_CPU_SYSREGS, cpu | interface[i]);
    for (unsigned i = 0; i < active; i++) {
        add(words, KVM_DEV_ARM_VGIC_GRP_CPU_SYSREGS, cpu | INTERFACE(3, 0, 12, 8, 4 | i));
        add(words, KVM_DEV_ARM_VGIC_GRP_CPU_SYSREGS, cpu | INTERFACE(3, 0, 12, 9, i));
    }
}

/* KVM reads and writes 32 bits or 64, by the group. */
static int get(const struct machine *m, uint32_t group, uint64_t attribute, uint64_t *value,
               struct err *err)
{
    struct kvm_device_attr attr = {
        .group = group, .attr = attribute, .addr = (uint64_t)(uintptr_t)value};
    *value = 0;
    if (ioctl(m->interrupts, KVM_GET_DEVICE_ATTR, &attr) < 0)
        return err_sys(err, "read word %u.%llx of the interrupt controller", group,
                       (unsigned long long)attribute);
    return 0;
}

static int set(const struct machine *m, uint32_t group, uint64_t attribute, uint64_t value,
               struct err *err)
{
    struct kvm_device_attr attr = {
        .group = group, .attr = attribute, .addr = (uint64_t)(uintptr_t)&value};
    if (ioctl(m->interrupts, KVM_SET_DEVICE_ATTR, &attr) < 0)
        return err_sys(err, "set word %u.%llx of the interrupt controller", group,
                       (unsigned long long)attribute);
    return 0;
}

/* A processor's number, as KVM wants it: the lowest part of its address (MPIDR). */
static uint64_t affinity(unsigned cpu)
{
    return (uint64_t)cpu << KVM_DEV_ARM_VGIC_V3_MPIDR_SHIFT;
}

static int list(const struct machine *m, struct words *words, struct err *err)
{
    uint64_t control;
    if (get(m, KVM_DEV_ARM_VGIC_GRP_CPU_SYSREGS, INTERFACE_CONTROL, &control, err) < 0)
        return err_number(err);
    words->count = 0;
    add_distributor(words);
    for (unsigned i = 0; i < m->cpu_count; i++)
        add_cpu(words, affinity(i), active_words(control));
    return 0;
}

int gic_save(const struct machine *m, struct state_writer *w, struct err *err)
{
    struct words words;
    uint64_t values[WORDS_MAX];
    if (list(m, &words, err) < 0)
        return err_number(err);
    for (unsigned i = 0; i < words.count; i++)
        if (get(m, words.at[i].group, words.at[i].attribute, &values[i], err) < 0)
            return err_number(err);
    state_put(w, TAG_GIC, values, words.count * sizeof *values);
    return 0;
}

/* A new machine's processors can interrupt each other from the start; what was saved says only who
 * can, not who cannot. */
static int disable_all(const struct machine *m, struct err *err)
{
    for (unsigned i = 0; i < m->cpu_count; i++)
        if (set(m, KVM_DEV_ARM_VGIC_GRP_REDIST_REGS, affinity(i) | OWN_FRAME | DISABLE, UINT32_MAX,
                err) < 0)
            return err_number(err);
    return 0;
}

int gic_restore(const struct machine *m, struct state_reader *from, struct err *err)
{
    struct words words;
    uint64_t values[WORDS_MAX];
    if (list(m, &words, err) < 0 || disable_all(m, err) < 0)
        return err_number(err);
    if (!state_get(from, TAG_GIC, values, words.count * sizeof *values))
        return err_set(err, ERR_PROTOCOL, "the state of the interrupt controller is malformed");
    for (unsigned i = 0; i < words.count; i++)
        if (set(m, words.at[i].group, words.at[i].attribute, values[i], err) < 0)
            return err_number(err);
    return 0;
}
