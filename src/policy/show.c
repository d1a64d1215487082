/* A policy as a document that brig reads back: every field, whether it was chosen or not. */
#include "base/cleanup.h"
#include "base/json.h"
#include "policy/fields.h"
#include "policy/grants.h"

#include <string.h>
#include <strings.h>

static void show_field_json(struct json_writer *w, const struct policy *p, enum policy_field id)
{
    enum field_type type = field_type(id);
    uint64_t number = field_number(p, id);
    jw_key(w, field_key(id));
    if (type == TYPE_BOOL) {
        jw_bool(w, number != 0);
    } else if (type == TYPE_UINT || type == TYPE_COUNT) {
        jw_uint(w, number);
    } else if (type == TYPE_MILLI && number != POLICY_UNLIMITED) {
        if (number % 1000)
            jw_real(w, (double)number / 1000);
        else
            jw_uint(w, number / 1000);
    } else {
        cleanup_buf struct buf text;
        buf_init(&text, w->out->cap);
        policy_field_text(p, id, &text);
        jw_string(w, buf_text(&text));
    }
}

static void show_fields_json(struct json_writer *w, const struct policy *p, const char *section)
{
    for (enum policy_field id = 0; id < FIELD_COUNT; id++) {
        if (field_in_section(id, section))
            show_field_json(w, p, id);
    }
}

static void show_grants_json(struct json_writer *w, const struct policy *p, bool writable)
{
    jw_key(w, writable ? "rw" : "ro");
    jw_array_begin(w);
    for (size_t i = 0; i < p->grant_count; i++) {
        if (p->grants[i].writable != writable)
            continue;
        cleanup_buf struct buf text;
        buf_init(&text, w->out->cap);
        grant_text(&p->grants[i], &text);
        jw_string(w, buf_text(&text));
    }
    jw_array_end(w);
}

static void section_begin(struct json_writer *w, const char *section)
{
    jw_key(w, section);
    jw_object_begin(w);
}

static void show_env_json(struct json_writer *w, const struct policy *p)
{
    jw_key(w, "env");
    jw_object_begin(w);
    for (size_t i = 0; i < p->env_count; i++)
        jw_kv_string(w, p->env[i].name, p->env[i].value);
    jw_object_end(w);
}

void policy_show_json(const struct policy *p, struct buf *out)
{
    struct json_writer w;
    jw_init(&w, out, true);
    jw_object_begin(&w);
    jw_kv_uint(&w, "version", 1);
    show_fields_json(&w, p, "");
    section_begin(&w, "kernel");
    show_fields_json(&w, p, "kernel");
    jw_object_end(&w);
    section_begin(&w, "filesystem");
    show_fields_json(&w, p, "filesystem");
    show_grants_json(&w, p, false);
    show_grants_json(&w, p, true);
    jw_object_end(&w);
    section_begin(&w, "network");
    jw_kv_string(&w, "mode", "off");
    jw_object_end(&w);
    section_begin(&w, "credentials");
    show_env_json(&w, p);
    jw_object_end(&w);
    section_begin(&w, "lifecycle");
    show_fields_json(&w, p, "lifecycle");
    jw_object_end(&w);
    jw_object_end(&w);
    buf_chr(out, '\n');
}

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

/* Plain only where no reader could take it for anything but this text; else as JSON writes it,
 * which is also a YAML double-quoted text. */
static void yaml_text(const char *text, struct buf *out)
{
    static const char safe[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_/.-";
    bool starts_plain = strchr(safe, text[0]) && text[0] != '-' && text[0] != '.' &&
                        !(text[0] >= '0' && text[0] <= '9');
    if (text[0] && starts_plain && text[strspn(text, safe)] == '\0' && !is_yaml_word(text)) {
        buf_str(out, text);
        return;
    }
    struct json_writer w;
    jw_init(&w, out, false);
    jw_string(&w, text);
}

static void show_field_yaml(const struct policy *p, enum policy_field id, const char *indent,
                            struct buf *out)
{
    cleanup_buf struct buf text;
    buf_init(&text, out->cap);
    policy_field_text(p, id, &text);
    buf_fmt(out, "%s%s: ", indent, field_key(id));
    /* Numbers and sizes need no quotes; only words and paths can be mistaken. */
    if (field_type(id) == TYPE_NEED || field_type(id) == TYPE_PATH)
        yaml_text(buf_text(&text), out);
    else
        buf_str(out, buf_text(&text));
    buf_chr(out, '\n');
}

static void show_section_yaml(const struct policy *p, const char *section, struct buf *out)
{
    if (*section)
        buf_fmt(out, "%s:\n", section);
    for (enum policy_field id = 0; id < FIELD_COUNT; id++) {
        if (field_in_section(id, section))
            show_field_yaml(p, id, *section ? "  " : "", out);
    }
}

static void show_grants_yaml(const struct policy *p, bool writable, struct buf *out)
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
        yaml_text(buf_text(&text), out);
        any = true;
    }
    buf_str(out, any ? "\n" : " []\n");
}

static void show_env_yaml(const struct policy *p, struct buf *out)
{
    buf_str(out, p->env_count ? "  env:\n" : "  env: {}\n");
    for (size_t i = 0; i < p->env_count; i++) {
        buf_str(out, "    ");
        yaml_text(p->env[i].name, out);
        buf_str(out, ": ");
        yaml_text(p->env[i].value, out);
        buf_chr(out, '\n');
    }
}

void policy_show_yaml(const struct policy *p, struct buf *out)
{
    buf_str(out, "version: 1\n");
    show_section_yaml(p, "", out);
    show_section_yaml(p, "kernel", out);
    show_section_yaml(p, "filesystem", out);
    show_grants_yaml(p, false, out);
    show_grants_yaml(p, true, out);
    buf_str(out, "network:\n  mode: \"off\"\ncredentials:\n");
    show_env_yaml(p, out);
    show_section_yaml(p, "lifecycle", out);
}
