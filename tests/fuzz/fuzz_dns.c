/* Any bytes as a DNS question: refused, or a name that stands in the question as it came; the
 * answer fits and is no question. */
#include "network/dns_parse.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int condition)
{
    if (!condition)
        abort();
}

/* The labels of the raw question, joined with dots, are the name. */
static void check_name(const struct dns_question *q)
{
    const char *at = q->name.text;
    const uint8_t *raw = q->raw;
    while (*raw) {
        require(strncasecmp(at, (const char *)raw + 1, *raw) == 0);
        at += *raw;
        raw += 1 + *raw;
        require(*at == (*raw ? '.' : '\0'));
        at += *raw ? 1 : 0;
    }
    require((size_t)(raw - q->raw) + 5 == q->raw_len);
}

static void check_answers(const struct dns_question *q)
{
    static const uint8_t addr[16] = {198, 18, 1, 0};
    for (enum dns_answer answer = DNS_ADDRESS; answer <= DNS_FORMERR; answer++) {
        uint8_t out[DNS_MESSAGE_MAX];
        struct dns_question again;
        struct err err = ERR_INIT;
        size_t len = dns_answer_write(q, answer, addr, out);
        require(len >= 12 && len <= DNS_MESSAGE_MAX);
        require((out[0] << 8 | out[1]) == q->id);
        require(dns_question_parse(out, len, &again, &err) == -EINVAL);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct dns_question q;
    struct err err = ERR_INIT;
    int r = dns_question_parse(data, size, &q, &err);
    require(r == 0 || ((r == -EINVAL || r == -EBADMSG) && err.code));
    if (r == 0 && q.name.kind == HOST_NAME)
        check_name(&q);
    if (r != -EINVAL)
        check_answers(&q);
    return 0;
}
