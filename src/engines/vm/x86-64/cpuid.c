/* Narrows what KVM offers as a processor to what a guest needs. Leaves are kept by name, all others
 * are not there.
 *
 * VM-20  The guest is not told which machine it is on: no name of the processor, no serial number,
 * no frequency, no topology but its own. Family, model and features stay: a kernel chooses by them
 * how it defends itself.
 * VM-21  What only widens the way into KVM is not offered: virtualization inside of the guest,
 * performance counters, tracing, enclaves, and all of KVM's own extras but its clock. */
#include "engines/vm/x86-64/cpuid.h"

#include <stdbool.h>
#include <string.h>

#define BIT(n)       (1u << (n))
#define INDEX_COUNTS 1u /* KVM_CPUID_FLAG_SIGNIFCANT_INDEX */

enum {
    LEAF_VENDOR = 0,
    LEAF_FEATURES = 1,
    LEAF_CACHES = 4,
    LEAF_MORE_FEATURES = 7,
    LEAF_TOPOLOGY = 0xb,
    LEAF_XSAVE = 0xd,
    LEAF_KVM = 0x40000000,
    LEAF_KVM_FEATURES = 0x40000001,
    LEAF_EXTENDED = 0x80000000,
    LEAF_AMD_FEATURES = 0x80000001,
    LEAF_NAME = 0x80000002,
    LEAF_NAME_2 = 0x80000003,
    LEAF_NAME_3 = 0x80000004,
    LEAF_AMD_CACHES = 0x80000005,
    LEAF_AMD_CACHES_2 = 0x80000006,
    LEAF_POWER = 0x80000007,
    LEAF_SIZES = 0x80000008,
    LEAF_AMD_TLB = 0x80000019,
    LEAF_AMD_MORE_FEATURES = 0x80000021,
};

/* In feature leaves: what is taken away. */
enum {
    ECX_MONITOR = BIT(3),
    ECX_VMX = BIT(5),
    ECX_PDCM = BIT(15),
    ECX_DEADLINE = BIT(24),
    ECX_HYPERVISOR = BIT(31),
    EDX_SERIAL = BIT(18),
    EDX_THREADS = BIT(28),
    AMD_ECX_CORES = BIT(1),
    AMD_ECX_SVM = BIT(2),
    AMD_ECX_TOPOLOGY = BIT(22),
    AMD_ECX_COUNTERS = BIT(23) | BIT(24) | BIT(28),
    MORE_EBX_SGX = BIT(2),
    MORE_EBX_TRACE = BIT(25),
    MORE_ECX_SGX_LAUNCH = BIT(30),
    POWER_STEADY_TSC = BIT(8),
    KVM_CLOCK = BIT(0) | BIT(1) | BIT(3) | BIT(24), /* no delay of ports, and that it is steady */
};

static const char name[48] = "brig virtual processor";

/* VM-21 */
static bool kept(uint32_t function)
{
    static const uint32_t leaves[] = {
        LEAF_VENDOR,
        LEAF_FEATURES,
        LEAF_MORE_FEATURES,
        LEAF_XSAVE,
        LEAF_KVM,
        LEAF_KVM_FEATURES,
        LEAF_EXTENDED,
        LEAF_AMD_FEATURES,
        LEAF_NAME,
        LEAF_NAME_2,
        LEAF_NAME_3,
        LEAF_AMD_CACHES,
        LEAF_POWER,
        LEAF_SIZES,
        LEAF_AMD_CACHES_2,
        LEAF_AMD_TLB,
        LEAF_CACHES,
        2 /* caches of old */,
        LEAF_AMD_MORE_FEATURES,
    };
    for (size_t i = 0; i < sizeof leaves / sizeof *leaves; i++)
        if (leaves[i] == function)
            return true;
    return false;
}

static void features(struct cpuid_entry *e, unsigned cpu, unsigned cpus, int deadline)
{
    e->ebx = (e->ebx & 0xffffu) | cpus << 16 | cpu << 24;
    e->ecx &= ~(uint32_t)(ECX_MONITOR | ECX_VMX | ECX_PDCM | ECX_DEADLINE);
    e->ecx |= (uint32_t)ECX_HYPERVISOR | (deadline ? (uint32_t)ECX_DEADLINE : 0);
    e->edx &= ~(uint32_t)(EDX_SERIAL | EDX_THREADS);
    if (cpus > 1)
        e->edx |= EDX_THREADS;
}

static unsigned width(unsigned cpus)
{
    unsigned bits = 0;
    while (1u << bits < cpus)
        bits++;
    return bits;
}

/* Level 0: one thread in a core; level 1: all cores in one package. Newer hosts offer the first
 * level alone, with nothing in it: without the second each processor would be a package. */
static const struct cpuid_entry levels[] = {
    {.function = LEAF_TOPOLOGY, .index = 0, .flags = INDEX_COUNTS, .ebx = 1, .ecx = 1u << 8},
    {.function = LEAF_TOPOLOGY, .index = 1, .flags = INDEX_COUNTS, .ecx = 2u << 8 | 1},
};

static size_t add_topology(struct cpuid_entry *entries, size_t n, unsigned cpu, unsigned cpus)
{
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
        entries[n] = levels[i];
        entries[n].edx = cpu;
        if (i == 1) {
            entries[n].eax = width(cpus);
            entries[n].ebx = cpus;
        }
        n++;
    }
    return n;
}

/* A cache belongs to one core, and no two cores share: what the host's share is not said. */
static void caches(struct cpuid_entry *e, unsigned cpus)
{
    if (e->eax & 31)
        e->eax = (e->eax & 0x3fffu) | (cpus - 1) << 26;
}

/* VM-20, VM-21 */
static void adapt(struct cpuid_entry *e, unsigned cpu, unsigned cpus, int deadline)
{
    switch (e->function) {
    case LEAF_FEATURES:
        features(e, cpu, cpus, deadline);
        break;
    case LEAF_CACHES:
        caches(e, cpus);
        break;
    case LEAF_MORE_FEATURES:
        if (e->index == 0) {
            e->ebx &= ~(uint32_t)(MORE_EBX_SGX | MORE_EBX_TRACE);
            e->ecx &= ~(uint32_t)MORE_ECX_SGX_LAUNCH;
        }
        break;
    case LEAF_KVM:
        e->eax = LEAF_KVM_FEATURES;
        break;
    case LEAF_KVM_FEATURES:
        e->eax &= KVM_CLOCK;
        e->ebx = e->ecx = e->edx = 0;
        break;
    case LEAF_AMD_FEATURES:
        e->ecx &= ~(uint32_t)(AMD_ECX_SVM | AMD_ECX_TOPOLOGY | AMD_ECX_COUNTERS);
        if (cpus == 1) /* that there are several, which is the host's */
            e->ecx &= ~(uint32_t)AMD_ECX_CORES;
        break;
    case LEAF_POWER:
        e->eax = e->ebx = e->ecx = 0;
        e->edx &= POWER_STEADY_TSC;
        break;
    case LEAF_SIZES:
        e->ecx = width(cpus) << 12 | (cpus - 1);
        break;
    default:
        if (e->function - LEAF_NAME < 3)
            memcpy(&e->eax, name + 16 * (e->function - LEAF_NAME), 16);
    }
}

size_t cpuid_narrow(struct cpuid_entry *entries, size_t count, size_t room, unsigned cpu,
                    unsigned cpus, int deadline)
{
    size_t n = 0;
    bool has_topology = false;
    for (size_t i = 0; i < count; i++) {
        has_topology |= entries[i].function == LEAF_TOPOLOGY;
        if (!kept(entries[i].function))
            continue;
        entries[n] = entries[i];
        adapt(&entries[n++], cpu, cpus, deadline);
    }
    bool fits = n <= room && room - n >= sizeof levels / sizeof *levels;
    return has_topology && fits ? add_topology(entries, n, cpu, cpus) : n;
}
