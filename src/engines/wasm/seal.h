/* No executable memory for the rest of this process. */
#pragma once

/* 0, or a negative errno. */
int seal_executable(void);
