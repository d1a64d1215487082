/* brig-vmm join …, in the place of one program of a sandbox that lives. */
#pragma once

void join_main(int argc, char *argv[]) __attribute__((noreturn));
