/* The interrupt controller (GICv3) of a machine: where it is, and its words out of one machine and
 * into another. */
#pragma once

#include "engines/vm/machine.h"

#define GIC_DISTRIBUTOR   0x08000000ull
#define GIC_REDISTRIBUTOR 0x080a0000ull
#define GIC_PER_CPU       0x20000ull
#define GIC_INTERRUPTS    64u /* 32 of each processor's own, 32 of devices */

int gic_save(const struct machine *m, struct state_writer *w, struct err *err);
/* After the processors' registers. */
int gic_restore(const struct machine *m, struct state_reader *from, struct err *err);
