/* Writes ACPI tables: RSDP → XSDT → FADT → DSDT, and the MADT.
 *
 * The machine is "hardware reduced": no power management block, no SCI, no timer of the chip set,
 * and so nothing for the monitor to emulate but two registers of a byte each. The DSDT has names
 * only, no methods: there is nothing in it that the guest's interpreter would execute. */
#include "engines/vm/x86-64/acpi.h"

#include "engines/vm/x86-64/ports.h"

#include <stdbool.h>
#include <string.h>

#define HEADER            36u
#define FADT_LEN          276u
#define LOCAL_CONTROLLERS 0xfee00000u
#define IO_CONTROLLER     0xfec00000u

struct out {
    uint8_t *bytes;
    size_t len, room;
    bool failed;
};

static void raw(struct out *o, const void *data, size_t len)
{
    if (len > o->room - o->len) {
        o->failed = true;
        return;
    }
    memcpy(o->bytes + o->len, data, len);
    o->len += len;
}

static void number(struct out *o, uint64_t value, unsigned width)
{
    uint8_t bytes[8];
    for (unsigned i = 0; i < width; i++)
        bytes[i] = (uint8_t)(value >> 8 * i);
    raw(o, bytes, width);
}

static void zeros(struct out *o, size_t len)
{
    while (len-- > 0)
        number(o, 0, 1);
}

static uint8_t missing_to_zero(const uint8_t *bytes, size_t len)
{
    uint8_t sum = 0;
    for (size_t i = 0; i < len; i++)
        sum = (uint8_t)(sum + bytes[i]);
    return (uint8_t)-sum;
}

/* ---- tables ---- */

static size_t table_begin(struct out *o, const char *signature, uint8_t revision)
{
    while (o->len % 16 && !o->failed)
        number(o, 0, 1);
    size_t at = o->len;
    raw(o, signature, 4);
    number(o, 0, 4); /* the length */
    number(o, revision, 1);
    number(o, 0, 1); /* the sum */
    raw(o, "BRIG  BRIGVM  ", 14);
    number(o, 1, 4);
    raw(o, "BRIG", 4);
    number(o, 1, 4);
    return at;
}

/* The address at which the guest finds it. */
static uint64_t table_end(struct out *o, size_t at)
{
    size_t len = o->len - at;
    if (o->failed)
        return 0;
    for (unsigned i = 0; i < 4; i++)
        o->bytes[at + 4 + i] = (uint8_t)(len >> 8 * i);
    o->bytes[at + 9] = missing_to_zero(o->bytes + at, len);
    return ACPI_AT + at;
}

/* ---- AML: a package is written first, and its length put in front when it is complete ---- */

static void package_end(struct out *o, size_t at)
{
    size_t body = o->len - at, width = body + 1 <= 63 ? 1 : 2, len = body + width;
    if (o->failed || len > 0xfff || width > o->room - o->len) {
        o->failed = true;
        return;
    }
    memmove(o->bytes + at + width, o->bytes + at, body);
    o->len += width;
    o->bytes[at] = width == 1 ? (uint8_t)len : (uint8_t)(0x40 | (len & 15));
    if (width == 2)
        o->bytes[at + 1] = (uint8_t)(len >> 4);
}

static void name(struct out *o, const char *four)
{
    number(o, 0x08, 1);
    raw(o, four, 4);
}

static void byte_value(struct out *o, uint8_t value)
{
    number(o, 0x0a, 1);
    number(o, value, 1);
}

/* Name (_S5_, Package () {5, 0}): what is written to the sleep register to switch off. */
static void describe_off(struct out *o)
{
    name(o, "_S5_");
    number(o, 0x12, 1);
    size_t package = o->len;
    number(o, 2, 1);
    byte_value(o, PORTS_SLEEP_OFF);
    byte_value(o, 0);
    package_end(o, package);
}

/* A range of memory and an interrupt that comes once (edge), high. */
static void describe_resources(struct out *o, const struct acpi_window *w)
{
    name(o, "_CRS");
    number(o, 0x11, 1);
    size_t buffer = o->len;
    byte_value(o, 12 + 9 + 2);
    number(o, 0x01000986, 4); /* Memory32Fixed, 9 bytes, may be written */
    number(o, w->at, 4);
    number(o, w->len, 4);
    number(o, 0x0103000689, 5); /* Interrupt, 6 bytes, edge; one number */
    number(o, w->line, 4);
    number(o, 0x0079, 2); /* the end; no sum */
    package_end(o, buffer);
}

static void describe_device(struct out *o, const struct acpi_window *w, unsigned i)
{
    const char four[4] = {'V', 'I', 'O', (char)('0' + i)};
    number(o, 0x825b, 2);
    size_t device = o->len;
    raw(o, four, 4);
    name(o, "_HID");
    number(o, 0x0d, 1);
    raw(o, "LNRO0005", 9); /* by this name Linux knows virtio-mmio */
    name(o, "_UID");
    byte_value(o, (uint8_t)i);
    describe_resources(o, w);
    package_end(o, device);
}

static uint64_t write_dsdt(struct out *o, const struct acpi_machine *m)
{
    size_t at = table_begin(o, "DSDT", 2);
    describe_off(o);
    number(o, 0x10, 1);
    size_t scope = o->len;
    raw(o, "\\_SB_", 5);
    for (unsigned i = 0; i < m->devices; i++)
        describe_device(o, &m->windows[i], i);
    package_end(o, scope);
    return table_end(o, at);
}

/* ---- what has a fixed form ---- */

/* A register of a byte among the ports. */
static void port(struct out *o, uint16_t number_of)
{
    number(o, 0x01000801, 4);
    number(o, number_of, 8);
}

static uint64_t write_fadt(struct out *o, uint64_t dsdt)
{
    enum {
        WRITE_BACK = 1 << 0,
        NO_POWER_BUTTON = 1 << 4,
        NO_SLEEP_BUTTON = 1 << 5,
        RESET_REGISTER = 1 << 10,
        REDUCED = 1 << 20,
    };
    enum { NO_VGA = 1 << 2, NO_MSI = 1 << 3, NO_ASPM = 1 << 4, NO_CMOS = 1 << 5 };
    size_t at = table_begin(o, "FACP", 6);
    zeros(o, 4);
    number(o, dsdt, 4);
    zeros(o, 109 - 44);
    number(o, NO_VGA | NO_MSI | NO_ASPM | NO_CMOS, 2); /* neither an i8042 nor other legacy */
    zeros(o, 1);
    number(o, WRITE_BACK | NO_POWER_BUTTON | NO_SLEEP_BUTTON | RESET_REGISTER | REDUCED, 4);
    port(o, PORT_RESET);
    number(o, PORTS_RESET_VALUE, 1);
    zeros(o, 2);
    number(o, 3, 1); /* version 6.3 */
    zeros(o, 8);
    number(o, dsdt, 8);
    zeros(o, 244 - 148);
    port(o, PORT_SLEEP);
    port(o, PORT_SLEEP_STATUS);
    zeros(o, FADT_LEN - 268);
    return table_end(o, at);
}

static uint64_t write_madt(struct out *o, const struct acpi_machine *m)
{
    size_t at = table_begin(o, "APIC", 5);
    number(o, LOCAL_CONTROLLERS, 4);
    number(o, 0, 4); /* no 8259 */
    for (unsigned i = 0; i < m->cpus; i++) {
        number(o, 0x0800, 2);
        number(o, i, 1);
        number(o, i, 1);
        number(o, 1, 4);
    }
    number(o, 0x0c01, 2);
    number(o, m->cpus, 2);
    number(o, IO_CONTROLLER, 4);
    number(o, 0, 4);
    return table_end(o, at);
}

static uint64_t write_xsdt(struct out *o, uint64_t fadt, uint64_t madt)
{
    size_t at = table_begin(o, "XSDT", 1);
    number(o, fadt, 8);
    number(o, madt, 8);
    return table_end(o, at);
}

static void write_rsdp(struct out *o, uint64_t xsdt)
{
    raw(o, "RSD PTR ", 8);
    number(o, 0, 1);
    raw(o, "BRIG  ", 6);
    number(o, 2, 1);
    zeros(o, 4);
    number(o, HEADER, 4);
    number(o, xsdt, 8);
    zeros(o, 4);
    if (o->failed)
        return;
    o->bytes[8] = missing_to_zero(o->bytes, 20);
    o->bytes[32] = missing_to_zero(o->bytes, HEADER);
}

size_t acpi_write(const struct acpi_machine *m, uint8_t *to, size_t room)
{
    struct out o = {.bytes = to, .room = room};
    struct out first = {.bytes = to, .room = HEADER};
    if (m->devices > sizeof m->windows / sizeof *m->windows)
        return 0;
    zeros(&o, HEADER); /* the RSDP's place: it is written last */
    uint64_t dsdt = write_dsdt(&o, m), fadt = write_fadt(&o, dsdt), madt = write_madt(&o, m);
    uint64_t xsdt = write_xsdt(&o, fadt, madt);
    if (o.failed)
        return 0;
    write_rsdp(&first, xsdt);
    return o.len;
}
