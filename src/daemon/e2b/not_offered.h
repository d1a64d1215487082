/* What E2B's API has and this one has not. */
#pragma once

/* The sentence for a request of this path, whatever its method; NULL: E2B has no such path either.
 */
const char *not_offered(const char *path);
