/* docs/seccomp.md says what the table says, and the table knows every call that the kernel's
 * headers know, by the same number, for both architectures. */
#include "kernel/process/filter_doc.h"

#include "filter_fixture.h"

#include <stdio.h>
#include <stdlib.h>

static void read_file(const char *path, struct buf *out)
{
    char chunk[4096];
    size_t n;
    FILE *f = fopen(path, "r");
    cr_assert(f, "%s", path);
    while ((n = fread(chunk, 1, sizeof(chunk), f)) > 0)
        buf_add(out, chunk, n);
    fclose(f);
}

Test(filter_doc, the_page_is_what_the_table_makes)
{
    struct buf page, made;
    buf_init(&page, 1 << 20);
    buf_init(&made, 1 << 20);
    read_file(BRIG_SOURCE "/docs/seccomp.md", &page);
    filter_doc_write(&made);
    cr_assert(!page.failed && !made.failed);
    cr_assert(page.len == made.len && memcmp(page.data, made.data, made.len) == 0,
              "docs/seccomp.md is out of date: run tools/gen-seccomp-doc");
    buf_done(&page);
    buf_done(&made);
}

/* What the compiler reads out of the kernel's headers of either architecture, whichever machine
 * this is (tests/unit/kernel/header-calls). Those of Debian 12 end with the calls of Linux 6.1. */
struct header_call {
    const char *name;
    int nr;
};
static const struct header_call x86_64_headers[] = {
#include "header_calls_x86_64.h"
    {NULL, -1}};
static const struct header_call aarch64_headers[] = {
#include "header_calls_aarch64.h"
    {NULL, -1}};

static const struct header_call *headers(void)
{
    return arch == FILTER_X86_64 ? x86_64_headers : aarch64_headers;
}

TestBoth(filter_doc, every_call_of_the_kernel_headers_is_in_the_table)
{
    size_t count = 0;
    for (const struct header_call *h = headers(); h->name; h++, count++) {
        const char *name = filter_call_name(arch, h->nr);
        cr_assert_not_null(name, "%s, %d, is not in the table", h->name, h->nr);
        cr_assert_str_eq(name, h->name, "%d", h->nr);
    }
    cr_assert_geq(count, arch == FILTER_X86_64 ? 360 : 300,
                  "%zu calls: are the kernel headers of both architectures installed "
                  "(linux-libc-dev-amd64-cross or linux-libc-dev-arm64-cross)?",
                  count);
}

static bool in_headers(int nr)
{
    for (const struct header_call *h = headers(); h->name; h++)
        if (h->nr == nr)
            return true;
    return false;
}

/* Names of the kernel's own that no header tells programs, and calls newer than the headers. */
TestBoth(filter_doc, every_call_of_the_table_is_in_the_kernel_headers)
{
    int newest = 0;
    for (const struct header_call *h = headers(); h->name; h++)
        newest = h->nr > newest ? h->nr : newest;
    for (enum call c = 0; c < CALLS; c++) {
        bool untold = c == CALL_uprobe || c == CALL_uretprobe;
        if (number(c) >= 0 && number(c) <= newest && !untold)
            cr_assert(in_headers(number(c)), "%s, %d", call_numbers[c].name, number(c));
    }
}

/* Since 424 all architectures give a call the same number. */
TestBoth(filter_doc, no_number_twice_and_no_hole)
{
    bool seen[1024] = {false};
    int last = arch == FILTER_X86_64 ? 336 : 294;
    for (enum call c = 0; c < CALLS; c++) {
        if (number(c) < 0)
            continue;
        cr_assert_not(seen[number(c)], "%s", call_numbers[c].name);
        seen[number(c)] = true;
        cr_assert(number(c) < 424 || call_numbers[c].x86_64 == call_numbers[c].aarch64, "%s",
                  call_numbers[c].name);
    }
    for (int nr = 0; nr <= 471; nr++) {
        /* Kept for calls of single architectures, and for none of aarch64. */
        bool reserved = arch == FILTER_AARCH64 && nr >= 244 && nr < 260;
        cr_assert_eq(seen[nr], !reserved && (nr <= last || nr >= 424), "%d", nr);
    }
}

TestBoth(filter_doc, lookups_agree_with_the_table)
{
    struct filter_call call;
    cr_assert_eq(filter_call_count(), CALLS);
    for (enum call c = 0; c < CALLS; c++) {
        filter_call_at(arch, c, &call);
        cr_assert_str_eq(call.name, call_numbers[c].name);
        cr_assert_eq(call.nr, number(c));
        cr_assert(call.verdict[0] && call.why[0]);
        if (call.nr >= 0)
            cr_assert_str_eq(filter_call_name(arch, call.nr), call.name);
    }
    cr_assert_null(filter_call_name(arch, 337));
    cr_assert_null(filter_call_name(arch, 1023));
    cr_assert_null(filter_call_name(arch, -1));
    cr_assert_null(filter_call_name(ARCH_I386, 20));
    cr_assert_null(filter_call_name(ARCH_ARM, 20));
}
