/* The memory of a clone: a copy of a parked machine's that is made page by page, when it is
 * written.
 */
#include "engines/vm/memory.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

/* Each piece that is mapped by itself is an entry in the kernel's list, which has 65530. */
#define PIECES_MOST 4096u
#define PAGE        4096u

#define WRITABLE (PROT_READ | PROT_WRITE)

/* Where the next hole begins that is large enough for a mapping of its own; negative: the file
 * system cannot say. */
static off_t end_of_piece(int file, off_t from, off_t size)
{
    const off_t least = (size / PIECES_MOST + PAGE - 1) / PAGE * PAGE;
    for (;;) {
        off_t hole = lseek(file, from, SEEK_HOLE);
        if (hole < 0 || hole >= size)
            return hole < 0 ? hole : size;
        from = lseek(file, hole, SEEK_DATA);
        if (from < 0)
            return errno == ENXIO ? hole : from;
        if (from - hole >= least)
            return hole;
    }
}

static bool map_pieces(uint8_t *to, int file, off_t size)
{
    off_t from = 0, end;
    while ((from = lseek(file, from, SEEK_DATA)) >= 0 && from < size) {
        if ((end = end_of_piece(file, from, size)) < 0 ||
            mmap(to + from, (size_t)(end - from), WRITABLE, MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE,
                 file, from) == MAP_FAILED)
            return false;
        from = end;
    }
    return from >= size || errno == ENXIO;
}

void *memory_copy(int file, uint64_t size)
{
    uint8_t *to = mmap(NULL, size, WRITABLE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (to == MAP_FAILED || map_pieces(to, file, (off_t)size))
        return to;
    munmap(to, size);
    return MAP_FAILED;
}
