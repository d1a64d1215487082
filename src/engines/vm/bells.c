/* A queue's bell is an eventfd that KVM counts up when the driver writes the queue's number. */
#include "engines/vm/monitor.h"

#include <unistd.h>

unsigned bells_watch(const struct monitor *m, struct pollfd *fds)
{
    unsigned n = 0;
    for (unsigned d = 0; d < m->machine.device_count; d++)
        for (unsigned q = 0; q < m->machine.devices[d]->queue_count; q++)
            fds[n++] = (struct pollfd){.fd = m->machine.bells[d][q], .events = POLLIN};
    return n;
}

void bells_answer(struct monitor *m, const struct pollfd *fds)
{
    uint64_t count;
    for (unsigned d = 0; d < m->machine.device_count; d++)
        for (unsigned q = 0; q < m->machine.devices[d]->queue_count; q++, fds++)
            if ((fds->revents & POLLIN) && read(fds->fd, &count, sizeof count) == sizeof count) {
                pthread_mutex_lock(&m->machine.lock);
                device_notify(m->machine.devices[d], q);
                pthread_mutex_unlock(&m->machine.lock);
            }
}

void bells_ring(const struct monitor *m)
{
    const uint64_t one = 1;
    for (unsigned d = 0; d < m->machine.device_count; d++)
        for (unsigned q = 0; q < m->machine.devices[d]->queue_count; q++)
            (void)!write(m->machine.bells[d][q], &one, sizeof one);
}
