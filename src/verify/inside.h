/* The hidden verb by which `brig verify` starts itself inside a sandbox. */
#pragma once

#define VERIFY_INSIDE "(verify)"
/* SCENE PLACE */
int verify_inside(int argc, char *const argv[]);
