/* Any words of a guest's to the monitor, over the streams that init in the guest has: what the
 * session makes of them is an exit status, at most once, and the name by which programs are joined,
 * when the guest is up and only where it serves.
 *
 * The input is a list of acts, behind a byte that says whether it serves: which stream, what to do
 * with it, how long, and what it says. */
#include "engines/vm/session.h"
#include "vm_driver.h"

#include <fcntl.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);
void __sanitizer_set_report_fd(void *fd);

#define STREAMS 4u
#define PIECE   512u
#define ACTS    100 /* more find nothing new, and take long */
enum { REQUEST = 1, RESET = 3, SHUTDOWN, DATA, CREDIT };

static struct vsock vsock;
static struct session session;
static int null = -1, log_fd = -1;

/* The session speaks on descriptors 1 and 2; what the sanitizers say goes where it went. */
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    null = open("/dev/null", O_RDWR | O_CLOEXEC);
    log_fd = fcntl(2, F_DUPFD_CLOEXEC, 10);
    if (null < 0 || log_fd < 0)
        abort();
    __sanitizer_set_report_fd((void *)(intptr_t)log_fd);
    return 0;
}

static void require(bool good)
{
    if (!good)
        abort();
}

static void send_packet(struct driver *v, unsigned stream, uint16_t op, const uint8_t *data,
                        size_t len)
{
    uint8_t bytes[sizeof(struct vsock_packet) + PIECE];
    const struct vsock_packet p = {.from = VSOCK_GUEST,
                                   .to = 2,
                                   .from_port = 1000 + stream,
                                   .to_port = 1 + stream,
                                   .len = (uint32_t)len,
                                   .type = 1,
                                   .op = op,
                                   .flags = op == SHUTDOWN ? 3 : 0,
                                   .room = 1u << 20};
    memcpy(bytes, &p, sizeof p);
    memcpy(bytes + sizeof p, data, len);
    driver_buffers(v, 0);
    driver_request(v, 1, bytes, (uint32_t)(sizeof p + len), 0);
}

/* How many bytes of the input it took. */
static size_t act(struct driver *v, const uint8_t *data, size_t size)
{
    static const uint16_t ops[] = {DATA, DATA, DATA, DATA, CREDIT, SHUTDOWN, RESET, REQUEST};
    size_t len = size > 2 ? (data[1] & 0x7fu) * 4u : 0;
    if (len > size - 2)
        len = size - 2;
    send_packet(v, data[0] % STREAMS, ops[data[0] >> 5], data + 2, len);
    return 2 + len;
}

static int step(void)
{
    struct pollfd fds[SESSION_FDS];
    session_watch(&session, fds);
    for (unsigned i = 0; i < SESSION_FDS; i++)
        fds[i].revents = 0;
    int status = session_step(&session, fds);
    require(status >= -1 && status <= 255);
    require(session.name || !session.up);
    for (unsigned i = 0; i < STREAMS; i++)
        require(vsock.streams[i].from_len <= VSOCK_WINDOW &&
                vsock.streams[i].to_len <= VSOCK_WINDOW);
    return status;
}

static void begin(struct driver *v, bool serves)
{
    static const uint8_t plan[3000];
    driver_memory(v);
    vsock_init(&vsock, &v->memory);
    driver_start(v, &vsock.device);
    session = (struct session){
        .vsock = &vsock, .plan = plan, .plan_len = sizeof plan, .signal_fd = -1, .in_ended = true};
    if (serves)
        session_serve(&session, "abcde");
    session_begin(&session, SESSION_BOOT_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct driver v = {0};
    int status = -1;
    if (size < 3)
        return 0;
    require(dup2(null, 1) == 1 && dup2(null, 2) == 2);
    begin(&v, data[0] & 1);
    for (unsigned i = 0; i < STREAMS; i++)
        send_packet(&v, i, REQUEST, data, 0);
    size_t at = 1;
    for (unsigned acts = 0; acts < ACTS && status < 0 && at + 2 <= size; acts++) {
        at += act(&v, data + at, size - at);
        status = step();
    }
    require(dup2(log_fd, 2) == 2);
    free(v.memory.host);
    return 0;
}
