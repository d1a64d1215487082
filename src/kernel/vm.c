/* Can this host run virtual machines: the probe of the vm tier. */
#include "kernel/vm.h"

#include "base/cleanup.h"
#include "guests/guests.h"
#include "os/beside.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

static bool missing(struct tier_answer *ret, const char *why, const char *how)
{
    snprintf(ret->why, sizeof ret->why, "%s", why);
    snprintf(ret->how, sizeof ret->how, "%s", how);
    return false;
}

static bool probe_device(struct tier_answer *ret)
{
    cleanup_fd int kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);
    if (kvm >= 0)
        return true;
    if (errno == EACCES || errno == EPERM)
        return missing(ret, "/dev/kvm is there, but not for this user",
                       "sudo usermod -aG kvm USER and log in anew, or sudo setfacl -m u:USER:rw "
                       "/dev/kvm");
    return missing(ret, "this host has no /dev/kvm",
                   "sudo modprobe kvm; in a virtual machine its host must allow nested "
                   "virtualization");
}

bool vm_probe(struct tier_answer *ret)
{
    char program[PATH_MAX];
    struct err err = ERR_INIT;
#if !defined(__aarch64__)
    return missing(ret, "virtual machines run on arm64 only in this version of brig",
                   "--level high is the strongest here");
#endif
    struct guest_kernel *kernel = calloc(1, sizeof *kernel);
    bool good = kernel && probe_device(ret);
    if (good && (program_beside("brig-vmm", program, sizeof program, &err) < 0 ||
                 guests_choose(kernel, &err) < 0))
        good = missing(ret, err.message, err.hint);
    if (good)
        snprintf(ret->how, sizeof ret->how, "guest kernel %s, %s", kernel->release,
                 kernel->kept ? "kept by brig" : kernel->image);
    free(kernel);
    return good;
}
