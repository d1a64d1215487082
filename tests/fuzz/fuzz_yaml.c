/* The YAML reader. What we accept libyaml must accept with the same tree. */
#include "../lib/oracle/libyaml_oracle.h"
#include "policy/text/yaml_parse.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    struct err err = ERR_INIT;
    struct json *tree = NULL;
    if (yaml_parse(text, size, NULL, &tree, &err) < 0) {
        if (tree || err.code == ERR_NONE || !err.message[0])
            abort();
        return 0;
    }
    if (!oracle_agrees(text, size, tree))
        abort();
    json_free(tree);
    return 0;
}
