/* Which files belong to which package: dpkg's own lists, read and never run. */
#include "base/cleanup.h"
#include "images/load/host.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DPKG         "/var/lib/dpkg"
#define PACKAGES_MAX 20000
#define FILES_MAX    600000

int host_list_add(struct host_list *l, const char *text, struct err *err)
{
    if (l->count == FILES_MAX)
        return err_set(err, ERR_LIMIT, "more than %d files", FILES_MAX);
    if (l->count == l->room) {
        size_t room = l->room ? 2 * l->room : 256;
        char **wide = realloc(l->items, room * sizeof *wide);
        if (!wide)
            return err_memory(err);
        l->items = wide;
        l->room = room;
    }
    l->items[l->count] = strdup(text);
    return l->items[l->count++] ? 0 : err_memory(err);
}

void host_list_done(struct host_list *l)
{
    while (l->count)
        free(l->items[--l->count]);
    free(l->items);
    *l = (struct host_list){.count = 0};
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

void host_list_settle(struct host_list *l)
{
    size_t kept = 0;
    if (l->count)
        qsort(l->items, l->count, sizeof *l->items, by_text);
    for (size_t i = 0; i < l->count; i++)
        if (kept && strcmp(l->items[kept - 1], l->items[i]) == 0)
            free(l->items[i]);
        else
            l->items[kept++] = l->items[i];
    l->count = kept;
}

int host_list_has(const struct host_list *l, const char *text)
{
    return l->count && bsearch(&text, l->items, l->count, sizeof *l->items, by_text);
}

/* ---- what is installed ---- */

struct package {
    char *name, *arch, *depends, *provides;
    bool installed, essential, wanted;
};

struct packages {
    struct package *items;
    size_t count, room;
};

static void packages_done(struct packages *p)
{
    for (size_t i = 0; i < p->count; i++) {
        free(p->items[i].name);
        free(p->items[i].arch);
        free(p->items[i].depends);
        free(p->items[i].provides);
    }
    free(p->items);
}

static struct package *package_new(struct packages *p)
{
    if (p->count == PACKAGES_MAX)
        return NULL;
    if (p->count == p->room) {
        size_t room = p->room ? 2 * p->room : 512;
        struct package *wide = realloc(p->items, room * sizeof *wide);
        if (!wide)
            return NULL;
        p->items = wide;
        p->room = room;
    }
    p->items[p->count] = (struct package){.name = NULL};
    return &p->items[p->count++];
}

/* A second line of dependencies is added to the first. */
static void take_text(char **slot, const char *text)
{
    char *joined = NULL;
    if (asprintf(&joined, "%s%s%s", *slot ? *slot : "", *slot ? "," : "", text) < 0)
        return;
    free(*slot);
    *slot = joined;
}

static void take_line(struct package *p, char *line)
{
    char *colon = strchr(line, ':');
    if (!colon || line[0] == ' ' || line[0] == '\t')
        return;
    *colon = '\0';
    const char *value = colon + 1 + strspn(colon + 1, " ");
    if (strcmp(line, "Package") == 0)
        take_text(&p->name, value);
    else if (strcmp(line, "Architecture") == 0)
        take_text(&p->arch, value);
    else if (strcmp(line, "Depends") == 0 || strcmp(line, "Pre-Depends") == 0)
        take_text(&p->depends, value);
    else if (strcmp(line, "Provides") == 0)
        take_text(&p->provides, value);
    else if (strcmp(line, "Status") == 0)
        p->installed = strstr(value, " ok installed") != NULL;
    else if (strcmp(line, "Essential") == 0)
        p->essential = strcmp(value, "yes") == 0;
}

static int read_status(struct packages *ret, struct err *err)
{
    FILE *file = fopen(DPKG "/status", "re");
    cleanup_free char *line = NULL;
    size_t size = 0;
    ssize_t n;
    struct package *now = NULL;
    if (!file) {
        err_set(err, ERR_UNSUPPORTED, "this host has no list of packages as dpkg keeps it");
        return err_hint(err, "load an archive instead: brig image load");
    }
    while ((n = getline(&line, &size, file)) >= 0) {
        if (n && line[n - 1] == '\n')
            line[n - 1] = '\0';
        if (!line[0])
            now = NULL;
        else if (now || (now = package_new(ret)))
            take_line(now, line);
    }
    fclose(file);
    return ret->count ? 0 : err_set(err, ERR_REFUSED, "the list of packages is empty");
}

/* ---- what follows from a name ---- */

/* Is `name` in a list such as "a (= 1), b:any"? */
static bool lists(const char *list, const char *name)
{
    size_t len = strlen(name);
    for (const char *at = list; at && *at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        at += strspn(at, " ");
        if (strncmp(at, name, len) == 0 && (!at[len] || strchr(" ,(:", at[len])))
            return true;
    }
    return false;
}

static struct package *find(struct packages *p, const char *name)
{
    for (size_t i = 0; i < p->count; i++)
        if (p->items[i].installed && p->items[i].name && strcmp(p->items[i].name, name) == 0)
            return &p->items[i];
    for (size_t i = 0; i < p->count; i++)
        if (p->items[i].installed && p->items[i].provides && lists(p->items[i].provides, name))
            return &p->items[i];
    return NULL;
}

/* "a (>= 1) | b:any": the first that is installed. */
static struct package *find_one_of(struct packages *p, const char *text, size_t len)
{
    char name[128];
    for (size_t at = 0; at < len;) {
        size_t end = at, skip = strspn(text + at, " ");
        while (end < len && text[end] != '|')
            end++;
        size_t word = strcspn(text + at + skip, " (:|,");
        if (word && word < sizeof name) {
            memcpy(name, text + at + skip, word);
            name[word] = '\0';
            struct package *found = find(p, name);
            if (found)
                return found;
        }
        at = end + 1;
    }
    return NULL;
}

/* True: something new is wanted. */
static bool want_depends(struct packages *p, const char *depends)
{
    bool more = false;
    for (const char *at = depends; at && *at;) {
        size_t len = strcspn(at, ",");
        struct package *found = find_one_of(p, at, len);
        if (found && !found->wanted)
            more = found->wanted = true;
        at += len + (at[len] == ',');
    }
    return more;
}

static void want_closure(struct packages *p)
{
    for (bool more = true; more;) {
        more = false;
        for (size_t i = 0; i < p->count; i++)
            if (p->items[i].wanted && p->items[i].depends)
                more = want_depends(p, p->items[i].depends) || more;
    }
}

static int want_named(struct packages *p, const char *names, struct err *err)
{
    char name[128];
    for (const char *at = names; *at;) {
        size_t len = strcspn(at, ",");
        struct package *found = NULL;
        if (len && len < sizeof name &&
            strspn(at, "abcdefghijklmnopqrstuvwxyz0123456789+.-") == len) {
            memcpy(name, at, len);
            name[len] = '\0';
            found = find(p, name);
        }
        if (!found) {
            err_set(err, ERR_USAGE, "there is no package '%.*s' on this host",
                    (int)(len < 60 ? len : 60), at);
            return err_hint(err, "dpkg-query -l has the names of those that there are");
        }
        found->wanted = true;
        at += len + (at[len] == ',');
    }
    return 0;
}

/* ---- their files ---- */

static int add_files(const struct package *p, struct host_list *ret, struct err *err)
{
    char path[512];
    cleanup_free char *line = NULL;
    size_t size = 0;
    ssize_t n;
    int r = 0;
    snprintf(path, sizeof path, DPKG "/info/%s.list", p->name);
    FILE *file = fopen(path, "re");
    if (!file) {
        snprintf(path, sizeof path, DPKG "/info/%s:%s.list", p->name, p->arch ? p->arch : "");
        file = fopen(path, "re");
    }
    if (!file)
        return err_sys(err, "open the list of files of %s", p->name);
    while (r >= 0 && (n = getline(&line, &size, file)) >= 0) {
        if (n && line[n - 1] == '\n')
            line[n - 1] = '\0';
        if (line[0] == '/')
            r = host_list_add(ret, line, err);
    }
    fclose(file);
    return r;
}

int host_packages_files(const char *names, struct host_list *ret, struct err *err)
{
    __attribute__((cleanup(packages_done))) struct packages p = {.count = 0};
    int r = read_status(&p, err);
    for (size_t i = 0; i < p.count; i++)
        p.items[i].wanted = p.items[i].installed && p.items[i].essential;
    if (r >= 0)
        r = want_named(&p, names, err);
    want_closure(&p);
    for (size_t i = 0; r >= 0 && i < p.count; i++)
        if (p.items[i].wanted && p.items[i].name)
            r = add_files(&p.items[i], ret, err);
    return r;
}
