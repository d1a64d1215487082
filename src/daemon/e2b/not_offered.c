/* Paths of E2B's API that lead to nothing here. A client that is told "not found" looks for a
 * mistake of its own; so each of them has one sentence that says what there is instead. The table
 * stands in docs/serve.md too, and a test compares the two. */
#include "daemon/e2b/not_offered.h"

#include "base/cleanup.h"
#include "daemon/api/target.h"

static const char templates[] =
    "templates are files of the operator's and are not built, changed or "
    "published by requests: brig serve --templates, --template";
static const char volumes[] =
    "volumes are not offered: a sandbox can work on a view of a project (brig serve --project)";
static const char secrets[] = "secrets are the operator's, in credentials.secrets of a template, "
                              "and are not stored by requests";
static const char teams[] = "there are no teams: keys are made with brig keys add";
static const char compose[] = "files are not composed here: write the whole one";
static const char metrics[] =
    "what a sandbox uses is told by the API, not by the sandbox: GET /sandboxes/{id}/metrics";

static const struct {
    const char *path, *text;
} rows[] = {
    {"/templates", templates},
    {"/v2/templates", templates},
    {"/v3/templates", templates},
    {"/templates/tags", templates},
    {"/templates/{id}", templates},
    {"/v2/templates/{id}", templates},
    {"/templates/{id}/tags", templates},
    {"/templates/{id}/files/{hash}", templates},
    {"/templates/{id}/builds/{build}", templates},
    {"/v2/templates/{id}/builds/{build}", templates},
    {"/templates/{id}/builds/{build}/status", templates},
    {"/templates/{id}/builds/{build}/logs", templates},
    {"/volumes", volumes},
    {"/volumes/{id}", volumes},
    {"/volumecontent/{id}/path", volumes},
    {"/volumecontent/{id}/dir", volumes},
    {"/volumecontent/{id}/file", volumes},
    {"/secrets", secrets},
    {"/secrets/{id}", secrets},
    {"/teams", teams},
    {"/teams/{id}/metrics", teams},
    {"/teams/{id}/metrics/max", teams},
    {"/api-keys", teams},
    {"/api-keys/{id}", teams},
    {"/access-tokens", teams},
    {"/access-tokens/{id}", teams},
    {"/files/compose", compose},
    {"/metrics", metrics},
};

const char *not_offered(const char *path)
{
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct params params = {0};
        if (path_match(rows[i].path, path, &params))
            return rows[i].text;
    }
    return NULL;
}
