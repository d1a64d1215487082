/* arm64: a GICv3 in the kernel, PSCI, the architecture's timer, a device tree. Linux's Image is put
 * at the start of memory, initramfs and device tree at its end. */
#include "engines/vm/machine.h"

#include "engines/vm/arm64/fdt.h"
#include "engines/vm/arm64/gic.h"
#include "engines/vm/cmdline.h"

#include <linux/kvm.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define FIRST_LINE  2u
#define PIECE       (2ull << 20) /* what Image, initramfs and tree are aligned to */
#define IMAGE_MAGIC 0x644d5241u  /* "ARM\x64" */
#define PSTATE_EL1  0x3c5ull     /* EL1h, interrupts masked */
#define CORE(field)                                                                                \
    (KVM_REG_ARM64 | KVM_REG_SIZE_U64 | KVM_REG_ARM_CORE |                                         \
     (offsetof(struct kvm_regs, field) / sizeof(uint32_t)))

const uint64_t arch_memory_base = 0x40000000ull, arch_device_base = 0x0a000000ull;

const uint64_t arch_gap_at = 0, arch_gap_end = 0; /* devices lie below */

enum machine_end arch_exit(struct machine *m, unsigned cpu)
{
    (void)m, (void)cpu;
    return MACHINE_BROKEN;
}

unsigned arch_line(unsigned device)
{
    return FIRST_LINE + device;
}

static int gic_set(struct machine *m, uint32_t group, uint64_t attribute, const void *value,
                   struct err *err)
{
    struct kvm_device_attr attr = {
        .group = group, .attr = attribute, .addr = (uint64_t)(uintptr_t)value};
    if (ioctl(m->interrupts, KVM_SET_DEVICE_ATTR, &attr) < 0)
        return err_sys(err, "set up the interrupt controller");
    return 0;
}

int arch_before_cpus(struct machine *m, struct err *err)
{
    struct kvm_create_device gic = {.type = KVM_DEV_TYPE_ARM_VGIC_V3};
    if (ioctl(m->vm, KVM_CREATE_DEVICE, &gic) < 0) {
        err_sys(err, "make an interrupt controller (GICv3)");
        return err_hint(err, "machines with an older controller cannot run the vm tier");
    }
    m->interrupts = (int)gic.fd;
    return 0;
}

static int start_cpu(struct machine *m, unsigned i, const struct kvm_vcpu_init *preferred,
                     struct err *err)
{
    struct kvm_vcpu_init init = *preferred;
    init.features[0] |= 1u << KVM_ARM_VCPU_PSCI_0_2;
    if (i > 0)
        init.features[0] |= 1u << KVM_ARM_VCPU_POWER_OFF;
    if (ioctl(m->cpus[i], KVM_ARM_VCPU_INIT, &init) < 0)
        return err_sys(err, "start processor %u", i);
    return 0;
}

int arch_after_cpus(struct machine *m, struct err *err)
{
    const uint64_t distributor = GIC_DISTRIBUTOR;
    const uint64_t redistributor = (uint64_t)m->cpu_count << 52 | GIC_REDISTRIBUTOR;
    const uint32_t interrupts = GIC_INTERRUPTS;
    struct kvm_vcpu_init preferred;
    if (ioctl(m->vm, KVM_ARM_PREFERRED_TARGET, &preferred) < 0)
        return err_sys(err, "ask for the kind of processor");
    for (unsigned i = 0; i < m->cpu_count; i++)
        if (start_cpu(m, i, &preferred, err) < 0)
            return err_number(err);
    if (gic_set(m, KVM_DEV_ARM_VGIC_GRP_NR_IRQS, 0, &interrupts, err) < 0 ||
        gic_set(m, KVM_DEV_ARM_VGIC_GRP_ADDR, KVM_VGIC_V3_ADDR_TYPE_DIST, &distributor, err) < 0 ||
        gic_set(m, KVM_DEV_ARM_VGIC_GRP_ADDR, KVM_VGIC_V3_ADDR_TYPE_REDIST_REGION, &redistributor,
                err) < 0)
        return err_number(err);
    return gic_set(m, KVM_DEV_ARM_VGIC_GRP_CTRL, KVM_DEV_ARM_VGIC_CTRL_INIT, NULL, err);
}

static int set_register(struct machine *m, uint64_t id, uint64_t value, struct err *err)
{
    struct kvm_one_reg reg = {.id = id, .addr = (uint64_t)(uintptr_t)&value};
    if (ioctl(m->cpus[0], KVM_SET_ONE_REG, &reg) < 0)
        return err_sys(err, "set a register");
    return 0;
}

static void describe_cpus(struct fdt *f, const struct machine *m)
{
    char name[16];
    fdt_begin(f, "cpus");
    FDT_CELLS(f, "#address-cells", 1);
    FDT_CELLS(f, "#size-cells", 0);
    for (unsigned i = 0; i < m->cpu_count; i++) {
        snprintf(name, sizeof name, "cpu@%x", i);
        fdt_begin(f, name);
        fdt_text(f, "device_type", "cpu");
        fdt_text(f, "compatible", "arm,armv8");
        fdt_text(f, "enable-method", "psci");
        FDT_CELLS(f, "reg", i);
        fdt_end(f);
    }
    fdt_end(f);
}

static void describe_platform(struct fdt *f, const struct machine *m)
{
    fdt_begin(f, "psci");
    fdt_bytes(f, "compatible", "arm,psci-1.0\0arm,psci-0.2", 26);
    fdt_text(f, "method", "hvc");
    fdt_end(f);
    fdt_begin(f, "timer");
    fdt_text(f, "compatible", "arm,armv8-timer");
    fdt_flag(f, "always-on");
    FDT_CELLS(f, "interrupts", 1, 13, 4, 1, 14, 4, 1, 11, 4, 1, 10, 4);
    fdt_end(f);
    fdt_begin(f, "intc@8000000");
    fdt_text(f, "compatible", "arm,gic-v3");
    FDT_CELLS(f, "#interrupt-cells", 3);
    fdt_flag(f, "interrupt-controller");
    FDT_CELLS(f, "reg", 0, GIC_DISTRIBUTOR, 0, 0x10000, 0, GIC_REDISTRIBUTOR, 0,
              (uint32_t)(GIC_PER_CPU * m->cpu_count));
    FDT_CELLS(f, "phandle", 1);
    fdt_end(f);
}

static void describe_devices(struct fdt *f, const struct machine *m)
{
    char name[32];
    for (unsigned i = 0; i < m->device_count; i++) {
        uint32_t at = (uint32_t)arch_device_base + i * MACHINE_SPACING;
        snprintf(name, sizeof name, "virtio@%x", at);
        fdt_begin(f, name);
        fdt_text(f, "compatible", "virtio,mmio");
        FDT_CELLS(f, "reg", 0, at, 0, DEVICE_WINDOW);
        FDT_CELLS(f, "interrupts", 0, arch_line(i), 1);
        fdt_flag(f, "dma-coherent");
        fdt_end(f);
    }
}

/* The seeds are fresh for each machine: its kernel starts with random numbers of its own. */
static int describe_choices(struct fdt *f, uint64_t initramfs, uint64_t len, struct err *err)
{
    uint8_t seed[64 + 8];
    if (getrandom(seed, sizeof seed, 0) != sizeof seed)
        return err_sys(err, "get random numbers");
    fdt_begin(f, "chosen");
    fdt_text(f, "bootargs", GUEST_COMMAND_LINE " cma=0 -- guest");
    fdt_pair(f, "linux,initrd-start", initramfs);
    fdt_pair(f, "linux,initrd-end", initramfs + len);
    fdt_bytes(f, "rng-seed", seed, 64);
    fdt_bytes(f, "kaslr-seed", seed + 64, 8);
    fdt_end(f);
    return 0;
}

static int write_tree(struct machine *m, uint64_t at, uint64_t initramfs, uint64_t len,
                      struct err *err)
{
    struct fdt f = {.len = 0};
    fdt_begin(&f, "");
    FDT_CELLS(&f, "#address-cells", 2);
    FDT_CELLS(&f, "#size-cells", 2);
    FDT_CELLS(&f, "interrupt-parent", 1);
    fdt_text(&f, "compatible", "linux,dummy-virt");
    fdt_begin(&f, "memory@40000000");
    fdt_text(&f, "device_type", "memory");
    FDT_CELLS(&f, "reg", 0, (uint32_t)arch_memory_base, (uint32_t)(m->memory.size >> 32),
              (uint32_t)m->memory.size);
    fdt_end(&f);
    describe_cpus(&f, m);
    describe_platform(&f, m);
    describe_devices(&f, m);
    if (describe_choices(&f, initramfs, len, err) < 0)
        return err_number(err);
    fdt_end(&f);
    if (fdt_finish(&f, m->memory.host + at, PIECE) == 0)
        return err_set(err, ERR_INTERNAL, "the device tree is too large");
    return 0;
}

/* The kernel's header: where in a piece it wants to lie, and how much it needs. */
static int check_image(const struct machine *m, uint64_t *offset, uint64_t *need, struct err *err)
{
    uint32_t magic;
    memcpy(offset, m->memory.host + 8, sizeof *offset);
    memcpy(need, m->memory.host + 16, sizeof *need);
    memcpy(&magic, m->memory.host + 56, sizeof magic);
    if (magic != IMAGE_MAGIC)
        return err_set(err, ERR_UNSUPPORTED,
                       "this kernel is no plain arm64 Image (it may be compressed)");
    if (*offset != 0 || *need > m->memory.size)
        return err_set(err, ERR_UNSUPPORTED, "this kernel wants to lie elsewhere in memory");
    return 0;
}

int arch_load(struct machine *m, int kernel, int initramfs, struct err *err)
{
    struct stat sb;
    uint64_t offset, need, tree = m->memory.size - PIECE;
    if (machine_read(m, 0, kernel, 0, "guest kernel", err) < 0 ||
        check_image(m, &offset, &need, err) < 0)
        return err_number(err);
    if (fstat(initramfs, &sb) < 0)
        return err_sys(err, "look at the initramfs");
    uint64_t len = (uint64_t)sb.st_size, room = (len + PIECE - 1) & ~(PIECE - 1);
    if (room > tree || tree - room < need) {
        err_set(err, ERR_LIMIT, "kernel and initramfs do not fit into the guest's memory");
        return err_hint(err, "give it more: --memory 512M");
    }
    uint64_t at = tree - room;
    if (machine_read(m, at, initramfs, 0, "initramfs", err) < 0 ||
        write_tree(m, tree, m->memory.base + at, len, err) < 0)
        return err_number(err);
    if (set_register(m, CORE(regs.pc), m->memory.base, err) < 0 ||
        set_register(m, CORE(regs.regs[0]), m->memory.base + tree, err) < 0)
        return err_number(err);
    return set_register(m, CORE(regs.pstate), PSTATE_EL1, err);
}
