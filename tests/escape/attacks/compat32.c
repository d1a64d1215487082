/* K-05: a complete 32-bit program without a C library, for the 32-bit half of either architecture.
 * It says what worked through its exit status as well as by text, because even write and exit are
 * calls that the sandbox may refuse. */
#if defined(__i386__)
enum { NR_EXIT = 1, NR_WRITE = 4, NR_UNSHARE = 310 };

static int call(int nr, int a, int b, int c)
{
    int ret;
    __asm__ volatile("int $0x80" : "=a"(ret) : "a"(nr), "b"(a), "c"(b), "d"(c) : "memory");
    return ret;
}

/* All socket calls go through one number, which a filter of numbers must not overlook. */
static int open_socket(void)
{
    int args[3] = {2 /* AF_INET */, 1 /* SOCK_STREAM */, 0};
    return call(102, 1 /* SYS_SOCKET */, (int)args, 0);
}
#elif defined(__arm__)
enum { NR_EXIT = 1, NR_WRITE = 4, NR_UNSHARE = 337 };

static int call(int nr, int a, int b, int c)
{
    register int r7 __asm__("r7") = nr;
    register int r0 __asm__("r0") = a;
    register int r1 __asm__("r1") = b;
    register int r2 __asm__("r2") = c;
    __asm__ volatile("svc #0" : "+r"(r0) : "r"(r7), "r"(r1), "r"(r2) : "memory");
    return r0;
}

static int open_socket(void)
{
    return call(281, 2 /* AF_INET */, 1 /* SOCK_STREAM */, 0);
}
#else
#error "not a 32-bit architecture that this program knows"
#endif

void _start(void);

void _start(void)
{
    static const char hello[] = "K-05\tprogram32_write\tOK\n";
    static const char unshared[] = "K-05\tprogram32_unshare\tOK\n";
    static const char socketed[] = "K-05\tprogram32_socket\tOK\n";

    call(NR_WRITE, 1, (int)hello, sizeof hello - 1);
    if (call(NR_UNSHARE, 0x08000000 /* CLONE_NEWIPC */, 0, 0) == 0)
        call(NR_WRITE, 1, (int)unshared, sizeof unshared - 1);
    if (open_socket() >= 0)
        call(NR_WRITE, 1, (int)socketed, sizeof socketed - 1);
    call(NR_EXIT, 42, 0, 0);
    for (;;)
        __builtin_trap();
}
