/* A policy as a YAML document that brig reads back: every field, whether it was chosen or not. */
#include "base/cleanup.h"
#include "base/utf8.h"
#include "policy/fields.h"
#include "policy/grants.h"

#include <string.h>
#include <strings.h>

/* Words that some YAML reads as something else than a text. */
static bool is_yaml_word(const char *text)
{
    static const char *const words[] = {"true", "false", "null", "yes", "no",
                                        "on",   "off",   "y",    "n"};
    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        if (strcasecmp(words[i], text) == 0)
            return true;
    }
    return false;
}

/* Characters that the reader wants escaped, because YAMLs or terminals disagree about them. */
static bool needs_escape(uint32_t code)
{
    return code < 0x20 || (code >= 0x7F && code < 0xA0) || code == 0x2028 || code == 0x2029 ||
           code == 0xFEFF || code == 0xFFFE || code == 0xFFFF;
}

static void quoted_text(const char *text, struct buf *out)
{
    buf_chr(out, '"');
    while (*text) {
        uint32_t code = 0;
        size_t len = utf8_decode(text, strnlen(text, 4), &code);
        if (len == 0)
            len = 1; /* cannot be: everything in a policy is UTF-8 */
        if (code == '\n')
            buf_str(out, "\\n");
        else if (needs_escape(code))
            buf_fmt(out, "\\u%04x", (unsigned)code);
        else
            buf_fmt(out, "%s%.*s", code == '"' || code == '\\' ? "\\" : "", (int)len, text);
        text += len;
    }
    buf_chr(out, '"');
}

/* Plain only where no reader could take it for anything but this text. */
static void show_text(const char *text, struct buf *out)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_/";
    static const char safe[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_/.-";
    if (strspn(text, letters) > 0 && text[strspn(text, safe)] == '\0' && !is_yaml_word(text))
        buf_str(out, text);
    else
        quoted_text(text, out);
}

static void show_field(const struct policy *p, enum policy_field id, const char *indent,
                       struct buf *out)
{
    cleanup_buf struct buf text;
    buf_init(&text, out->cap);
    policy_field_text(p, id, &text);
    buf_fmt(out, "%s%s: ", indent, field_key(id));
    /* Numbers and sizes need no quotes; only words and paths can be mistaken. */
    if (field_type(id) == TYPE_NEED || field_type(id) == TYPE_PATH)
        show_text(buf_text(&text), out);
    else
        buf_str(out, buf_text(&text));
    buf_chr(out, '\n');
}

static void show_section(const struct policy *p, const char *section, struct buf *out)
{
    if (*section)
        buf_fmt(out, "%s:\n", section);
    for (enum policy_field id = 0; id < FIELD_COUNT; id++) {
        if (field_in_section(id, section))
            show_field(p, id, *section ? "  " : "", out);
    }
}

static void show_grants(const struct policy *p, bool writable, struct buf *out)
{
    bool any = false;
    buf_fmt(out, "  %s:", writable ? "rw" : "ro");
    for (size_t i = 0; i < p->grant_count; i++) {
        if (p->grants[i].writable != writable)
            continue;
        cleanup_buf struct buf text;
        buf_init(&text, out->cap);
        grant_text(&p->grants[i], &text);
        buf_str(out, "\n    - ");
        show_text(buf_text(&text), out);
        any = true;
    }
    buf_str(out, any ? "\n" : " []\n");
}

static void show_env(const struct policy *p, struct buf *out)
{
    buf_str(out, p->env_count ? "  env:\n" : "  env: {}\n");
    for (size_t i = 0; i < p->env_count; i++) {
        buf_str(out, "    ");
        show_text(p->env[i].name, out);
        buf_str(out, ": ");
        show_text(p->env[i].value, out);
        buf_chr(out, '\n');
    }
}

void policy_show_yaml(const struct policy *p, struct buf *out)
{
    buf_str(out, "version: 1\n");
    show_section(p, "", out);
    show_section(p, "kernel", out);
    show_section(p, "filesystem", out);
    show_grants(p, false, out);
    show_grants(p, true, out);
    buf_str(out, "network:\n  mode: \"off\"\ncredentials:\n");
    show_env(p, out);
    show_section(p, "lifecycle", out);
}
