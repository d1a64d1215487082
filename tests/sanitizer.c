/* What AddressSanitizer does in every program of the sanitizer build unless ASAN_OPTIONS says
 * otherwise.
 *
 * On aarch64 the leak check at the end of a process walks a table of 2^28 entries several times,
 * which takes seconds whatever the program did; it is asked for by the full form of the tests
 * alone. On x86-64 it costs nothing. */
const char *__asan_default_options(void);

const char *__asan_default_options(void)
{
#ifdef __aarch64__
    return "detect_leaks=0";
#else
    return "detect_leaks=1";
#endif
}
