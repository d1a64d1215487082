/* docs/seccomp.md says what the table says, and the table knows every number that the headers know.
 */
#include "kernel/process/filter_doc.h"

#include "filter_fixture.h"

#include <stdio.h>
#include <stdlib.h>

static const struct {
    const char *name;
    int x86_64, aarch64;
} table[] = {
#define CALL(name, x86_64, aarch64, rule, group, why) {#name, x86_64, aarch64},
#include "kernel/process/calls.def"
#undef CALL
};
#define TABLE_LEN (sizeof(table) / sizeof(table[0]))

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

/* Lines like "#define __NR_read 0" or "#define __NR3264_mmap 222". */
static int header_numbers(const char *path, bool generic)
{
    char line[256], name[64];
    int nr, found = 0;
    FILE *f = fopen(path, "r");
    if (!f)
        return 0;
    while (fgets(line, sizeof(line), f)) {
        const char *p = line;
        if (strncmp(p, "#define __NR3264_", 17) == 0)
            p += 17;
        else if (strncmp(p, "#define __NR_", 13) == 0)
            p += 13;
        else
            continue;
        if (sscanf(p, "%63s %d", name, &nr) != 2)
            continue;
        for (size_t i = 0; i < TABLE_LEN; i++) {
            if (strcmp(table[i].name, name) != 0)
                continue;
            cr_assert_eq(generic ? table[i].aarch64 : table[i].x86_64, nr, "%s", name);
            found++;
        }
    }
    fclose(f);
    return found;
}

Test(filter_doc, numbers_are_those_of_the_kernel_headers)
{
    cr_assert_geq(header_numbers("/usr/include/x86_64-linux-gnu/asm/unistd_64.h", false), 360);
    cr_assert_geq(header_numbers("/usr/include/asm-generic/unistd.h", true), 300);
}

Test(filter_doc, no_number_twice_and_no_hole)
{
    bool seen[1024] = {false};
    for (size_t i = 0; i < TABLE_LEN; i++) {
        cr_assert_not(seen[table[i].x86_64], "%s", table[i].name);
        seen[table[i].x86_64] = true;
        cr_assert(table[i].x86_64 < 424 || table[i].x86_64 == table[i].aarch64, "%s",
                  table[i].name);
    }
    for (int nr = 0; nr <= 471; nr++)
        cr_assert_eq(seen[nr], nr <= 336 || nr >= 424, "%d", nr);
}

Test(filter_doc, lookups_agree_with_the_table)
{
    struct filter_call call;
    cr_assert_eq(filter_call_count(), TABLE_LEN);
    for (size_t i = 0; i < TABLE_LEN; i++) {
        filter_call_at(i, &call);
        cr_assert_str_eq(call.name, table[i].name);
        cr_assert_eq(call.nr, table[i].x86_64);
        cr_assert(call.verdict[0] && call.why[0]);
        cr_assert_str_eq(filter_call_name((unsigned)call.nr), call.name);
    }
    cr_assert_null(filter_call_name(337));
    cr_assert_null(filter_call_name(1023));
    cr_assert_null(filter_call_name(~0u));
}
