/* One allocation of a process fails, for the programs of tests/weak: linked in front of the C
 * library's by --wrap. Which one says BRIG_FAIL_ALLOC, counted from the start of the program and on
 * in what it forks; that it came is said on stderr. */
#include "os/weaken.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);

static unsigned long left; /* 0: none fails */

__attribute__((constructor)) static void begin(void)
{
    const char *text = weaken_setting("BRIG_FAIL_ALLOC");
    left = text ? strtoul(text, NULL, 10) : 0;
}

static int fails(void)
{
    static const char said[] = "an allocation fails\n";
    if (!left || --left)
        return 0;
    if (write(2, said, sizeof said - 1) < 0)
        left = 0;
    errno = ENOMEM;
    return 1;
}

void *__wrap_malloc(size_t size)
{
    return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return fails() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *old, size_t size)
{
    return fails() ? NULL : __real_realloc(old, size);
}
