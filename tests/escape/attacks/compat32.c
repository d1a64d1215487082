/* K-05: a complete 32-bit program without a C library. It says what worked through its exit status
 * as well as by text, because even write and exit are calls that the sandbox may refuse. */
static int call(int nr, int a, int b, int c)
{
    int ret;
    __asm__ volatile("int $0x80" : "=a"(ret) : "a"(nr), "b"(a), "c"(b), "d"(c) : "memory");
    return ret;
}

void _start(void);

void _start(void)
{
    static const char hello[] = "K-05\tprogram32_write\tOK\n";
    static const char unshared[] = "K-05\tprogram32_unshare\tOK\n";
    static const char socketed[] = "K-05\tprogram32_socket\tOK\n";
    int socket_args[3] = {2, 1, 0};

    call(4, 1, (int)hello, sizeof hello - 1);
    if (call(310, 0x08000000 /* CLONE_NEWIPC */, 0, 0) == 0)
        call(4, 1, (int)unshared, sizeof unshared - 1);
    if (call(102, 1, (int)socket_args, 0) >= 0)
        call(4, 1, (int)socketed, sizeof socketed - 1);
    call(1, 42, 0, 0);
    for (;;)
        __asm__ volatile("hlt");
}
