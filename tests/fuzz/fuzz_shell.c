/* Any bytes as a piece of shell, and as rules on commands: numbers that point where they should, a
 * verdict that is the same again, and stricter rules that are never more lenient. */
#include "policy/commands/commands.h"
#include "policy/commands/shell_parse.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static void require(int condition)
{
    if (!condition)
        abort();
}

static void check(const struct shell_script *s)
{
    for (uint32_t i = 0; i < s->word_count; i++) {
        require(s->words[i].at <= s->chars.len);
        require(s->words[i].subs_from <= s->words[i].subs_to);
        require(s->words[i].subs_to <= s->command_count);
    }
    for (uint32_t i = 0; i < s->command_count; i++) {
        const struct shell_command *c = &s->commands[i];
        require(c->count > 0 && c->first + c->count <= s->word_count);
        require(c->piped_from == SHELL_NONE || c->piped_from < i);
        require(c->function == SHELL_NONE || c->function < s->word_count);
        require(c->here == SHELL_NONE || c->here < s->word_count);
    }
    for (uint32_t i = 0; i < s->redirect_count; i++) {
        require(s->redirects[i].word < s->word_count);
        require(s->redirects[i].command == SHELL_NONE ||
                s->redirects[i].command < s->command_count);
    }
}

static enum command_rule judge(char *text, enum command_rule dangerous, const char *deny)
{
    static const char *const roots[] = {"/workspace"};
    struct command_place at = {roots, 1, "/workspace"};
    struct commands c = {.given = true, .dangerous = dangerous};
    struct origin origin = {.kind = ORIGIN_FILE};
    struct command_verdict v;
    char *argv[] = {(char[]){"sh"}, (char[]){"-c"}, text, NULL};
    if (deny)
        (void)commands_add(&c, COMMAND_DENY, deny, &origin, NULL);
    commands_judge(&c, argv, &at, &v);
    require(v.rule == COMMAND_ALLOW || v.shape != SHAPE_NONE || v.rule_text[0]);
    commands_done(&c);
    return v.rule;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct shell_script s;
    if (size > 20000)
        return 0;
    shell_parse((const char *)data, size, &s);
    check(&s);
    shell_done(&s);
    char *text = malloc(size + 1);
    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    enum command_rule lenient = judge(text, COMMAND_ALLOW, NULL);
    enum command_rule asked = judge(text, COMMAND_ASK, NULL);
    require(lenient == COMMAND_ALLOW && judge(text, COMMAND_ASK, NULL) == asked);
    require(judge(text, COMMAND_DENY, text) >= asked);
    free(text);
    return 0;
}
