#include "proxy/hosts.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static char found[1024];

static void note(void *ctx, const struct host *address)
{
    (void)ctx;
    snprintf(found + strlen(found), sizeof found - strlen(found), "%s ", address->text);
}

static const char *find(const struct hosts *h, const char *name)
{
    struct host host;
    found[0] = '\0';
    cr_assert_eq(host_parse(name, strlen(name), false, &host, NULL), 0);
    hosts_find(h, &host, note, NULL);
    return found;
}

static struct hosts parse(const char *text)
{
    struct hosts h = {0};
    hosts_parse(&h, text, strlen(text));
    return h;
}

Test(hosts, reads_names_of_both_families)
{
    struct hosts h = parse("# comment\n"
                           "127.0.0.1\tlocalhost loop\n"
                           "::1 localhost # and more.example\n"
                           "\n"
                           "   10.0.0.5   DB.internal.  # trailing\r\n"
                           "10.0.0.6 last");
    cr_expect_str_eq(find(&h, "localhost"), "127.0.0.1 ::1 ");
    cr_expect_str_eq(find(&h, "loop"), "127.0.0.1 ");
    cr_expect_str_eq(find(&h, "db.internal"), "10.0.0.5 ");
    cr_expect_str_eq(find(&h, "last"), "10.0.0.6 ");
    cr_expect_str_eq(find(&h, "more.example"), "");
    hosts_done(&h);
}

Test(hosts, leaves_out_what_it_does_not_understand)
{
    struct hosts h =
        parse("nonsense a\n300.1.1.1 b\n10.0.0.1\n10.0.0.2 sp@m ok\nfe80::1%lo c\n1.2.3 d\n");
    cr_expect_eq(h.count, 1);
    cr_expect_str_eq(find(&h, "ok"), "10.0.0.2 ");
    hosts_done(&h);
}

Test(hosts, is_bounded)
{
    static char text[64 * 5000];
    for (int i = 0; i < 5000; i++)
        snprintf(text + strlen(text), 64, "10.0.%d.%d n%d\n", i / 256, i % 256, i);
    struct hosts h = parse(text);
    cr_expect_eq(h.count, 1024);
    hosts_done(&h);
    hosts_read(&h, "/nonexistent");
    cr_expect_eq(h.count, 0);
}
