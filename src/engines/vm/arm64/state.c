/* arm64: what processors and interrupt controller are at a moment, out of one machine and into
 * another one of the same host.
 *
 * Nothing in the state says what it has: registers are those that this host's KVM lists, words of
 * the controller those of a machine with as many processors. So a state is of the right kind to the
 * last block, or it is refused, and there is no count to believe. What a value means is checked by
 * KVM, for which any program's values are hostile.
 *
 * The controller has no message-signalled interrupts (no ITS), and so no tables of them in memory.
 *
 * Guest time stands still while the state lies there: the counter goes on from where it was read.
 */
#include "engines/vm/machine.h"

#include "base/cleanup.h"
#include "engines/vm/arm64/gic.h"

#include <linux/kvm.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>

#define TAG_RUN      STATE_TAG('R', 'U', 'N', ' ')
#define TAG_REGISTER STATE_TAG('R', 'E', 'G', ' ')

#define REGISTERS_MAX 1024u
#define REGISTER_MAX  256u /* bytes: KVM's widest */

/* struct kvm_reg_list with room behind it. */
struct registers {
    uint64_t count;
    uint64_t ids[REGISTERS_MAX];
};
_Static_assert(offsetof(struct registers, ids) == sizeof(struct kvm_reg_list),
               "the numbers follow the count");

/* As it lies in the state: of the value only as much as the register is wide. */
struct saved {
    uint64_t id;
    uint8_t value[REGISTER_MAX];
};

static size_t width(uint64_t id)
{
    return (size_t)1 << ((id & KVM_REG_SIZE_MASK) >> KVM_REG_SIZE_SHIFT);
}

static int list_registers(const struct machine *m, unsigned cpu, struct registers *list,
                          struct err *err)
{
    list->count = REGISTERS_MAX;
    if (ioctl(m->cpus[cpu], KVM_GET_REG_LIST, list) < 0)
        return err_sys(err, "list the registers of processor %u", cpu);
    for (uint64_t i = 0; i < list->count; i++)
        if (width(list->ids[i]) > REGISTER_MAX)
            return err_set(err, ERR_UNSUPPORTED, "register %llx is too wide",
                           (unsigned long long)list->ids[i]);
    return 0;
}

static int get_register(const struct machine *m, unsigned cpu, struct saved *r, struct err *err)
{
    struct kvm_one_reg one = {.id = r->id, .addr = (uint64_t)(uintptr_t)r->value};
    if (ioctl(m->cpus[cpu], KVM_GET_ONE_REG, &one) < 0)
        return err_sys(err, "read register %llx", (unsigned long long)r->id);
    return 0;
}

/* Some cannot be written, and some not with what they are: only what differs is. */
static int set_register(const struct machine *m, unsigned cpu, const struct saved *r,
                        struct err *err)
{
    struct saved now = {.id = r->id};
    struct kvm_one_reg one = {.id = r->id, .addr = (uint64_t)(uintptr_t)r->value};
    if (get_register(m, cpu, &now, err) < 0)
        return err_number(err);
    if (memcmp(now.value, r->value, width(r->id)) == 0)
        return 0;
    if (ioctl(m->cpus[cpu], KVM_SET_ONE_REG, &one) < 0)
        return err_sys(err, "set register %llx", (unsigned long long)r->id);
    return 0;
}

/* One for all processors, and so of the first one. They are read and set last. */
static bool is_counter(uint64_t id)
{
    return id == KVM_REG_ARM_TIMER_CNT || id == KVM_REG_ARM_PTIMER_CNT;
}

static int save_registers(const struct machine *m, unsigned cpu, bool counters,
                          struct state_writer *w, struct err *err)
{
    struct registers list;
    if (list_registers(m, cpu, &list, err) < 0)
        return err_number(err);
    for (uint64_t i = 0; i < list.count; i++) {
        struct saved r = {.id = list.ids[i]};
        if (is_counter(r.id) != counters)
            continue;
        if (get_register(m, cpu, &r, err) < 0)
            return err_number(err);
        state_put(w, TAG_REGISTER, &r, offsetof(struct saved, value) + width(r.id));
    }
    return 0;
}

static int restore_registers(const struct machine *m, unsigned cpu, bool counters,
                             struct state_reader *from, struct err *err)
{
    struct registers list;
    if (list_registers(m, cpu, &list, err) < 0)
        return err_number(err);
    for (uint64_t i = 0; i < list.count; i++) {
        struct saved r = {.id = 0};
        uint64_t id = list.ids[i];
        if (is_counter(id) != counters)
            continue;
        if (!state_get(from, TAG_REGISTER, &r, offsetof(struct saved, value) + width(id)) ||
            r.id != id)
            return err_set(err, ERR_PROTOCOL,
                           "the state of processor %u is malformed: register %llx", cpu,
                           (unsigned long long)id);
        if (set_register(m, cpu, &r, err) < 0)
            return err_number(err);
    }
    return 0;
}

/* Whether it runs or was never started. */
static int save_run(const struct machine *m, unsigned cpu, struct state_writer *w, struct err *err)
{
    struct kvm_mp_state run;
    if (ioctl(m->cpus[cpu], KVM_GET_MP_STATE, &run) < 0)
        return err_sys(err, "ask whether processor %u runs", cpu);
    state_put(w, TAG_RUN, &run, sizeof run);
    return 0;
}

static int restore_run(const struct machine *m, unsigned cpu, struct state_reader *from,
                       struct err *err)
{
    struct kvm_mp_state run;
    if (!state_get(from, TAG_RUN, &run, sizeof run))
        return err_set(err, ERR_PROTOCOL, "the state of processor %u is malformed", cpu);
    if (run.mp_state != KVM_MP_STATE_RUNNABLE && run.mp_state != KVM_MP_STATE_STOPPED)
        return err_set(err, ERR_PROTOCOL, "processor %u neither runs nor is it off", cpu);
    if (ioctl(m->cpus[cpu], KVM_SET_MP_STATE, &run) < 0)
        return err_sys(err, "start or stop processor %u", cpu);
    return 0;
}

const uint32_t arch_save_calls[] = {KVM_GET_MP_STATE, KVM_GET_REG_LIST, KVM_GET_ONE_REG,
                                    KVM_GET_DEVICE_ATTR};
const unsigned arch_save_call_count = ARRAY_LEN(arch_save_calls);

int arch_save(struct machine *m, struct state_writer *w, struct err *err)
{
    for (unsigned i = 0; i < m->cpu_count; i++)
        if (save_run(m, i, w, err) < 0 || save_registers(m, i, false, w, err) < 0)
            return err_number(err);
    if (gic_save(m, w, err) < 0)
        return err_number(err);
    return save_registers(m, 0, true, w, err);
}

int arch_restore(struct machine *m, struct state_reader *from, struct err *err)
{
    for (unsigned i = 0; i < m->cpu_count; i++)
        if (restore_run(m, i, from, err) < 0 || restore_registers(m, i, false, from, err) < 0)
            return err_number(err);
    if (gic_restore(m, from, err) < 0)
        return err_number(err);
    return restore_registers(m, 0, true, from, err);
}
