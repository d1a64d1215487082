/* What machines of both architectures have in common: KVM's side of memory, processors and device
 * windows. */
#include "engines/vm/machine.h"

#include "base/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/kvm.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static int give_memory(struct machine *m, uint32_t slot, uint64_t at, uint64_t from, uint64_t len,
                       struct err *err)
{
    struct kvm_userspace_memory_region region = {.slot = slot,
                                                 .guest_phys_addr = at,
                                                 .memory_size = len,
                                                 .userspace_addr =
                                                     (uint64_t)(uintptr_t)(m->memory.host + from)};
    if (ioctl(m->vm, KVM_SET_USER_MEMORY_REGION, &region) < 0)
        return err_sys(err, "give the machine its memory");
    return 0;
}

/* VM-28: what a clone is made of can be changed by nobody any more, and is all there: reading
 * beyond the end of a file would be the end of the monitor. */
static int check_file(const struct machine_wish *w, struct err *err)
{
    const int sealed = F_SEAL_WRITE | F_SEAL_SHRINK;
    struct stat sb;
    if (fstat(w->file, &sb) < 0)
        return err_sys(err, "look at the file of guest memory");
    if (!S_ISREG(sb.st_mode) || sb.st_size < 0 || (uint64_t)sb.st_size < w->memory)
        return err_set(err, ERR_PROTOCOL, "the file of guest memory is too short");
    int seals = fcntl(w->file, F_GET_SEALS); /* negative: a file that can have none */
    if (w->kind == MACHINE_CLONE && (seals < 0 || (seals & sealed) != sealed))
        return err_set(err, ERR_PROTOCOL, "the file of guest memory is not sealed");
    return 0;
}

static void *map_memory(const struct machine_wish *w)
{
    if (w->kind == MACHINE_CLONE)
        return memory_copy(w->file, w->memory);
    int flags = w->kind == MACHINE_PARKS ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
    int file = w->kind == MACHINE_PARKS ? w->file : -1;
    return mmap(NULL, w->memory, PROT_READ | PROT_WRITE, flags | MAP_NORESERVE, file, 0);
}

static int make_memory(struct machine *m, const struct machine_wish *w, struct err *err)
{
    uint64_t size = w->memory;
    if (w->kind != MACHINE_ALONE && check_file(w, err) < 0)
        return err_number(err);
    void *host = map_memory(w);
    if (host == MAP_FAILED)
        return err_sys(err, "map %llu bytes of guest memory", (unsigned long long)size);
    m->memory = (struct guest_memory){.host = host,
                                      .base = arch_memory_base,
                                      .size = size,
                                      .gap_at = arch_gap_at,
                                      .gap_end = arch_gap_end};
    uint64_t low = arch_gap_at - arch_memory_base;
    if (arch_gap_at == 0 || size <= low)
        return give_memory(m, 0, arch_memory_base, 0, size, err);
    if (give_memory(m, 0, arch_memory_base, 0, low, err) < 0)
        return err_number(err);
    return give_memory(m, 1, arch_gap_end, low, size - low, err);
}

static int make_cpu(struct machine *m, unsigned i, struct err *err)
{
    m->cpus[i] = ioctl(m->vm, KVM_CREATE_VCPU, i);
    if (m->cpus[i] < 0)
        return err_sys(err, "make processor %u", i);
    m->runs[i] = mmap(NULL, m->run_size, PROT_READ | PROT_WRITE, MAP_SHARED, m->cpus[i], 0);
    return m->runs[i] == MAP_FAILED ? err_sys(err, "map processor %u", i) : 0;
}

int machine_make(struct machine *m, const struct machine_wish *wish, struct err *err)
{
    int kvm = wish->kvm;
    memset(m, 0, sizeof *m);
    pthread_mutex_init(&m->lock, NULL);
    m->kvm = kvm;
    m->interrupts = -1;
    m->cpu_count = wish->cpus;
    int version = ioctl(kvm, KVM_GET_API_VERSION, 0);
    if (version < 0)
        return err_sys(err, "ask /dev/kvm for its version");
    if (version != KVM_API_VERSION)
        return err_set(err, ERR_UNSUPPORTED, "/dev/kvm speaks version %d, not %d", version,
                       KVM_API_VERSION);
    if ((m->vm = ioctl(kvm, KVM_CREATE_VM, 0)) < 0)
        return err_sys(err, "make a virtual machine");
    int size = ioctl(kvm, KVM_GET_VCPU_MMAP_SIZE, 0);
    if (size < (int)sizeof(struct kvm_run))
        return err_sys(err, "ask for the size of a processor's state");
    m->run_size = (size_t)size;
    if (make_memory(m, wish, err) < 0 || arch_before_cpus(m, err) < 0)
        return err_number(err);
    for (unsigned i = 0; i < m->cpu_count; i++)
        if (make_cpu(m, i, err) < 0)
            return err_number(err);
    return arch_after_cpus(m, err);
}

static uint64_t window(unsigned device)
{
    return arch_device_base + (uint64_t)device * MACHINE_SPACING;
}

static void raise_line(struct device *d)
{
    const uint64_t one = 1;
    int line = *(const int *)d->context;
    while (write(line, &one, sizeof one) < 0 && errno == EINTR)
        ;
}

static int make_event(int *fd, struct err *err)
{
    *fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return *fd < 0 ? err_sys(err, "make an eventfd") : 0;
}

static int add_bell(struct machine *m, unsigned device, unsigned queue, struct err *err)
{
    int *fd = &m->bells[device][queue];
    if (make_event(fd, err) < 0)
        return err_number(err);
    struct kvm_ioeventfd e = {.datamatch = queue,
                              .addr = window(device) + DEVICE_NOTIFY,
                              .len = 4,
                              .fd = *fd,
                              .flags = KVM_IOEVENTFD_FLAG_DATAMATCH};
    return ioctl(m->vm, KVM_IOEVENTFD, &e) < 0 ? err_sys(err, "connect a queue's bell") : 0;
}

/* KVM takes the write, and the processor goes on. */
static int leave_unheard(struct machine *m, unsigned device, struct err *err)
{
    struct kvm_ioeventfd e = {
        .addr = window(device) + DEVICE_ACKNOWLEDGE, .len = 4, .fd = m->unheard};
    return ioctl(m->vm, KVM_IOEVENTFD, &e) < 0 ? err_sys(err, "connect a device's register") : 0;
}

int machine_add(struct machine *m, struct device *d, struct err *err)
{
    unsigned i = m->device_count++;
    m->devices[i] = d;
    if (i == 0 && make_event(&m->unheard, err) < 0)
        return err_number(err);
    if (make_event(&m->lines[i], err) < 0 || leave_unheard(m, i, err) < 0)
        return err_number(err);
    struct kvm_irqfd line = {.fd = (uint32_t)m->lines[i], .gsi = arch_line(i)};
    if (ioctl(m->vm, KVM_IRQFD, &line) < 0)
        return err_sys(err, "connect an interrupt line");
    d->context = &m->lines[i];
    d->interrupt = raise_line;
    for (unsigned q = 0; q < d->queue_count; q++)
        if (add_bell(m, i, q, err) < 0)
            return err_number(err);
    return 0;
}

int64_t machine_read(struct machine *m, uint64_t at, int fd, uint64_t from, const char *what,
                     struct err *err)
{
    struct stat sb;
    if (fstat(fd, &sb) < 0)
        return err_sys(err, "look at the %s", what);
    if (sb.st_size <= 0 || (uint64_t)sb.st_size <= from)
        return err_set(err, ERR_UNSUPPORTED, "the %s is too short", what);
    uint64_t len = (uint64_t)sb.st_size - from;
    uint8_t *to = memory_range(&m->memory, m->memory.base + at, len);
    if (!to) {
        err_set(err, ERR_LIMIT, "the %s does not fit into the guest's memory", what);
        return err_hint(err, "give it more: --memory 512M");
    }
    for (uint64_t done = 0; done < len;) {
        ssize_t n = pread(fd, to + done, (size_t)(len - done), (off_t)(from + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return err_sys(err, "read the %s", what);
        done += (uint64_t)n;
    }
    return (int64_t)len;
}

int machine_load(struct machine *m, int kernel, int initramfs, struct err *err)
{
    return arch_load(m, kernel, initramfs, err);
}

/* VM-5: valid notifications come by the bells, to the thread of the devices; what comes here in
 * their place is of a wrong width or a queue that is not there. */
static void access_device(struct machine *m, struct kvm_run *run)
{
    uint64_t at = run->mmio.phys_addr, base = arch_device_base;
    uint64_t offset = at - base;
    unsigned i = (unsigned)(offset / MACHINE_SPACING);
    uint32_t within = (uint32_t)(offset % MACHINE_SPACING);
    unsigned width = run->mmio.len <= 8 ? run->mmio.len : 8;
    if (at < base || offset / MACHINE_SPACING >= m->device_count || within >= DEVICE_WINDOW) {
        memset(run->mmio.data, 0, sizeof run->mmio.data);
        return;
    }
    pthread_mutex_lock(&m->lock);
    if (!run->mmio.is_write)
        device_read(m->devices[i], within, width, run->mmio.data);
    else if (within != DEVICE_NOTIFY)
        device_write(m->devices[i], within, width, run->mmio.data);
    pthread_mutex_unlock(&m->lock);
}

static enum machine_end system_event(const struct kvm_run *run)
{
    switch (run->system_event.type) {
    case KVM_SYSTEM_EVENT_SHUTDOWN:
        return MACHINE_OFF;
    case KVM_SYSTEM_EVENT_RESET:
    case KVM_SYSTEM_EVENT_CRASH:
        return MACHINE_RESET;
    default:
        return MACHINE_BROKEN;
    }
}

/* With immediate_exit set, KVM_RUN completes the device access that it returned for, and does not
 * run the guest. */
void machine_halt(struct machine *m)
{
    for (unsigned i = 0; i < m->cpu_count; i++)
        __atomic_store_n(&m->runs[i]->immediate_exit, 1, __ATOMIC_SEQ_CST);
    __atomic_store_n(&m->halts, true, __ATOMIC_SEQ_CST);
}

/* EINTR without immediate_exit means that a signal came before it was set: KVM_RUN is called once
 * more. */
static enum machine_end interrupted(bool marked)
{
    if (errno == EINTR && marked)
        return MACHINE_HALTED;
    return errno == EINTR || errno == EAGAIN ? MACHINE_GOES_ON : MACHINE_BROKEN;
}

enum machine_end machine_step(struct machine *m, unsigned cpu)
{
    struct kvm_run *run = m->runs[cpu];
    bool marked = __atomic_load_n(&m->halts, __ATOMIC_SEQ_CST);
    if (ioctl(m->cpus[cpu], KVM_RUN, 0) < 0)
        return interrupted(marked);
    __atomic_fetch_add(&m->exits, 1, __ATOMIC_RELAXED);
    switch (run->exit_reason) {
    case KVM_EXIT_MMIO:
        access_device(m, run);
        return MACHINE_GOES_ON;
    case KVM_EXIT_SYSTEM_EVENT:
        return system_event(run);
    case KVM_EXIT_INTR:
        return MACHINE_GOES_ON;
    default:
        return arch_exit(m, cpu);
    }
}
