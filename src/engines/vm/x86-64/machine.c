/* x86-64: not there yet. The monitor says so and starts nothing. */
#include "engines/vm/machine.h"

const uint64_t arch_memory_base = 0, arch_device_base = 0xd0000000ull;

const char *arch_refusal(void)
{
    return "the vm tier runs on arm64 machines only in this version";
}

unsigned arch_line(unsigned device)
{
    return 5 + device;
}

int arch_before_cpus(struct machine *m, struct err *err)
{
    (void)m;
    return err_set(err, ERR_UNSUPPORTED, "%s", arch_refusal());
}

int arch_after_cpus(struct machine *m, struct err *err)
{
    return arch_before_cpus(m, err);
}

int arch_load(struct machine *m, int kernel, int initramfs, struct err *err)
{
    (void)kernel, (void)initramfs;
    return arch_before_cpus(m, err);
}
