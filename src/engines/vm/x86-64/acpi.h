/* The ACPI tables that tell a kernel on x86-64 about its machine: processors, the interrupt
 * controller, the windows of the devices, and how to switch it off. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define ACPI_AT   0xe0000ull /* where a kernel without firmware looks by itself */
#define ACPI_ROOM 0x2000u

struct acpi_window {
    uint32_t at, len, line;
};
struct acpi_machine {
    unsigned cpus, devices;
    struct acpi_window windows[8];
};

/* Writes all of them to `to`, which the guest finds at ACPI_AT; the first is the RSDP. The length,
 * or 0 if there was no room. */
size_t acpi_write(const struct acpi_machine *m, uint8_t *to, size_t room);
