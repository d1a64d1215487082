/* The gate between a client and a front that the test plays; where a bound is shown, the control is
 * the same with a bound that is out of reach. */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/container.h"
#include "tls/gate.h"
#include "wire/handover.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <netinet/in.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define PATIENCE_MS 60000

static struct gate gate;
static struct loop *loop;
static int door;
static struct sockaddr_in at;
static uint64_t ahead_ms; /* of the real clock */

static uint64_t test_clock(void)
{
    return clock_us() / 1000 + ahead_ms;
}

/* ---- a pair, as the launcher gives it ---- */

static int pem_file(void (*fill)(BIO *out, void *what), void *what)
{
    BIO *bio = BIO_new(BIO_s_mem());
    char *text;
    fill(bio, what);
    long len = BIO_get_mem_data(bio, &text);
    int fd = memfd_create("pem", MFD_CLOEXEC);
    cr_assert_eq(write(fd, text, (size_t)len), len);
    BIO_free(bio);
    return fd;
}

static void write_key(BIO *out, void *key)
{
    cr_assert(PEM_write_bio_PrivateKey(out, key, NULL, NULL, 0, NULL, NULL));
}

static void write_certificate(BIO *out, void *x)
{
    cr_assert(PEM_write_bio_X509(out, x));
}

static SSL_CTX *make_settings(void)
{
    struct err err = ERR_INIT;
    char until[PAIR_DATE_SIZE];
    SSL_CTX *made = NULL;
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *x = X509_new();
    ASN1_INTEGER_set(X509_get_serialNumber(x), 1);
    X509_gmtime_adj(X509_getm_notBefore(x), -60);
    X509_gmtime_adj(X509_getm_notAfter(x), 3600);
    X509_set_pubkey(x, key);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(x), "CN", MBSTRING_ASC,
                               (const unsigned char *)"test", -1, -1, 0);
    X509_set_issuer_name(x, X509_get_subject_name(x));
    cr_assert(X509_sign(x, key, EVP_sha256()));
    cleanup_fd int certificate = pem_file(write_certificate, x);
    cleanup_fd int key_file = pem_file(write_key, key);
    const struct pair_words words = {.certificate = "cert", .key = "key"};
    cr_assert_eq(pair_load(certificate, key_file, &words, &made, until, &err), 0, "%s",
                 err.message);
    X509_free(x);
    EVP_PKEY_free(key);
    return made;
}

static void open_gate(void)
{
    struct err err = ERR_INIT;
    int ends[2], fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t len = sizeof at;
    at = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    cr_assert_eq(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    cr_assert_eq(listen(fd, 64), 0);
    cr_assert_eq(tcp_listener_set_up(fd), 0);
    cr_assert_eq(getsockname(fd, (struct sockaddr *)&at, &len), 0);
    cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    signal(SIGPIPE, SIG_IGN);
    cr_assert_eq(pair_prepare(&err), 0);
    cr_assert_eq(loop_new(&loop, &err), 0);
    ahead_ms = 0;
    loop_set_clock(loop, test_clock);
    door = ends[1];
    gate_init(&gate, loop, ends[0]);
    cr_assert_eq(gate_listen(&gate, fd, &err), 0);
    gate_use(&gate, make_settings());
}

/* ---- turns of the loop ---- */

static bool (*wanted)(void);
static bool came;
static uint64_t give_up_us;

static void look(struct loop_task *t)
{
    came = wanted();
    if (came || clock_us() > give_up_us)
        loop_stop(loop);
    else
        loop_defer(loop, t);
}

static bool until(bool (*condition)(void))
{
    struct loop_task task = {.fn = look};
    wanted = condition;
    give_up_us = clock_us() + PATIENCE_MS * UINT64_C(1000);
    loop_defer(loop, &task);
    loop_run(loop);
    return came;
}

static unsigned rounds;

static bool a_few_rounds(void)
{
    return rounds-- == 0;
}

static void turn(void)
{
    rounds = 50;
    until(a_few_rounds);
}

/* ---- clients ---- */

static int dial(void)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(connect(fd, (struct sockaddr *)&at, sizeof at), 0);
    return fd;
}

/* A client in a process of its own, past its handshake. */
static pid_t client(int (*act)(SSL *ssl))
{
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    SSL *ssl = SSL_new(SSL_CTX_new(TLS_client_method()));
    SSL_set_fd(ssl, dial());
    _exit(SSL_connect(ssl) == 1 ? act(ssl) : 9);
}

static int front_fd;
static struct peer_address front_from;

static bool is_handed(void)
{
    return handover_receive(door, &front_from, &front_fd) == 1;
}

static int status_of(pid_t pid)
{
    int status = 0;
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static bool client_ended(void)
{
    siginfo_t info = {0};
    waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT);
    return info.si_pid != 0;
}

/* ---- TL-2 ---- */

static unsigned open_after(unsigned of_one, unsigned all, unsigned count)
{
    int fds[32];
    unsigned n = 0;
    open_gate();
    gate.waiting_of_one = of_one;
    gate.waiting_max = all;
    for (unsigned i = 0; i < count; i++)
        fds[i] = dial();
    turn();
    for (unsigned i = 0; i < count; i++) {
        struct pollfd p = {.fd = fds[i], .events = POLLIN};
        n += poll(&p, 1, 0) == 0;
        close(fds[i]);
    }
    cr_assert_eq(gate.waiting_count, n);
    return n;
}

Test(tls_gate, those_before_their_handshake_are_bounded)
{
    cr_assert_eq(open_after(100, 5, 10), 5);
}

Test(tls_gate, those_of_one_address_are_bounded)
{
    cr_assert_eq(open_after(4, 100, 10), 4);
}

Test(tls_gate, control_within_the_bounds_all_are_open)
{
    cr_assert_eq(open_after(100, 100, 10), 10);
}

static bool one_waits(void)
{
    return gate.waiting_count == 1;
}

Test(tls_gate, a_handshake_has_its_time)
{
    open_gate();
    cleanup_fd int fd = dial();
    cr_assert(until(one_waits));
    ahead_ms = 2000;
    turn();
    cr_assert_eq(gate.count, 1, "control");
    ahead_ms = 11000;
    turn();
    cr_assert_eq(gate.count, 0);
    (void)fd;
}

/* No timer ends anything. */
static uint64_t still_clock(void)
{
    return 1;
}

static bool none_is_left(void)
{
    return gate.count == 0;
}

static bool one_is_left(void)
{
    return gate.count == 1;
}

static bool two_wait(void)
{
    return gate.waiting_count == 2;
}

static void send_all(int fd, const uint8_t *data, size_t len)
{
    cr_assert_eq(send(fd, data, len, MSG_NOSIGNAL), (ssize_t)len);
}

/* A record of `len` bytes of a hello that says of itself that it has 32 KiB. */
static void send_part(int fd, bool first, uint16_t len)
{
    uint8_t record[5 + 16384] = {22, 3, 1, (uint8_t)(len >> 8), (uint8_t)len};
    if (first)
        memcpy(record + 5, (const uint8_t[]){1, 0, 0x80, 0}, 4);
    send_all(fd, record, 5u + len);
}

Test(tls_gate, a_handshake_has_its_bytes, .timeout = 300)
{
    open_gate();
    loop_set_clock(loop, still_clock);
    cleanup_fd int fd = dial();
    cr_assert(until(one_waits));
    send_part(fd, true, 16384);
    turn();
    send_part(fd, false, 16384);
    turn();
    cr_assert_eq(gate.count, 1, "control: so much it may say");
    send_part(fd, false, 1); /* three are missing yet */
    cr_assert(until(none_is_left));
}

Test(tls_gate, a_handshake_that_claims_to_be_long_is_cut_at_once, .timeout = 300)
{
    open_gate();
    loop_set_clock(loop, still_clock);
    cleanup_fd int fd = dial(), other = dial();
    send_all(other, (const uint8_t[]){22, 3, 1, 2, 0, 1, 0, 0x80, 0}, 9);
    cr_assert(until(two_wait));
    turn();
    send_all(fd, (const uint8_t[]){22, 3, 1, 2, 0, 1, 0, 0x80}, 8);
    turn();
    cr_assert_eq(gate.count, 2, "control: 32 KiB, or what is not known yet");
    send_all(fd, (const uint8_t[]){1}, 1);
    cr_assert(until(one_is_left));
}

static int read_nothing(SSL *ssl)
{
    (void)ssl;
    pause();
    return 0;
}

static int read_all(SSL *ssl)
{
    char data[4096];
    while (SSL_read(ssl, data, sizeof data) > 0)
        ;
    return 0;
}

static size_t pushed;

#define MUCH (32u << 20)

/* As fast as it is taken. */
static bool push(void)
{
    static const char data[65536];
    ssize_t n = send(front_fd, data, sizeof data, MSG_DONTWAIT | MSG_NOSIGNAL);
    pushed += n > 0 ? (size_t)n : 0;
    return n > 0;
}

static bool is_stuck(void)
{
    static unsigned quiet;
    quiet = push() ? 0 : quiet + 1;
    if (quiet <= 5000 && pushed <= MUCH)
        return false;
    quiet = 0;
    return true;
}

static bool is_much(void)
{
    push();
    return pushed > MUCH;
}

Test(tls_gate, who_does_not_read_is_not_kept, .timeout = 300)
{
    open_gate();
    pid_t pid = client(read_nothing);
    cr_assert(until(is_handed));
    cr_assert(until(is_stuck));
    cr_assert_lt(pushed, MUCH, "what waits is bounded");
    ahead_ms = 30000;
    turn();
    cr_assert_eq(gate.count, 1, "control: it has its time");
    ahead_ms = 150000;
    turn();
    cr_assert_eq(gate.count, 0);
    kill(pid, SIGKILL);
    status_of(pid);
}

/* Half a minute at a time: in each it takes far more than it must. */
Test(tls_gate, who_reads_is_kept, .timeout = 300)
{
    open_gate();
    pid_t pid = client(read_all);
    cr_assert(until(is_handed));
    for (ahead_ms = 0; ahead_ms <= 180000; ahead_ms += 30000) {
        pushed = 0;
        cr_assert(until(is_much));
    }
    cr_assert_eq(gate.count, 1);
    close(front_fd);
    cr_assert(until(client_ended));
    cr_assert_eq(status_of(pid), 0);
}

/* ---- records without data ---- */

static bool send_key_updates(SSL *ssl, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        if (SSL_key_update(ssl, SSL_KEY_UPDATE_NOT_REQUESTED) != 1 || SSL_do_handshake(ssl) != 1)
            return false;
    return true;
}

static int send_nothing_but_key_updates(SSL *ssl)
{
    return send_key_updates(ssl, 200000) ? 2 : 0;
}

static int send_words_and_key_updates(SSL *ssl)
{
    for (int i = 0; i < 8; i++)
        if (!send_key_updates(ssl, 50) || SSL_write(ssl, "ping", 4) != 4)
            return 2;
    return SSL_shutdown(ssl) < 0 ? 3 : 0;
}

/* ---- ends ---- */

static char heard[64];
static size_t heard_len;
static bool at_end;

static bool hears_the_end(void)
{
    ssize_t n = recv(front_fd, heard + heard_len, sizeof heard - 1 - heard_len, MSG_DONTWAIT);
    heard_len += n > 0 ? (size_t)n : 0;
    at_end = n == 0;
    return at_end;
}

static bool has_hung_up(void)
{
    struct pollfd p = {.fd = front_fd};
    return poll(&p, 1, 0) == 1 && (p.revents & POLLHUP);
}

static int ask_and_end(SSL *ssl)
{
    char answer[16] = "";
    if (SSL_write(ssl, "ping", 4) != 4 || SSL_shutdown(ssl) < 0)
        return 1;
    size_t len = 0;
    for (int n; (n = SSL_read(ssl, answer + len, (int)(sizeof answer - 1 - len))) > 0;)
        len += (size_t)n;
    /* SSL_read after close_notify still reads, and tells a proper end from a cut one. */
    return strcmp(answer, "pong") == 0 && SSL_get_shutdown(ssl) & SSL_RECEIVED_SHUTDOWN ? 0 : 2;
}

Test(tls_gate, one_end_is_not_the_other)
{
    open_gate();
    pid_t pid = client(ask_and_end);
    cr_assert(until(is_handed));
    cr_assert_eq(front_from.family, AF_INET);
    cr_assert_eq(front_from.bytes[0], 127);
    cr_assert(until(hears_the_end));
    cr_assert_str_eq(heard, "ping");
    cr_assert(!has_hung_up(), "it still waits for an answer");
    cr_assert_eq(send(front_fd, "pong", 4, MSG_NOSIGNAL), 4);
    close(front_fd);
    cr_assert(until(client_ended));
    cr_assert_eq(status_of(pid), 0);
}

static int break_off(SSL *ssl)
{
    if (SSL_write(ssl, "ping", 4) != 4)
        return 1;
    close(SSL_get_fd(ssl));
    return 0;
}

Test(tls_gate, a_break_is_a_break)
{
    open_gate();
    pid_t pid = client(break_off);
    cr_assert(until(is_handed));
    cr_assert(until(hears_the_end));
    cr_assert_str_eq(heard, "ping");
    cr_assert(until(has_hung_up));
    cr_assert_eq(send(front_fd, "pong", 4, MSG_NOSIGNAL), -1);
    cr_assert_eq(status_of(pid), 0);
    turn();
    cr_assert_eq(gate.count, 0);
}

Test(tls_gate, records_without_data_are_bounded, .timeout = 300)
{
    open_gate();
    pid_t other = client(read_nothing);
    cr_assert(until(is_handed));
    cleanup_fd int kept = front_fd;
    pid_t pid = client(send_nothing_but_key_updates);
    cr_assert(until(is_handed));
    cleanup_fd int its = front_fd;
    cr_assert(until(one_is_left));
    cr_assert_eq(status_of(pid), 0, "it is cut");
    front_fd = its;
    cr_assert(has_hung_up());
    front_fd = kept;
    cr_assert(!has_hung_up(), "and nobody else is");
    kill(other, SIGKILL);
    status_of(other);
}

Test(tls_gate, key_updates_among_data_are_carried, .timeout = 300)
{
    open_gate();
    pid_t pid = client(send_words_and_key_updates);
    cr_assert(until(is_handed));
    cr_assert(until(hears_the_end));
    cr_assert_str_eq(heard, "pingpingpingpingpingpingpingping");
    cr_assert_eq(status_of(pid), 0);
    close(front_fd);
}

/* Whichever step of a turn meets it. */
static int go[2], ready[2];
static unsigned words_before;

static int say_words_and_end(SSL *ssl)
{
    char byte;
    if (read(go[0], &byte, 1) != 1)
        return 1;
    for (unsigned i = 0; i < words_before; i++)
        if (SSL_write(ssl, "x", 1) != 1)
            return 2;
    if (SSL_shutdown(ssl) < 0 || write(ready[1], "x", 1) != 1)
        return 3;
    return read_all(ssl);
}

Test(tls_gate, an_end_is_carried_whenever_it_comes, .timeout = 300)
{
    open_gate();
    cr_assert_eq(pipe(go), 0);
    cr_assert_eq(pipe(ready), 0);
    for (words_before = 0; words_before < 20; words_before++) {
        char byte;
        heard_len = 0;
        pid_t pid = client(say_words_and_end);
        cr_assert(until(is_handed));
        cr_assert_eq(write(go[1], "x", 1), 1);
        cr_assert_eq(read(ready[0], &byte, 1), 1);
        cr_assert(until(hears_the_end), "after %u words", words_before);
        cr_assert_eq(heard_len, words_before);
        close(front_fd);
        cr_assert(until(client_ended));
        cr_assert_eq(status_of(pid), 0);
    }
}

static int read_all_to_a_proper_end(SSL *ssl)
{
    char byte;
    if (read(go[0], &byte, 1) != 1)
        return 1;
    read_all(ssl);
    return SSL_get_shutdown(ssl) & SSL_RECEIVED_SHUTDOWN ? 0 : 2;
}

static size_t to_push;

/* All of it, or as much as is taken. */
static bool has_pushed(void)
{
    static const char data[16384];
    static unsigned quiet;
    ssize_t n = to_push ? send(front_fd, data, sizeof data, MSG_DONTWAIT | MSG_NOSIGNAL) : 0;
    quiet = n > 0 ? 0 : quiet + 1;
    to_push -= n > 0 ? (size_t)n : 0;
    if (to_push && quiet <= 1000)
        return false;
    quiet = 0;
    return true;
}

/* However much of the answer is still under way when the front closes. */
Test(tls_gate, the_end_is_said_to_who_reads_late, .timeout = 300)
{
    open_gate();
    cr_assert_eq(pipe(go), 0);
    for (unsigned blocks = 1; blocks < 1000; blocks++) {
        pid_t pid = client(read_all_to_a_proper_end);
        cr_assert(until(is_handed));
        to_push = blocks * (size_t)16384;
        cr_assert(until(has_pushed));
        close(front_fd);
        turn();
        cr_assert_eq(write(go[1], "x", 1), 1);
        cr_assert(until(client_ended));
        cr_assert_eq(status_of(pid), 0, "%u blocks", blocks);
        if (to_push)
            return;
    }
}

/* ---- those that the front has closed ---- */

static unsigned closed_ones_left(unsigned of_one, unsigned count)
{
    pid_t pids[16];
    open_gate();
    gate.waiting_of_one = of_one;
    for (unsigned i = 0; i < count; i++) {
        pids[i] = client(read_nothing);
        cr_assert(until(is_handed));
        pushed = 0;
        cr_assert(until(is_stuck));
        close(front_fd);
        turn();
    }
    unsigned left = gate.count;
    for (unsigned i = 0; i < count; i++) {
        kill(pids[i], SIGKILL);
        status_of(pids[i]);
    }
    return left;
}

Test(tls_gate, what_the_front_has_closed_gives_way, .timeout = 300)
{
    cr_assert_eq(closed_ones_left(2, 6), 2);
}

Test(tls_gate, control_what_the_front_has_closed_stays_within_the_bounds, .timeout = 300)
{
    cr_assert_eq(closed_ones_left(100, 6), 6);
}

static bool door_is_full(void)
{
    return gate.at_door.next != &gate.at_door;
}

/* A front that is slow to take connections gets them all, in their order, when it does. */
Test(tls_gate, who_is_at_the_door_waits, .timeout = 300)
{
    enum { COUNT = 24 };
    pid_t pids[COUNT];
    int fds[COUNT];
    open_gate();
    setsockopt(gate.door.fd, SOL_SOCKET, SO_SNDBUF, &(int){1}, sizeof(int));
    for (int i = 0; i < COUNT; i++)
        pids[i] = client(read_all);
    cr_assert(until(door_is_full));
    for (int i = 0; i < COUNT; i++) {
        cr_assert(until(is_handed), "%d", i);
        fds[i] = front_fd;
    }
    cr_assert(!door_is_full());
    for (int i = 0; i < COUNT; i++)
        close(fds[i]);
    for (int i = 0; i < COUNT; i++) {
        cr_assert(until(client_ended));
        int status = 0;
        cr_assert_gt(waitpid(-1, &status, 0), 0);
        cr_assert_eq(status, 0);
    }
    (void)pids;
}
