/* From the sealed block of a request to the work, in a process of its own that init forked. */
#include "files/files.h"
#include "plan/apply.h"

int file_worker_child(const void *block, size_t len, int in, int out)
{
    struct files_request request;
    struct err err = ERR_INIT;
    /* No answer is written: the reader sees that it is cut short. */
    if (files_request_decode(block, len, &request, &err) < 0)
        return 125;
    return files_work_child(&request, in, out);
}
