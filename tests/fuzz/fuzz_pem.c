/* Any text as a bundle: the reader ends, blocks lie within it and in order, and what is decoded is
 * one whole sequence. */
#include "trust/pem.h"

#include <stdlib.h>
#include <string.h>

static void require(int condition)
{
    if (!condition)
        abort();
}

static void check_block(const struct pem_block *block)
{
    struct buf out;
    const uint8_t *subject;
    size_t len;
    buf_init(&out, 1 << 20);
    buf_str(&out, "x");
    if (pem_decode(block, &out, NULL) == 0) {
        const uint8_t *der = (const uint8_t *)out.data + 1;
        require(out.len >= 3 && der[0] == 0x30 && out.len - 1 <= block->body_len / 4 * 3);
        if (der_subject(der, out.len - 1, &subject, &len, NULL) == 0)
            require(subject > der && len >= 2 && subject + len <= der + out.len - 1 &&
                    subject[0] == 0x30);
    } else {
        require(out.len == 1 && out.data[0] == 'x' && out.data[1] == '\0');
    }
    buf_done(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size ? size : 1); /* exactly as long: a step beyond is seen */
    struct pem_block block;
    const uint8_t *subject;
    size_t at = 0, before, len;
    int found;
    require(text != NULL);
    memcpy(text, data, size);
    do {
        before = at;
        found = pem_next(text, size, &at, &block, NULL);
        require(at <= size && (found == 0 || at > before));
        if (found > 0) {
            require(block.text >= text + before && block.text + block.len == text + at);
            require(block.body > block.text && block.body + block.body_len < text + at);
            check_block(&block);
        }
    } while (found != 0);
    if (der_subject((const uint8_t *)text, size, &subject, &len, NULL) == 0)
        require(subject + len <= (const uint8_t *)text + size);
    free(text);
    return 0;
}
