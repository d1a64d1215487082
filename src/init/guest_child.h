/* init as the first process of a guest: see guest_child.c. */
#pragma once

/* Never comes back: the machine ends with it. */
int guest_main(void);
