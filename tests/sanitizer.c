/* What AddressSanitizer does in every program of the sanitizer build unless ASAN_OPTIONS says
 * otherwise.
 *
 * On aarch64 the leak check at the end of a process walks a table of 2^28 entries several times,
 * which takes seconds whatever the program did; it is asked for by the full form of the tests
 * alone. On x86-64 it costs nothing.
 *
 * Freed memory is kept for a while, to find who still uses it: little enough (the usual are 256
 * MiB) that tests which ask what a daemon holds can ask it here too. */
#define KEPT "quarantine_size_mb=16:thread_local_quarantine_size_kb=64"

const char *__asan_default_options(void);

const char *__asan_default_options(void)
{
#ifdef __aarch64__
    return "detect_leaks=0:" KEPT;
#else
    return "detect_leaks=1:" KEPT;
#endif
}
