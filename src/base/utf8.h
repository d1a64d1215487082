/* UTF-8, one character at a time: shortest form only, no surrogates, nothing above U+10FFFF. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* How many bytes the character at p takes (1 to 4), 0 if what stands there is not UTF-8. */
size_t utf8_decode(const char *p, size_t left, uint32_t *ret_code);
/* How many of the next bytes are whole characters beyond ASCII. */
size_t utf8_run(const char *p, size_t left);
/* Writes 1 to 4 bytes, no NUL. The caller has made sure that code is a character. */
size_t utf8_encode(uint32_t code, char out[4]);
