/* What the guest's kernel is told on both architectures. Nothing of it says anything about the
 * host. Without `quiet` each byte of the console would be an exit; there is none, but the kernel
 * formats its messages all the same. Self-tests of ciphers are two thirds of a boot. */
#pragma once

#define GUEST_COMMAND_LINE "quiet loglevel=1 panic=-1 cryptomgr.notests rdinit=/init"
