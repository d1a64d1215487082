/* Calls on a real connection: what a handler may do with one after it was answered. */
#include "client.h"
#include "daemon/e2b/envd.h"
#include "daemon/e2b/frames.h"
#include "files/files.h"

/* ---- CL-1 ---- */

static void answers_twice(struct call *call)
{
    memcpy(call->id, "mark", 5);
    call_fail(call, 418, "first");
    cr_expect_null(call->x);
    cr_expect_str_eq(call->id, "mark", "it is still there");
    call_fail(call, 500, "second");
    call_empty(call, 204);
    call_text(call, 200, "text/plain", "third", 5);
}

Test(call, one_that_was_answered_can_still_be_looked_at, .init = begin, .fini = end)
{
    handler = answers_twice;
    request("");
    const char *text = answer();
    cr_expect_not_null(strstr(text, "418"), "%s", text);
    cr_expect_null(strstr(text, "second"));
    cr_expect_null(strstr(text, "third"));
    cr_expect_eq(held(), 0);
}

static void body_answers(struct call *call, const struct json *body)
{
    cr_expect_str_eq(json_text(body, "a"), "b\n");
    call_text(call, 200, "text/plain", "good", 4);
    cr_expect_str_eq(json_text(body, "a"), "b\n", "so is its body");
}

static void reads_json(struct call *call)
{
    call_json(call, body_answers);
}

Test(call, its_body_stays_as_long, .init = begin, .fini = end)
{
    handler = reads_json;
    request("{\"a\":\"b\\n\"}");
    cr_expect_not_null(strstr(answer(), "good"));
    cr_expect_eq(held(), 0);
}

static void waits(struct call *call)
{
    call_watch(call);
    call_wait(call);
}

Test(call, one_whose_client_left_is_freed_by_its_callback, .init = begin, .fini = end)
{
    handler = waits;
    request("");
    client_leave();
    settle();
    cr_expect_null(last->x);
    cr_expect_not(call_back(last));
    cr_expect_null(last->x, "not before the end of the round");
    settle();
    cr_expect_eq(held(), 0);
}

Test(call, what_its_key_has_no_room_for_is_refused, .init = begin, .fini = end)
{
    struct account *a = account_of(core_accounts(w.core), &owner);
    uint64_t room = account_room(a, ACCOUNT_BYTES) - 40000;
    static char body[1000];
    handler = reads_json;
    cr_assert_eq(account_charge(a, ACCOUNT_BYTES, room, NULL), 0);
    memset(body, ' ', sizeof body - 1);
    /* A list of few bytes and many values. */
    body[0] = '{', body[1] = '"', body[2] = 'a', body[3] = '"', body[4] = ':', body[5] = '[';
    for (int i = 6; i < 900; i += 2)
        body[i] = '1', body[i + 1] = ',';
    body[899] = ']', body[900] = '}';
    request(body);
    const char *text = answer();
    cr_expect_not_null(strstr(text, "HTTP/1.1 429"), "%s", text);
    account_return(a, ACCOUNT_BYTES, room);
    settle();
    cr_expect_eq(held(), 0);
}

/* ---- a body that is too long, or nonsense ---- */

static void body_came(struct call *call, const char *data, size_t len)
{
    (void)data;
    call_text(call, 200, "text/plain", len <= 100 ? "good" : "too much", len <= 100 ? 4 : 8);
}

static void reads_little(struct call *call)
{
    call_body(call, 100, body_came);
}

static void request_chunk(const char *body, size_t len)
{
    char text[2048];
    int n = snprintf(text, sizeof text,
                     "POST /x HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
                     "%zx\r\n%.*s\r\n0\r\n\r\n",
                     len, (int)len, body);
    cr_assert_eq(send(client, text, (size_t)n, MSG_NOSIGNAL), n);
    settle();
}

Test(call, a_body_over_its_limit_is_refused, .init = begin, .fini = end)
{
    static void (*const send_body[])(const char *body, size_t len) = {request_bytes, request_chunk};
    char body[101];
    memset(body, 'a', sizeof body);
    handler = reads_little;
    for (size_t i = 0; i < 2; i++) {
        client_connect();
        send_body[i](body, 100);
        const char *text = answer();
        cr_expect_not_null(strstr(text, "good"), "control: %s", text);
        send_body[i](body, 101);
        text = answer();
        cr_expect_not_null(strstr(text, "HTTP/1.1 413"), "%s", text);
    }
    cr_expect_eq(held(), 0);
}

Test(call, nonsense_is_answered_and_the_connection_goes_on, .init = begin, .fini = end)
{
    static const char *const nonsense[] = {"{", "[1,]", "{\"a\":1,\"a\":2}", "NaN", "{} x", "[]"};
    handler = reads_json;
    for (size_t i = 0; i < sizeof nonsense / sizeof nonsense[0]; i++) {
        request(nonsense[i]);
        const char *text = answer();
        cr_expect_not_null(strstr(text, "HTTP/1.1 400"), "%s: %s", nonsense[i], text);
    }
    request("{\"a\":\"b\\n\"}");
    cr_expect_not_null(strstr(answer(), "good"));
    cr_expect_eq(held(), 0);
}

/* ---- a stream of events: one that was sent is gone ---- */

static struct box *watched;

static void watches(struct call *call)
{
    memcpy(call->id, box_info(watched)->id, sizeof call->id);
    frames_json(call, envd_watch_dir);
}

static void worker_says(uint8_t type, const void *bytes, size_t len)
{
    char out[256] = {(char)type};
    uint32_t length = (uint32_t)len;
    memcpy(out + 4, &length, sizeof length);
    memcpy(out + 8, bytes, len);
    cr_assert_eq(write(w.out, out, 8 + len), (ssize_t)(8 + len));
    settle();
}

static void worker_tells_of(uint32_t kind, const char *name)
{
    char event[64] = {(char)kind};
    memcpy(event + 8, name, strlen(name));
    worker_says(FILES_EVENT, event, 8 + strlen(name));
}

static bool is_told(const char *word)
{
    static char text[8192];
    ssize_t n = recv(client, text, sizeof text, MSG_DONTWAIT);
    return n > 0 && memmem(text, (size_t)n, word, strlen(word));
}

Test(call, an_event_that_was_sent_is_not_looked_at_again, .init = begin, .fini = end)
{
    static const char body[] = "\0\0\0\0\x23{\"path\":\"/tmp\",\"includeEntry\":true}";
    struct files_head head = {0};
    watched = make_box();
    handler = watches;
    request_bytes(body, sizeof body - 1);
    worker_says(FILES_HEAD, &head, sizeof head);
    cr_assert(is_told("start"));
    worker_tells_of(FILES_DELETE, "one"); /* leaves at once */
    cr_assert(is_told("EVENT_TYPE_REMOVE"));
    int events = dup(w.out);
    worker_tells_of(FILES_CREATE, "two"); /* waits for what can be said of it, and that fails */
    set_end(&w.out, -1);
    settle();
    cr_assert(is_told("EVENT_TYPE_CREATE"));
    set_end(&w.out, events);
    worker_tells_of(FILES_DELETE, "two");
    cr_assert(is_told("EVENT_TYPE_REMOVE"));
    box_end(watched, "asked", NULL, NULL);
    settle();
    cr_expect_eq(held(), 0);
}

#define MANY 9000u

static void worker_tells_of_many(void)
{
    static char out[1000 * 18];
    for (unsigned told = 0; told < MANY;) {
        size_t n = 0;
        for (; n + 18 <= sizeof out; n += 18, told++) {
            memset(out + n, 0, 16);
            out[n] = FILES_EVENT;
            out[n + 4] = 10; /* a kind and a name of two letters */
            out[n + 8] = FILES_CREATE;
            memcpy(out + n + 16, "ab", 2);
        }
        cr_assert_eq(write(w.out, out, n), (ssize_t)n);
        settle();
    }
}

static unsigned count_told(const char *word)
{
    static char text[1 << 20];
    size_t len = 0;
    unsigned count = 0;
    for (ssize_t n; len < sizeof text; len += (size_t)n) {
        settle();
        n = recv(client, text + len, sizeof text - len, MSG_DONTWAIT);
        if (n <= 0)
            break;
    }
    for (char *at = text; (at = memmem(at, len - (size_t)(at - text), word, strlen(word))); at++)
        count++;
    return count;
}

/* Each of them fails within the call that asks for it: the next one must not be asked from there.
 */
Test(call, questions_that_fail_at_once_take_no_stack, .init = begin, .fini = end)
{
    static const char body[] = "\0\0\0\0\x23{\"path\":\"/tmp\",\"includeEntry\":true}";
    struct account *a = account_of(core_accounts(w.core), &owner);
    struct files_head head = {0};
    watched = make_box();
    handler = watches;
    request_bytes(body, sizeof body - 1);
    worker_says(FILES_HEAD, &head, sizeof head);
    w.hold[WIRE_FILE] = true;
    worker_tells_of_many();
    struct ward *d = &w.wards[w.ward_count - 1];
    cr_assert_neq(d->held[WIRE_FILE], 0, "the first one is being asked about");
    uint64_t room = account_room(a, ACCOUNT_DESCRIPTORS);
    cr_assert_eq(account_charge(a, ACCOUNT_DESCRIPTORS, room, NULL), 0);
    send_fail(d->io.fd, d->held[WIRE_FILE], ERR_SYSTEM, EIO);
    settle();
    cr_expect_eq(count_told("EVENT_TYPE_CREATE"), MANY);
    account_return(a, ACCOUNT_DESCRIPTORS, room);
    box_end(watched, "asked", NULL, NULL);
    settle();
    cr_expect_eq(held(), 0);
}
