/* Can this host run virtual machines: the probe of the vm tier. */
#include "kernel/vm.h"

#include "base/cleanup.h"
#include "guests/guests.h"
#include "kernel/vm_speed.h"
#include "os/beside.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/kvm.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#if !defined(__aarch64__)
#include <cpuid.h>

#define CPUID_ECX_SVM (1u << 2)
#endif

static bool missing(struct tier_answer *ret, const char *why, const char *how)
{
    snprintf(ret->why, sizeof ret->why, "%s", why);
    snprintf(ret->how, sizeof ret->how, "%s", how);
    return false;
}

/* VM-21: without it no machine is made, which is better known before one is wanted. The other half
 * of it is as old, and not every kernel that has that says so. */
static bool can_close(int kvm)
{
#if defined(__aarch64__)
    (void)kvm;
    return true;
#else
    return ioctl(kvm, KVM_CHECK_EXTENSION, KVM_CAP_X86_MSR_FILTER) > 0;
#endif
}

static bool probe_device(struct tier_answer *ret)
{
    cleanup_fd int kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);
    char why[sizeof ret->why];
    if (kvm >= 0 && !can_close(kvm))
        return missing(ret, "the KVM of this kernel cannot close what a guest is not told of",
                       "Linux 5.10 or newer on the host");
    if (kvm >= 0)
        return vm_speed_probe(kvm, why, sizeof why) ||
               missing(ret, why,
                       "a host of its own, or one whose own host allows nested virtualization; no "
                       "other hypervisor may hold the processor");
    if (errno == EACCES || errno == EPERM)
        return missing(ret, "/dev/kvm is there, but not for this user",
                       "sudo usermod -aG kvm USER and log in anew, or sudo setfacl -m u:USER:rw "
                       "/dev/kvm");
    return missing(ret, "this host has no /dev/kvm",
                   "sudo modprobe kvm; in a virtual machine its host must allow nested "
                   "virtualization");
}

bool vm_may_be_tried(bool seen_to_run, const char *word)
{
    return seen_to_run || (word && strcmp(word, "1") == 0);
}

/* arm64 and AMD's virtualization were seen to run, in QEMU (docs/vm.md), which does not have
 * Intel's: that is another half of KVM, in which nobody has seen a machine of brig's, and takes the
 * operator's word. */
static bool seen_to_run(void)
{
#if defined(__aarch64__)
    return true;
#else
    unsigned eax, ebx, ecx = 0, edx;
    return __get_cpuid(0x80000001, &eax, &ebx, &ecx, &edx) && (ecx & CPUID_ECX_SVM);
#endif
}

static bool probe_trust(struct tier_answer *ret)
{
    return vm_may_be_tried(seen_to_run(), getenv(VM_UNTRIED_VARIABLE)) ||
           missing(ret, "virtual machines have not been tried with Intel's virtualization yet",
                   VM_UNTRIED_VARIABLE "=1 runs them all the same; --level high is the strongest "
                                       "that was");
}

bool vm_probe(struct tier_answer *ret)
{
    char program[PATH_MAX];
    struct err err = ERR_INIT;
    struct guest_kernel *kernel = calloc(1, sizeof *kernel);
    bool good = kernel && probe_device(ret) && probe_trust(ret);
    if (good && (program_beside("brig-vmm", program, sizeof program, &err) < 0 ||
                 guests_choose(kernel, &err) < 0))
        good = missing(ret, err.message, err.hint);
    if (good)
        snprintf(ret->how, sizeof ret->how, "guest kernel %s, %s", kernel->release,
                 kernel->kept ? "kept by brig" : kernel->image);
    free(kernel);
    return good;
}
