/* A virtual machine: memory, processors, an interrupt controller, and windows in its address space
 * in which devices are found. What differs between architectures is in arm64/ and x86-64/. */
#pragma once

#include "base/err.h"
#include "engines/vm/device.h"
#include "engines/vm/machine_end.h"
#include "engines/vm/state.h"

#include <pthread.h>

#define MACHINE_CPUS_MAX    8
#define MACHINE_DEVICES_MAX 2
#define MACHINE_SPACING     0x1000u /* between the windows of devices */

struct kvm_run;

struct machine {
    int kvm, vm;
    int interrupts; /* the controller's descriptor, where it has one */
    struct guest_memory memory;
    unsigned cpu_count;
    int cpus[MACHINE_CPUS_MAX];
    struct kvm_run *runs[MACHINE_CPUS_MAX];
    size_t run_size;
    unsigned device_count;
    struct device *devices[MACHINE_DEVICES_MAX];
    int lines[MACHINE_DEVICES_MAX];                    /* irqfd of each */
    int bells[MACHINE_DEVICES_MAX][DEVICE_QUEUES_MAX]; /* ioeventfd of each queue */
    int unheard;          /* an eventfd that takes what need not be heard: nobody reads it */
    pthread_mutex_t lock; /* of all devices */
    uint64_t exits;
    bool halts; /* machine_halt */
};

/* Where a machine's memory lies. */
enum machine_memory {
    MACHINE_ALONE, /* in no file: nobody else has it, and it is gone with the monitor */
    MACHINE_PARKS, /* in a file, and what is written there stays */
    MACHINE_CLONE, /* a sealed file's contents, of which each page becomes its own when written to
                    */
};
struct machine_wish {
    int kvm; /* an open /dev/kvm */
    uint64_t memory;
    unsigned cpus;
    enum machine_memory kind;
    int file; /* -1: MACHINE_ALONE */
};
int machine_make(struct machine *m, const struct machine_wish *wish, struct err *err);
int machine_add(struct machine *m, struct device *d, struct err *err);
/* After all devices were added: kernel and initramfs into memory, the first processor at its
 * entry. */
int machine_load(struct machine *m, int kernel, int initramfs, struct err *err);
/* Runs a processor until the guest needs something, and gives it that. */
enum machine_end machine_step(struct machine *m, unsigned cpu);
/* From now on machine_step comes back with MACHINE_HALTED as soon as a processor has finished what
 * it had left for; who calls this interrupts their threads (a signal) so that they leave. */
void machine_halt(struct machine *m);

/* Reads a file, from an offset on, into guest memory, at an offset from its start; the length, or
 * negative. */
int64_t machine_read(struct machine *m, uint64_t at, int fd, uint64_t from, const char *what,
                     struct err *err);

/* In arm64/ and x86-64/. */
extern const uint64_t arch_memory_base, arch_device_base;
/* Guest addresses between which there is no memory; 0: there is no such gap. */
extern const uint64_t arch_gap_at, arch_gap_end;
/* Before and after the processors are made. */
int arch_before_cpus(struct machine *m, struct err *err);
int arch_after_cpus(struct machine *m, struct err *err);
/* The number of a device's interrupt line, as irqfd wants it. */
unsigned arch_line(unsigned device);
int arch_load(struct machine *m, int kernel, int initramfs, struct err *err);
/* All of the machine but its memory and its devices. When it is saved all processors are stopped,
 * have finished what they had left for, and run no more. It is restored into a machine that was
 * made, with its devices added, in the place of arch_load; the state is checked like any input
 * (VM-27), and brings back nothing that arch_before_cpus and arch_after_cpus closed. Time of the
 * guest's own stands still between the two. */
int arch_save(struct machine *m, struct state_writer *w, struct err *err);
int arch_restore(struct machine *m, struct state_reader *r, struct err *err);
/* KVM's calls that arch_save makes: a monitor that parks keeps them (VM-13). */
extern const uint32_t arch_save_calls[];
extern const unsigned arch_save_call_count;
/* What only this architecture's processors stop for. */
enum machine_end arch_exit(struct machine *m, unsigned cpu);
