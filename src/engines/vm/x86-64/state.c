/* x86-64: what is kept of a machine's processors and interrupt controllers when it is parked, and
 * how it is put into another one.
 *
 * VM-21 holds for a clone as for a guest that was booted: descriptions, filters and what is closed
 * are of the machine that it is put into, which was made as any other; registers that lead to what
 * is closed are neither kept nor taken. */
#include "engines/vm/machine.h"

#include "base/cleanup.h"
#include "engines/vm/x86-64/msrs.h"

#include <errno.h>
#include <linux/kvm.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>

#define TAG_PROCESSOR STATE_TAG('p', 'r', 'o', 'c')
#define TAG_MSRS      STATE_TAG('m', 's', 'r', 's')
#define TAG_PLATFORM  STATE_TAG('p', 'l', 'a', 't')

#define CHIPS            3u
#define MSRS_MAX         512u
#define MSR_TSC          0x10u
#define MSR_TSC_DEADLINE 0x6e0u
#define FAR_AWAY         (1ull << 62)
#define TASK_BUSY        2u
#define EFER_KNOWN       0x20cd01ull /* system calls, 64-bit mode, no execution, small extras */
#define CR4_VMX          (1ull << 13)
#define EVENTS_KNOWN                                                                               \
    (KVM_VCPUEVENT_VALID_NMI_PENDING | KVM_VCPUEVENT_VALID_SIPI_VECTOR | KVM_VCPUEVENT_VALID_SHADOW)

struct processor_state {
    struct kvm_mp_state mp;
    struct kvm_regs regs;
    struct kvm_sregs sregs;
    uint32_t xsave[1024]; /* struct kvm_xsave, which has no size of its own */
    struct kvm_xcrs xcrs;
    struct kvm_debugregs debug;
    struct kvm_lapic_state lapic;
    struct kvm_vcpu_events events;
};
struct platform_state {
    struct kvm_irqchip chips[CHIPS];
    uint64_t clock;
};
struct msr {
    uint32_t index, zero;
    uint64_t value;
};
struct one_msr { /* struct kvm_msrs with one entry */
    uint32_t count, padding;
    struct kvm_msr_entry entry;
};
struct msr_list { /* struct kvm_msr_list with room */
    uint32_t count;
    uint32_t indices[MSRS_MAX];
};
_Static_assert(sizeof(struct kvm_xsave) == sizeof(uint32_t[1024]), "no more than was of old");
_Static_assert(offsetof(struct one_msr, entry) == sizeof(struct kvm_msrs) &&
                   offsetof(struct msr_list, indices) == sizeof(struct kvm_msr_list),
               "the entries follow what KVM reads first");

const uint32_t arch_save_calls[] = {
    KVM_GET_MP_STATE,       KVM_GET_REGS,      KVM_GET_SREGS, KVM_GET_XSAVE,
    KVM_GET_XCRS,           KVM_GET_DEBUGREGS, KVM_GET_LAPIC, KVM_GET_VCPU_EVENTS,
    KVM_GET_MSR_INDEX_LIST, KVM_GET_MSRS,      KVM_GET_CLOCK, KVM_GET_IRQCHIP,
};
const unsigned arch_save_call_count = ARRAY_LEN(arch_save_calls);

static struct processor_state processor; /* one after the other */
static struct platform_state platform;
static struct msr_list list;
static struct msr msrs[MSRS_MAX];

/* One call for each piece, in the order in which they are put back. */
struct piece {
    unsigned long get, set;
    const char *what;
    void *data;
};
static const struct piece pieces[] = {
    {KVM_GET_MP_STATE, KVM_SET_MP_STATE, "whether it runs", &processor.mp},
    {KVM_GET_REGS, KVM_SET_REGS, "registers", &processor.regs},
    {KVM_GET_SREGS, KVM_SET_SREGS, "system registers", &processor.sregs},
    {KVM_GET_XSAVE, KVM_SET_XSAVE, "wide registers", processor.xsave},
    {KVM_GET_XCRS, KVM_SET_XCRS, "the use of wide registers", &processor.xcrs},
    {KVM_GET_DEBUGREGS, KVM_SET_DEBUGREGS, "debug registers", &processor.debug},
    {KVM_GET_LAPIC, KVM_SET_LAPIC, "interrupt controller", &processor.lapic},
};

static int list_msrs(const struct machine *m, struct err *err)
{
    list.count = MSRS_MAX;
    return ioctl(m->kvm, KVM_GET_MSR_INDEX_LIST, &list) < 0
               ? err_sys(err, "ask for the numbers of registers")
               : 0;
}

static bool get_msr(int cpu, uint32_t index, uint64_t *value)
{
    struct one_msr one = {.count = 1, .entry = {.index = index}};
    bool there = ioctl(cpu, KVM_GET_MSRS, &one) == 1;
    *value = one.entry.data;
    return there;
}

/* ---- parking ---- */

static void save_msrs(int cpu, struct state_writer *w)
{
    size_t n = 0;
    uint64_t value;
    for (uint32_t i = 0; i < list.count; i++)
        if (msr_kept(list.indices[i]) && get_msr(cpu, list.indices[i], &value))
            msrs[n++] = (struct msr){.index = list.indices[i], .value = value};
    state_put(w, TAG_MSRS, msrs, n * sizeof *msrs);
}

static int save_processor(const struct machine *m, unsigned i, struct state_writer *w,
                          struct err *err)
{
    int cpu = m->cpus[i];
    memset(&processor, 0, sizeof processor);
    for (size_t k = 0; k < ARRAY_LEN(pieces); k++)
        if (ioctl(cpu, pieces[k].get, pieces[k].data) < 0)
            return err_sys(err, "read of processor %u: %s", i, pieces[k].what);
    if (ioctl(cpu, KVM_GET_VCPU_EVENTS, &processor.events) < 0)
        return err_sys(err, "read of processor %u: what it waits for", i);
    /* The events say it as well. */
    memset(processor.sregs.interrupt_bitmap, 0, sizeof processor.sregs.interrupt_bitmap);
    processor.events.flags &= EVENTS_KNOWN;
    state_put(w, TAG_PROCESSOR, &processor, sizeof processor);
    save_msrs(cpu, w);
    return 0;
}

int arch_save(struct machine *m, struct state_writer *w, struct err *err)
{
    struct kvm_clock_data clock = {0};
    if (list_msrs(m, err) < 0)
        return err_number(err);
    for (unsigned i = 0; i < CHIPS; i++) {
        platform.chips[i] = (struct kvm_irqchip){.chip_id = i};
        if (ioctl(m->vm, KVM_GET_IRQCHIP, &platform.chips[i]) < 0)
            return err_sys(err, "read the interrupt controllers");
    }
    if (ioctl(m->vm, KVM_GET_CLOCK, &clock) < 0)
        return err_sys(err, "read the guest's clock");
    platform.clock = clock.clock;
    state_put(w, TAG_PLATFORM, &platform, sizeof platform);
    for (unsigned i = 0; i < m->cpu_count; i++)
        if (save_processor(m, i, w, err) < 0)
            return err_number(err);
    return 0;
}

/* ---- cloning ---- */

static int malformed(struct err *err)
{
    return err_set(err, ERR_PROTOCOL, "the state of the machine is malformed");
}

static bool set_msr(int cpu, uint32_t index, uint64_t value)
{
    struct one_msr one = {.count = 1, .entry = {.index = index, .data = value}};
    return ioctl(cpu, KVM_SET_MSRS, &one) == 1;
}

/* One that cannot be set has its value, or the clone is not made. */
static int restore_msr(int cpu, const struct msr *r, struct err *err)
{
    uint64_t now;
    if (set_msr(cpu, r->index, r->value) || (get_msr(cpu, r->index, &now) && now == r->value))
        return 0;
    return err_set(err, ERR_UNSUPPORTED, "register %#x of the guest's cannot be set", r->index);
}

static bool is_listed(uint32_t index)
{
    for (uint32_t i = 0; i < list.count; i++)
        if (list.indices[i] == index)
            return true;
    return false;
}

/* The time that a machine's first processor is given counts from a moment that KVM chooses if it is
 * near to one that was given before, and a new machine's is zero. So it is given one that is far
 * away first. That of the others is near to it, and so becomes the same. */
static int restore_time(int cpu, unsigned number, const struct msr *r, struct err *err)
{
    if (number == 0 && !set_msr(cpu, MSR_TSC, r->value ^ FAR_AWAY))
        return err_set(err, ERR_UNSUPPORTED, "the guest's time cannot be set");
    return restore_msr(cpu, r, err);
}

/* The timer is set by the time, so it comes after it. */
static int restore_msrs(int cpu, unsigned number, size_t count, struct err *err)
{
    const struct msr *deadline = NULL;
    for (size_t i = 0; i < count; i++) {
        const struct msr *r = &msrs[i];
        if (r->zero != 0 || !msr_kept(r->index) || !is_listed(r->index))
            return malformed(err);
        if (r->index == MSR_TSC_DEADLINE)
            deadline = r;
        else if ((r->index == MSR_TSC ? restore_time(cpu, number, r, err)
                                      : restore_msr(cpu, r, err)) < 0)
            return err_number(err);
    }
    return deadline ? restore_msr(cpu, deadline, err) : 0;
}

/* KVM checks what would harm it. Here is what a guest is not to have, and what nobody could have
 * saved. */
static bool is_sane(const struct processor_state *p)
{
    return p->mp.mp_state <= KVM_MP_STATE_SIPI_RECEIVED && !(p->sregs.efer & ~EFER_KNOWN) &&
           !(p->sregs.cr4 & CR4_VMX) && !(p->events.flags & ~(uint32_t)EVENTS_KNOWN) &&
           !p->events.smi.smm && p->debug.flags == 0;
}

static bool is_amd(int kvm)
{
    static struct {
        uint32_t count, padding;
        struct kvm_cpuid_entry2 entries[256];
    } offered;
    offered.count = ARRAY_LEN(offered.entries);
    if (ioctl(kvm, KVM_GET_SUPPORTED_CPUID, &offered) < 0)
        return false;
    for (uint32_t i = 0; i < offered.count; i++)
        if (offered.entries[i].function == 0)
            return offered.entries[i].ebx == 0x68747541u; /* "Auth" */
    return false;
}

/* A processor that has no use of wide registers to set refuses to be told of none. */
static bool is_nothing(const struct piece *p)
{
    return p->data == &processor.xcrs && processor.xcrs.nr_xcrs == 0;
}

static int restore_processor(const struct machine *m, unsigned i, struct state_reader *r,
                             struct err *err)
{
    int cpu = m->cpus[i];
    size_t count;
    if (!state_get(r, TAG_PROCESSOR, &processor, sizeof processor) ||
        !state_get_counted(r, TAG_MSRS, msrs, sizeof *msrs, MSRS_MAX, &count) ||
        !is_sane(&processor))
        return malformed(err);
    /* That a task is busy is KVM's word there: AMD's processors do not say so, and QEMU as one of
     * them would take it for one that cannot be used. */
    if (is_amd(m->kvm))
        processor.sregs.tr.type &= (uint8_t)~TASK_BUSY;
    for (size_t k = 0; k < ARRAY_LEN(pieces); k++)
        if (!is_nothing(&pieces[k]) && ioctl(cpu, pieces[k].set, pieces[k].data) < 0)
            return err_sys(err, "set of processor %u: %s", i, pieces[k].what);
    if (restore_msrs(cpu, i, count, err) < 0)
        return err_number(err);
    if (ioctl(cpu, KVM_SET_VCPU_EVENTS, &processor.events) < 0)
        return err_sys(err, "set of processor %u: what it waits for", i);
    /* A guest that asked for a clock of KVM's is told that it stood still. */
    if (ioctl(cpu, KVM_KVMCLOCK_CTRL, 0) < 0 && errno != EINVAL)
        return err_sys(err, "tell processor %u that it stood still", i);
    return 0;
}

static int restore_platform(const struct machine *m, struct state_reader *r, struct err *err)
{
    if (!state_get(r, TAG_PLATFORM, &platform, sizeof platform))
        return malformed(err);
    const struct kvm_clock_data clock = {.clock = platform.clock};
    if (ioctl(m->vm, KVM_SET_CLOCK, &clock) < 0)
        return err_sys(err, "set the guest's clock");
    for (unsigned i = 0; i < CHIPS; i++) {
        if (platform.chips[i].chip_id != i)
            return malformed(err);
        if (ioctl(m->vm, KVM_SET_IRQCHIP, &platform.chips[i]) < 0)
            return err_sys(err, "set the interrupt controllers");
    }
    return 0;
}

int arch_restore(struct machine *m, struct state_reader *r, struct err *err)
{
    if (list_msrs(m, err) < 0 || restore_platform(m, r, err) < 0)
        return err_number(err);
    for (unsigned i = 0; i < m->cpu_count; i++)
        if (restore_processor(m, i, r, err) < 0)
            return err_number(err);
    return 0;
}
