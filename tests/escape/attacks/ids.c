/* K-17: prints who it runs as. Installed set-uid root and with file capabilities by the tests: it
 * must stay this harmless. */
#include <linux/capability.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(void)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {{0}};
    syscall(SYS_capget, &head, data);
    printf("uid=%u euid=%u caps=%08x%08x\n", (unsigned)getuid(), (unsigned)geteuid(),
           data[1].effective, data[0].effective);
    return 0;
}
