/* The list of denials: counted, bounded, and readable whatever the code tried. */
#include "audit/denial.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

Test(denial, the_same_thing_is_counted_once_per_kind)
{
    static struct denial_list list;
    for (int i = 0; i < 5; i++)
        denial_add(&list, BOUNDARY_KERNEL, "mount", "rule", "hint");
    denial_add(&list, BOUNDARY_FILESYSTEM, "mount", "rule", "hint");
    denial_add(&list, BOUNDARY_KERNEL, "mount2", "rule", NULL);
    cr_assert(list.count == 3 && list.items[0].count == 5 && list.items[1].count == 1);
    cr_assert_str_eq(list.items[2].hint, "");
}

Test(denial, a_full_table_counts_what_it_cannot_list)
{
    static struct denial_list list;
    char what[32];
    for (int i = 0; i < DENIAL_KINDS_MAX + 10; i++) {
        snprintf(what, sizeof what, "call %d", i);
        denial_add(&list, BOUNDARY_KERNEL, what, "r", "h");
    }
    cr_assert(list.count == DENIAL_KINDS_MAX && list.dropped == 10);
    denial_add(&list, BOUNDARY_KERNEL, "call 3", "r", "h");
    cr_assert(list.items[3].count == 2 && list.dropped == 10, "what is listed is still counted");
}

Test(denial, long_texts_are_cut_and_still_counted_together)
{
    static struct denial_list list;
    char what[400];
    memset(what, 'w', sizeof what - 1);
    what[sizeof what - 1] = '\0';
    denial_add(&list, BOUNDARY_KERNEL, what, what, what);
    denial_add(&list, BOUNDARY_KERNEL, what, what, what);
    cr_assert(list.count == 1 && list.items[0].count == 2);
    cr_assert_eq(strlen(list.items[0].what), sizeof list.items[0].what - 1);
    cr_assert_eq(strlen(list.items[0].hint), sizeof list.items[0].hint - 1);
}

static struct denial_list three(void)
{
    static struct denial_list list;
    memset(&list, 0, sizeof list);
    denial_add(&list, BOUNDARY_KERNEL, "ptrace", "kernel.seccomp: no", "debug outside");
    denial_add(&list, BOUNDARY_KERNEL, "ptrace", "kernel.seccomp: no", "debug outside");
    denial_add(&list, BOUNDARY_NETWORK, "socket \"x\"\n", "net", "");
    return list;
}

Test(denial, json)
{
    struct json_writer w;
    struct buf out;
    struct denial_list list = three();
    buf_init(&out, 4096);
    jw_init(&w, &out, false);
    denial_write_json(&list, &w);
    cr_assert_str_eq(
        buf_text(&out),
        "[{\"boundary\":\"kernel\",\"what\":\"ptrace\",\"rule\":\"kernel.seccomp: no\",\"count\":2,"
        "\"hint\":\"debug outside\"},"
        "{\"boundary\":\"network\",\"what\":\"socket "
        "\\\"x\\\"\\n\",\"rule\":\"net\",\"count\":1,\"hint\":\"\"}]");
    buf_done(&out);
}

Test(denial, one_line_for_a_person)
{
    struct buf out;
    struct denial_list list = three();
    buf_init(&out, 4096);
    denial_line(&list.items[0], &out);
    cr_assert_str_eq(buf_text(&out),
                     "denied: kernel: ptrace (2 times): kernel.seccomp: no; debug outside");
    buf_reset(&out);
    list.items[1].what[10] = '\0';
    denial_line(&list.items[1], &out);
    cr_assert_str_eq(buf_text(&out), "denied: network: socket \"x\": net");
    buf_done(&out);
}
