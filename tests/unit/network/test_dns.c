/* DNS: one question in, one answer out. */
#include "network/dns_parse.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* id 0x1234, RD, one question: "WwW.example.org" A IN */
static const uint8_t QUESTION[] = "\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00"
                                  "\x03WwW\x07"
                                  "example\x03org\x00\x00\x01\x00\x01";
#define QUESTION_LEN (sizeof QUESTION - 1)
static const uint8_t OPT[] = "\x00\x00\x29\x04\xd0\x00\x00\x00\x00\x00\x00";
#define OPT_LEN (sizeof OPT - 1)

static struct dns_question q;
static struct err err;

static int parse(const uint8_t *msg, size_t len)
{
    /* On the heap, so that a read past the end is seen. */
    uint8_t *copy = malloc(len ? len : 1);
    memcpy(copy, msg, len);
    int r = dns_question_parse(copy, len, &q, &err);
    free(copy);
    return r;
}

/* The question with one byte changed. */
static int changed(size_t at, uint8_t value)
{
    uint8_t msg[QUESTION_LEN];
    memcpy(msg, QUESTION, QUESTION_LEN);
    msg[at] = value;
    return parse(msg, QUESTION_LEN);
}

Test(dns, a_question)
{
    cr_assert_eq(parse(QUESTION, QUESTION_LEN), 0, "%s", err.message);
    cr_assert_eq(q.id, 0x1234);
    cr_assert(q.recursion_desired);
    cr_assert_eq(q.type, 1);
    cr_assert_str_eq(q.name.text, "www.example.org");
    cr_assert_eq(q.raw_len, QUESTION_LEN - 12);
    cr_assert_eq(memcmp(q.raw, QUESTION + 12, q.raw_len), 0, "repeated as it came, capitals too");
}

Test(dns, an_opt_record_is_ignored)
{
    uint8_t msg[QUESTION_LEN + OPT_LEN + 4] = {0};
    memcpy(msg, QUESTION, QUESTION_LEN);
    memcpy(msg + QUESTION_LEN, OPT, OPT_LEN);
    msg[11] = 1;
    cr_assert_eq(parse(msg, QUESTION_LEN + OPT_LEN), 0);
    cr_assert_eq(parse(msg, QUESTION_LEN + OPT_LEN - 1), -EBADMSG);
    cr_assert_eq(parse(msg, QUESTION_LEN + OPT_LEN + 4), -EBADMSG, "its length is another");
    msg[QUESTION_LEN + 10] = 4;
    cr_assert_eq(parse(msg, QUESTION_LEN + OPT_LEN + 4), 0);
    msg[11] = 0;
    cr_assert_eq(parse(msg, QUESTION_LEN + OPT_LEN + 4), -EBADMSG, "bytes that nobody announced");
    msg[11] = 2;
    cr_assert_eq(parse(msg, QUESTION_LEN + OPT_LEN + 4), -EBADMSG);
}

Test(dns, dropped)
{
    cr_assert_eq(parse(QUESTION, 0), -EINVAL);
    cr_assert_eq(parse(QUESTION, 11), -EINVAL);
    cr_assert_eq(changed(2, 0x81), -EINVAL, "an answer is never answered");
}

Test(dns, refused)
{
    for (size_t len = 12; len < QUESTION_LEN; len++)
        cr_expect_eq(parse(QUESTION, len), -EBADMSG, "cut at %zu", len);
    cr_assert_eq(q.id, 0x1234, "the number is there for the answer");
    cr_assert_eq(changed(2, 0x29), -EBADMSG, "opcode");
    cr_assert_eq(changed(2, 0x03), -EBADMSG, "cut off");
    cr_assert_eq(changed(5, 0), -EBADMSG, "no question");
    cr_assert_eq(changed(5, 2), -EBADMSG, "two");
    cr_assert_eq(changed(7, 1), -EBADMSG, "an answer section");
    cr_assert_eq(changed(9, 1), -EBADMSG, "an authority section");
    cr_assert_eq(changed(12, 0xc0), -EBADMSG, "compression");
    cr_assert_eq(changed(12, 0x40), -EBADMSG, "extended label");
    cr_assert_eq(changed(12, 0), -EBADMSG, "the root, and bytes behind");
    cr_assert_eq(changed(14, '.'), -EBADMSG, "a dot within a label");
    cr_assert_eq(changed(14, 0), -EBADMSG, "a zero within a label");
    cr_assert_eq(changed(14, ' '), -EBADMSG);
    cr_assert_eq(changed(14, 0xc3), -EBADMSG);
    cr_assert_eq(changed(QUESTION_LEN - 1, 3), -EBADMSG, "class CH");
}

/* Labels of 63 bytes, `count` of them, and a last one. */
static int parse_long(unsigned count, unsigned last)
{
    uint8_t msg[600] = {0};
    size_t at = 12;
    memcpy(msg, QUESTION, 12);
    for (unsigned i = 0; i <= count; i++) {
        unsigned label = i < count ? 63 : last;
        msg[at++] = (uint8_t)label;
        memset(msg + at, 'a', label);
        at += label;
    }
    at++;
    msg[at + 1] = 28;
    msg[at + 3] = 1;
    return parse(msg, at + 4);
}

Test(dns, length_of_names)
{
    cr_assert_eq(parse_long(3, 61), 0, "253 characters");
    cr_assert_eq(q.raw_len, 259);
    cr_assert_eq(q.type, 28);
    cr_assert_eq(parse_long(3, 62), -EBADMSG);
    cr_assert_eq(parse_long(4, 63), -EBADMSG);
    cr_assert_eq(parse_long(8, 10), -EBADMSG);
}

Test(dns, answers)
{
    static const uint8_t v4[4] = {198, 18, 1, 0}, v6[16] = {0xfd, 0x62};
    uint8_t out[DNS_MESSAGE_MAX];
    cr_assert_eq(parse(QUESTION, QUESTION_LEN), 0);
    size_t len = dns_answer_write(&q, DNS_ADDRESS, v4, out);
    cr_assert_eq(len, QUESTION_LEN + 16);
    cr_assert_eq(memcmp(out, "\x12\x34\x81\x80\x00\x01\x00\x01\x00\x00\x00\x00", 12), 0);
    cr_assert_eq(memcmp(out + 12, QUESTION + 12, QUESTION_LEN - 12), 0);
    cr_assert_eq(memcmp(out + QUESTION_LEN, "\xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x3c\x00\x04", 12),
                 0);
    cr_assert_eq(memcmp(out + len - 4, v4, 4), 0);
    q.type = 28;
    cr_assert_eq(dns_answer_write(&q, DNS_ADDRESS, v6, out), QUESTION_LEN + 28);
    q.type = 16;
    cr_assert_eq(dns_answer_write(&q, DNS_ADDRESS, v6, out), QUESTION_LEN, "no such type");
    cr_assert_eq(out[7], 0);
}

Test(dns, other_answers)
{
    static const struct {
        enum dns_answer answer;
        uint8_t rcode;
    } cases[] = {{DNS_NO_DATA, 0}, {DNS_NXDOMAIN, 3}, {DNS_REFUSED, 5}, {DNS_FORMERR, 1}};
    uint8_t out[DNS_MESSAGE_MAX];
    cr_assert_eq(parse(QUESTION, QUESTION_LEN), 0);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        cr_assert_eq(dns_answer_write(&q, cases[i].answer, NULL, out), QUESTION_LEN);
        cr_assert_eq(out[3] & 0xf, cases[i].rcode);
        cr_assert_eq(out[7], 0, "no answer in it");
    }
    cr_assert_eq(changed(12, 0xc0), -EBADMSG);
    cr_assert_eq(dns_answer_write(&q, DNS_FORMERR, NULL, out), 12);
    cr_assert_eq(memcmp(out, "\x12\x34\x81\x81\x00\x00\x00\x00\x00\x00\x00\x00", 12), 0);
}
