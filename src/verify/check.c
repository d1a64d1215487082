/* Looks at the canaries after the attacks: which of them were read, changed or reached. */
#include "verify/row.h"

#include "verify/canaries.h"

bool check_tcp(const struct canaries *c)
{
    return canary_connected(c->tcp);
}

bool check_tcp6(const struct canaries *c)
{
    return canary_connected(c->tcp6);
}

bool check_udp(const struct canaries *c)
{
    return canary_connected(c->udp);
}

bool check_socket(const struct canaries *c)
{
    return canary_connected(c->local);
}

bool check_abstract(const struct canaries *c)
{
    return canary_connected(c->abstract);
}

bool check_granted_socket(const struct canaries *c)
{
    return canary_connected(c->granted);
}

bool check_file(const struct canaries *c)
{
    return canary_file_changed(c);
}

bool check_drop(const struct canaries *c)
{
    return canary_dropped(c);
}

bool check_signal(const struct canaries *c)
{
    return canary_signalled(c);
}

bool check_granted(const struct canaries *c)
{
    return canary_granted_written(c);
}

bool check_module(const struct canaries *c)
{
    return canary_module_written(c);
}

bool check_mode(const struct canaries *c)
{
    return canary_granted_mode(c);
}

bool check_set_id(const struct canaries *c)
{
    return canary_set_id(c);
}

bool check_bound(const struct canaries *c)
{
    return canary_bound(c);
}

bool check_special(const struct canaries *c)
{
    return canary_special(c);
}

bool check_closed(const struct canaries *c)
{
    return c->lab.notes->requests[LAB_CLOSED] > 0;
}

bool check_dns(const struct canaries *c)
{
    return c->lab.notes->closed_questions > 0;
}

bool check_inner(const struct canaries *c)
{
    return c->lab.notes->inner > 0;
}

bool check_other_origin(const struct canaries *c)
{
    return c->lab.notes->with_secret[LAB_PLAIN] > 0 || c->lab.notes->with_secret[LAB_CLOSED] > 0;
}

bool check_redirect(const struct canaries *c)
{
    return c->lab.notes->redirected > 0;
}

bool check_query(const struct canaries *c)
{
    return c->lab.notes->secret_in_line > 0;
}
