/* What Criterion and its libraries do, and no test needs.
 *
 * Criterion shows differences with libgit2, which reads all certificates of the system when it is
 * set up: in every program, and in the process of each test. That was half of the CPU time of the
 * unit tests. Tests talk to nobody: there are no certificates.
 *
 * Criterion's first process, which starts a process for each test, forgets 48 bytes when it reaps
 * one that it did not start itself. None of our code runs in it: leaks are looked for in the tests'
 * processes alone. */
#include <stdlib.h>

__attribute__((visibility("default"))) int mbedtls_x509_crt_parse_file(void *chain,
                                                                       const char *path);

int mbedtls_x509_crt_parse_file(void *chain, const char *path)
{
    (void)chain;
    (void)path;
    return 0;
}

int __lsan_is_turned_off(void);

int __lsan_is_turned_off(void)
{
    return getenv("BXFI_MAP") == NULL; /* how Criterion tells a process which test it is */
}
