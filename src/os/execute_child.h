/* Becoming a program that is named as a shell names it. */
#pragma once

#define EXECUTE_PATH "/usr/local/bin:/usr/bin:/bin" /* where nobody says where to look */

/* Executes argv[0], which is looked for in `path` unless it has a slash. Returns only if it cannot
 * be, and then the errno: as with execvp the first hit wins, but "permission denied" is remembered
 * over "not found". */
int execute_search(const char *path, char *const argv[], char *const envp[]);
/* All signals as a new program expects them: none is ignored, none blocked. */
void exec_default_signals(void);
