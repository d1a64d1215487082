/* Is the KVM of this host a processor's, or an imitation of one? */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Some hosts that are virtual machines themselves have a /dev/kvm that runs a guest's programs as
 * they are and its kernel an instruction at a time, some hundred times slower: Linux does not come
 * up on it within minutes. False: why says so, or what else makes machines impossible. On arm64
 * there is no such KVM, and nothing is tried. Takes a few milliseconds, and 0.1 s at most. */
bool vm_speed_probe(int kvm, char *why, unsigned long room);
/* Did a guest's kernel take so long for so many instructions that no processor runs it? */
bool vm_speed_imitated(uint64_t nanoseconds, uint64_t instructions);
