/* The messages between the process that asks and the one that answers. Private to approvals/. */
#pragma once

#include "approvals/approval.h"

#include <sys/socket.h>
#include <sys/un.h>

#define APPROVAL_FOLDER    "approvals"
#define APPROVAL_REPLY_MAX 16384

/* One byte each, one message each. */
enum {
    OP_SHOW = 'S', /* answered with a JSON object */
    OP_ALLOW = 'A',
    OP_DENY = 'D',
    OP_TAKEN = 'T', /* the answer counts */
};

socklen_t approval_socket_name(const char *id, struct sockaddr_un *ret);
/* The other side is the same user, or root. */
bool approval_is_peer(int fd, uid_t *ret_uid);
