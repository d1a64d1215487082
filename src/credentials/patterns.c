/* Builds the automaton that redact.c searches with, and the table of bytes with which a match can
 * begin. */
#include "credentials/patterns.h"

#include "base/cleanup.h"
#include "credentials/escape_parse.h"

#include <string.h>
#include <sys/mman.h>

uint8_t symbol_of(enum symbol_class cls, uint8_t c, bool escaped)
{
    switch (cls) {
    case SYM_BYTES:
        if (c >= 'A' && c <= 'Z')
            return c | 0x20;
        return c == '+' ? ' ' : c >= 0x20 && c < 0x7f ? c : SYM_NONE;
    case SYM_HEX:
        if (escaped)
            return SYM_NONE;
        if (c >= '0' && c <= '9')
            return (uint8_t)(c - '0');
        c |= 0x20;
        return c >= 'a' && c <= 'f' ? (uint8_t)(c - 'a' + 10) : SYM_NONE;
    default:
        if (c == '+' || c == '-')
            return 62;
        if (c == '/' || c == '_')
            return 63;
        if (c == '\n' || c == '\r')
            return SYM_SKIP;
        if (escaped)
            return SYM_NONE;
        if (c >= 'A' && c <= 'Z')
            return (uint8_t)(c - 'A');
        if (c >= 'a' && c <= 'z')
            return (uint8_t)(c - 'a' + 26);
        return c >= '0' && c <= '9' ? (uint8_t)(c - '0' + 52) : SYM_NONE;
    }
}

bool symbol_is_base64(uint8_t c)
{
    return symbol_of(SYM_BASE64, c, false) < 64;
}

static uint32_t child_of(const struct patterns *p, uint32_t node, uint8_t symbol)
{
    if (node < SYM_CLASSES)
        return p->first[node][symbol];
    for (uint32_t c = p->nodes[node].child; c; c = p->nodes[c].sibling)
        if (p->nodes[c].symbol == symbol)
            return c;
    return 0;
}

uint32_t patterns_step(const struct patterns *p, uint32_t node, uint8_t symbol)
{
    for (;;) {
        uint32_t next = child_of(p, node, symbol);
        if (next || node < SYM_CLASSES)
            return next ? next : node;
        node = p->nodes[node].fail;
    }
}

/* ---- building ---- */

static uint32_t add_child(struct patterns *p, uint32_t parent, uint8_t symbol, uint32_t path)
{
    uint32_t id = p->node_count++;
    struct node *node = &p->nodes[id];
    node->symbol = symbol;
    node->cls = p->nodes[parent].cls;
    node->depth = p->nodes[parent].depth + 1;
    node->path = path;
    node->sibling = p->nodes[parent].child;
    p->nodes[parent].child = id;
    if (parent < SYM_CLASSES)
        p->first[parent][symbol] = id;
    return id;
}

static struct node *add_pattern(struct patterns *p, enum symbol_class cls, uint32_t path,
                                size_t len)
{
    uint32_t node = cls;
    for (size_t i = 0; i < len; i++) {
        uint32_t next = child_of(p, node, p->symbols[path + i]);
        node = next ? next : add_child(p, node, p->symbols[path + i], path);
    }
    p->nodes[node].ends = true;
    return &p->nodes[node];
}

/* A server may change the case of a value before it encodes it, so these spellings are encoded
 * too. */
enum spelling {
    AS_IT_IS,
    IN_LOWER,
    IN_UPPER,
};

static uint8_t spell(char c, enum spelling how)
{
    bool lower = c >= 'a' && c <= 'z', upper = c >= 'A' && c <= 'Z';
    return (uint8_t)((how == IN_LOWER && upper) || (how == IN_UPPER && lower) ? c ^ 0x20 : c);
}

static bool spelling_differs(const char *bytes, size_t len, enum spelling how)
{
    for (size_t i = 0; i < len; i++)
        if (spell(bytes[i], how) != (uint8_t)bytes[i])
            return true;
    return how == AS_IT_IS;
}

/* The six-bit groups that lie wholly inside the value when it begins at byte `align` of a group of
 * three. */
static uint32_t add_base64(struct patterns *p, uint32_t used, const char *bytes, size_t len,
                           enum spelling how, unsigned align)
{
    size_t skip = align == 1 ? 4 : align == 2 ? 2 : 0;
    size_t count = (len * 8 - skip) / 6;
    for (size_t i = 0; i < count; i++) {
        size_t bit = skip + i * 6, at = bit / 8;
        unsigned pair = (unsigned)spell(bytes[at], how) << 8;
        if (at + 1 < len)
            pair |= spell(bytes[at + 1], how);
        p->symbols[used + i] = (uint8_t)(pair >> (10 - bit % 8) & 63);
    }
    struct node *end = add_pattern(p, SYM_BASE64, used, count);
    end->edge_before |= skip > 0;
    end->edge_after |= (len * 8 - skip) % 6 != 0;
    return used + (uint32_t)count;
}

static uint32_t add_hex(struct patterns *p, uint32_t used, const char *bytes, size_t len,
                        enum spelling how)
{
    for (size_t i = 0; i < len; i++) {
        p->symbols[used + 2 * i] = spell(bytes[i], how) >> 4;
        p->symbols[used + 2 * i + 1] = spell(bytes[i], how) & 15;
    }
    add_pattern(p, SYM_HEX, used, 2 * len);
    return used + (uint32_t)(2 * len);
}

static uint32_t add_bytes(struct patterns *p, uint32_t used, const char *bytes, size_t len,
                          bool reversed)
{
    for (size_t i = 0; i < len; i++)
        p->symbols[used + i] =
            symbol_of(SYM_BYTES, (uint8_t)bytes[reversed ? len - 1 - i : i], false);
    add_pattern(p, SYM_BYTES, used, len);
    return used + (uint32_t)len;
}

static uint32_t add_value(struct patterns *p, uint32_t used, const struct secret *value)
{
    size_t len;
    const char *bytes = secret_expose(value, &len);
    used = add_bytes(p, used, bytes, len, false);
    used = add_bytes(p, used, bytes, len, true);
    for (enum spelling how = AS_IT_IS; how <= IN_UPPER; how++) {
        if (!spelling_differs(bytes, len, how))
            continue;
        used = add_hex(p, used, bytes, len, how);
        for (unsigned align = 0; align < 3; align++)
            used = add_base64(p, used, bytes, len, how, align);
    }
    return used;
}

/* Of add_value, at most. */
static size_t symbols_of(size_t len)
{
    return len ? 2 * len + (IN_UPPER + 1) * (2 * len + 3 * (len * 8 / 6 + 1)) : 0;
}

/* Breadth first: a node's failure is known before its children's. */
static int link_failures(struct patterns *p, struct err *err)
{
    cleanup_free uint32_t *queue = calloc(p->node_count, sizeof *queue);
    if (!queue)
        return err_memory(err);
    size_t head = 0, tail = 0;
    for (uint32_t root = 0; root < SYM_CLASSES; root++) {
        for (uint32_t c = p->nodes[root].child; c; c = p->nodes[c].sibling) {
            p->nodes[c].fail = root;
            queue[tail++] = c;
        }
    }
    while (head < tail) {
        uint32_t id = queue[head++];
        struct node *node = &p->nodes[id];
        node->out = node->ends ? id : p->nodes[node->fail].out;
        for (uint32_t c = node->child; c; c = p->nodes[c].sibling) {
            p->nodes[c].fail = patterns_step(p, node->fail, p->nodes[c].symbol);
            queue[tail++] = c;
        }
    }
    return 0;
}

/* ---- which bytes a match can begin with ---- */

static void heat_escape(void *ctx, char first, char second)
{
    struct patterns *p = ctx;
    p->hot[patterns_pair((char[]){first, second})] = HOT_ESCAPE;
}

/* fn for each byte that means the symbol of `node`. */
static void each_byte(struct patterns *p, uint32_t node,
                      void (*fn)(struct patterns *p, uint32_t node, char before, char byte),
                      char before)
{
    for (int byte = 0; byte < 256; byte++)
        if (symbol_of(p->nodes[node].cls, (uint8_t)byte, false) == p->nodes[node].symbol)
            fn(p, node, before, (char)byte);
}

static void warm_pair(struct patterns *p, uint32_t node, char before, char byte)
{
    (void)node;
    p->warm[patterns_pair((char[]){before, byte})] = 1;
}

static void warm_third(struct patterns *p, uint32_t node, char before, char byte)
{
    (void)before;
    for (const char *escape = "%\\&"; *escape; escape++)
        warm_pair(p, node, byte, *escape);
    for (uint32_t c = p->nodes[node].child; c; c = p->nodes[c].sibling)
        each_byte(p, c, warm_pair, byte);
}

static void heat_second(struct patterns *p, uint32_t node, char before, char byte)
{
    uint8_t *hot = &p->hot[patterns_pair((char[]){before, byte})];
    if (!*hot)
        *hot = HOT_PLAIN;
    for (uint32_t c = p->nodes[node].child; c; c = p->nodes[c].sibling)
        each_byte(p, c, warm_third, byte);
}

static void heat_first(struct patterns *p, uint32_t node, char before, char byte)
{
    (void)before;
    for (const char *escape = "%\\&"; p->nodes[node].cls != SYM_HEX && *escape; escape++)
        heat_escape(p, byte, *escape);
    for (uint32_t c = p->nodes[node].child; c; c = p->nodes[c].sibling)
        each_byte(p, c, heat_second, byte);
}

static void heat_all(struct patterns *p)
{
    for (int byte = 0; byte < 256; byte++)
        for (const char *escape = "%\\&"; *escape; escape++)
            warm_pair(p, 0, *escape, (char)byte);
    for (uint32_t root = 0; root < SYM_CLASSES; root++) {
        for (uint32_t c = p->nodes[root].child; c; c = p->nodes[c].sibling) {
            each_byte(p, c, heat_first, 0);
            for (int byte = 0; byte < 256; byte++)
                if (symbol_of(root, (uint8_t)byte, true) == p->nodes[c].symbol)
                    escape_heads((uint8_t)byte, heat_escape, p);
        }
    }
}

/* ---- */

/* Room for every symbol to have a node of its own. */
static int allocate(struct patterns *p, size_t symbols, struct err *err)
{
    size_t nodes_len = (symbols + SYM_CLASSES) * sizeof(struct node);
    p->map_len = nodes_len + symbols;
    void *map = mmap(NULL, p->map_len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED) {
        p->map_len = 0;
        return err_sys(err, "map memory for patterns");
    }
    madvise(map, p->map_len, MADV_DONTDUMP);
    p->locked = mlock(map, p->map_len) == 0;
    p->nodes = map;
    p->symbols = (uint8_t *)map + nodes_len;
    p->node_count = SYM_CLASSES;
    for (uint32_t root = 0; root < SYM_CLASSES; root++)
        p->nodes[root] = (struct node){.cls = (uint8_t)root, .fail = root};
    return 0;
}

static int build(struct patterns *p, struct secret *const *values, size_t count, struct err *err)
{
    size_t symbols = 0;
    for (size_t i = 0; i < count; i++) {
        size_t len = 0;
        if (values[i])
            secret_expose(values[i], &len);
        if (len > p->longest)
            p->longest = len;
        symbols += symbols_of(len);
    }
    if (symbols == 0)
        return 0;
    if (allocate(p, symbols, err) < 0)
        return err_number(err);
    uint32_t used = 0;
    for (size_t i = 0; i < count; i++)
        if (values[i])
            used = add_value(p, used, values[i]);
    if (link_failures(p, err) < 0)
        return err_number(err);
    heat_all(p);
    return 0;
}

int patterns_new(struct secret *const *values, size_t count, struct patterns **ret, struct err *err)
{
    struct patterns *p = calloc(1, sizeof *p);
    if (!p)
        return err_memory(err);
    if (build(p, values, count, err) < 0) {
        patterns_free(p);
        return err_number(err);
    }
    *ret = p;
    return 0;
}

void patterns_free(struct patterns *p)
{
    if (!p)
        return;
    if (p->map_len) {
        secret_wipe(p->nodes, p->map_len);
        munmap(p->nodes, p->map_len);
    }
    secret_wipe(p, sizeof *p);
    free(p);
}
