/* The files of a parked machine, and whether a sandbox can be made from them. */
#include "sandbox/parked.h"

#include "base/cleanup.h"
#include "os/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SEALS (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

int parked_make(struct parked *p, struct err *err)
{
    *p = PARKED_NONE;
    if ((p->memory = memfd_empty("brig-machine", false, err)) < 0 ||
        (p->state = memfd_empty("brig-machine-state", false, err)) < 0) {
        parked_close(p);
        return err_number(err);
    }
    return 0;
}

int parked_read(const struct parked *p, int *memory, int *state, struct err *err)
{
    const struct {
        int from, *to;
    } files[] = {{p->memory, memory}, {p->state, state}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[32];
        snprintf(path, sizeof path, "/proc/self/fd/%d", files[i].from);
        if ((*files[i].to = open(path, O_RDONLY | O_CLOEXEC)) < 0)
            return err_sys(err, "open the files of a parked machine");
    }
    return 0;
}

void parked_close(struct parked *p)
{
    int *const fds[] = {&p->memory, &p->state};
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++)
        if (*fds[i] >= 0)
            close(fd_steal(fds[i]));
}

int parked_size(const struct parked *p, uint64_t bytes, struct err *err)
{
    if (ftruncate(p->memory, (off_t)bytes) < 0 ||
        fcntl(p->memory, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) < 0)
        return err_sys(err, "size the memory of a machine");
    return 0;
}

int parked_seal(const struct parked *p, struct err *err)
{
    if (fcntl(p->memory, F_ADD_SEALS, SEALS) < 0 || fcntl(p->state, F_ADD_SEALS, SEALS) < 0)
        return err_sys(err, "seal a parked machine");
    return 0;
}

bool parked_sealed(const struct parked *p)
{
    int memory = fcntl(p->memory, F_GET_SEALS), state = fcntl(p->state, F_GET_SEALS);
    return memory >= 0 && state >= 0 && (memory & SEALS) == SEALS && (state & SEALS) == SEALS;
}

bool parked_fits(const struct parked *p, const struct parked_facts *wanted, char why[static 128])
{
    const struct parked_facts *have = &p->facts;
    const char *differs = NULL;
    if (strcmp(have->machine.kernel_hash, wanted->machine.kernel_hash) != 0)
        differs = "another kernel is to be booted now";
    else if (strcmp(have->monitor, wanted->monitor) != 0)
        differs = "the monitor's program is another one now";
    else if (have->machine.memory != wanted->machine.memory ||
             have->machine.cpus != wanted->machine.cpus || have->uid != wanted->uid)
        differs = "it has other memory, processors or another user";
    snprintf(why, 128, "%s", differs ? differs : "");
    return !differs;
}
