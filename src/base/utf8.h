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

/* Names of files are bytes; texts are UTF-8. A byte B that is part of no character becomes the
 * private character U+F700 + B (U+F780 to U+F7FF), and so do the bytes of such a character in a
 * name itself: every name has one text, and the text gives the name back. Since only bytes from
 * 0x80 on are ever written so, no slash, dot or NUL can hide in one. */
#define UTF8_ESCAPED_MAX(len) (3 * (len)) /* how long it can become */
/* Both write no NUL and return the length. */
size_t utf8_escape(const char *name, size_t len, char *out);
size_t utf8_unescape(const char *text, size_t len, char *out); /* out may be text */
/* For what may be either, bytes or a text that was escaped: only what is no UTF-8 is escaped. */
size_t utf8_mend(const char *text, size_t len, char *out);
