/* Messages of D-Bus: what is written is read again, and what is cut or made up is none. */
#include "oci/bus.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static const char *const to[3] = {"/org/x", "org.x.Y", "Do"};

static void make(struct buf *out)
{
    cleanup_buf struct buf body;
    buf_init(&body, 4096);
    buf_init(out, 4096);
    bus_u32(&body, 7);
    bus_string(&body, "text");
    bus_signature(&body, "s"); /* of a variant */
    bus_string(&body, "inside");
    bus_call(out, 5, to, "usv", &body);
}

Test(oci_bus, what_is_written_is_read)
{
    struct buf b;
    struct bus_message m;
    make(&b);
    const uint8_t *data = (const uint8_t *)b.data;
    cr_assert_eq(bus_length(data), b.len);
    cr_assert(bus_parse(data, b.len, &m));
    cr_expect_eq(m.type, BUS_CALL);
    cr_expect_str_eq(m.member, "Do");
    cr_expect_str_eq(m.signature, "usv");
    cr_expect_null(bus_text_at(&m, 0), "a number is no text");
    cr_expect_str_eq(bus_text_at(&m, 1), "text");
    cr_expect_str_eq(bus_text_at(&m, 2), "inside");
    cr_expect_null(bus_text_at(&m, 3));
    buf_done(&b);
}

Test(oci_bus, an_array_has_the_length_of_its_elements)
{
    cleanup_buf struct buf b;
    static const unsigned char want[] = {1, 0, 0,   0, 12, 0, 0, 0, 1, 0,
                                         0, 0, 'a', 0, 0,  0, 2, 0, 0, 0};
    buf_init(&b, 64);
    bus_u32(&b, 1);
    struct bus_array a = bus_array_begin(&b, 8);
    bus_string(&b, "a");
    bus_u32(&b, 2);
    bus_array_end(&b, a);
    cr_assert_eq(b.len, sizeof want);
    cr_expect_arr_eq(b.data, want, sizeof want);
}

Test(oci_bus, what_is_cut_is_none)
{
    struct buf b;
    struct bus_message m;
    make(&b);
    for (size_t len = 0; len < b.len; len++) {
        char *part = malloc(len ? len : 1);
        memcpy(part, b.data, len);
        cr_expect_not(bus_parse((uint8_t *)part, len, &m), "%zu", len);
        free(part);
    }
    buf_done(&b);
}

Test(oci_bus, lengths_that_cannot_be)
{
    uint8_t head[16] = {'l', 1, 0, 1};
    cr_expect_eq(bus_length(head), 16);
    memset(head + 4, 0xff, 4);
    cr_expect_eq(bus_length(head), 0);
    memset(head + 4, 0, 4);
    memset(head + 12, 0xff, 4);
    cr_expect_eq(bus_length(head), 0);
    memset(head + 12, 0, 4);
    head[0] = 'B';
    cr_expect_eq(bus_length(head), 0);
}

Test(oci_bus, a_text_ends_where_it_says)
{
    struct bus_message m = {.signature = "s"};
    uint8_t body[] = {3, 0, 0, 0, 'a', 0, 'b', 0};
    m.body = body;
    m.body_len = sizeof body;
    cr_expect_null(bus_text_at(&m, 0));
    body[5] = 'x';
    cr_expect_str_eq(bus_text_at(&m, 0), "axb");
    body[7] = 'c';
    cr_expect_null(bus_text_at(&m, 0));
    body[0] = 200;
    cr_expect_null(bus_text_at(&m, 0));
}
