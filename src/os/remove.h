/* Emptying a folder that hostile code filled, by descriptor, without following anything, in bounded
 * memory whatever its depth: sub-folders are moved up to the top before they are emptied. */
#pragma once

/* Best effort; raw system calls only, so that the guardian may use it too. */
void remove_contents(int dir_fd);
