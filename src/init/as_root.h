/* init's program under another name: what starts a command as root for whoever is not. */
#pragma once

#define AS_ROOT_NAME "as-root"

/* Returns the exit status. argv[1] and what follows is the command. */
int as_root_main(char **argv);
