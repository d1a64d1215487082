/* What E2B's API has and this one has not. */
#pragma once

/* The sentence for who asks for it, whatever the method; NULL: E2B has no such path either. */
const char *not_offered(const char *path);
