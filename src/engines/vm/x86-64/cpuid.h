/* What the guest's processors say about themselves. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* As KVM has it (struct kvm_cpuid_entry2), on every architecture. */
struct cpuid_entry {
    uint32_t function, index, flags, eax, ebx, ecx, edx, padding[3];
};

/* From what KVM can give, `count` entries, to what processor `cpu` of `cpus` is given; the number
 * of entries, for which there is `room`. `deadline`: KVM has the timer that is set by the time
 * stamp.
 */
size_t cpuid_narrow(struct cpuid_entry *entries, size_t count, size_t room, unsigned cpu,
                    unsigned cpus, int deadline);
