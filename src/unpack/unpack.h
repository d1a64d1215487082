/* One layer of an image, or an archive of images, into a folder.
 *
 * This is the program that reads what strangers packed. It runs in a sandbox of its own, which has
 * the folder, its standard input and output, and nothing else; so what follows keeps an honest
 * reader honest, and the sandbox keeps one that was taken over.
 *
 * IM-2  Nothing is written outside of the folder: names are taken apart, each step is one folder
 *       that is held, and a link counts as it would with the folder as root.
 * IM-3  No entry brings a device, a FIFO, a socket, a set-id bit, an owner or an attribute with it.
 * IM-4  A layer is unpacked alone: what it hides of those below is marked (base/layer_marks.h), and
 *       the folder that it is unpacked to has nothing of theirs.
 * IM-5  Bytes, entries, depth and memory are counted while they come. */
#pragma once

#include "base/err.h"
#include "base/sha256.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define UNPACK_DEPTH_MAX 256 /* folders in one another */
#define UNPACK_NAME_MAX  4000

struct unpack_limits {
    uint64_t bytes;   /* of files, and of the stream that they come in, each */
    uint64_t entries; /* of one archive, with the folders that it needs and does not name */
};

struct unpack_counts {
    uint64_t bytes, left_out;
    char diff_id[72]; /* "sha256:…" of the archive as it is without compression */
};

/* ---- tree.c: the folder ---- */

struct tree {
    int root;
    uint64_t entries, most; /* made so far, and how many may be: IM-5 */
    int parent;             /* the folder of the last entry, kept open: most come side by side */
    char parent_name[UNPACK_NAME_MAX];
    bool marks; /* a layer, which marks what it says about those below */
};

int tree_init(struct tree *t, int root, bool marks, uint64_t most, struct err *err);
/* A name as it stands in an archive, without "./" and doubled slashes; "" is the root itself.
 * Refuses absolute names, "..", and what is too deep or too long. */
int tree_name(const char *name, char ret[static UNPACK_NAME_MAX], struct err *err);
/* One more, before it is made. */
int tree_count(struct tree *t, struct err *err);
/* The folder in which `name` is to be, made and counted where it is missing. *leaf points into
 * name. */
int tree_parent(struct tree *t, const char *name, const char **leaf, struct err *err);
/* Removes what is there, unless it is a folder and shall be one. */
int tree_clear(int dir, const char *leaf, bool keep_folder, struct err *err);
/* An empty file, which may be there already. */
int tree_mark(int dir, const char *name, struct err *err);

/* ---- unpack.c ---- */

struct unpack {
    struct tree tree;
    struct unpack_limits limits;
    struct unpack_counts counts;
    bool unhashed;    /* nobody asks for its digest */
    bool plain;       /* it must not be packed */
    bool lower_links; /* at least one hard link to a file of a lower layer was marked */
};

/* Reads the archive from `fd`. */
int unpack_stream(struct unpack *u, int fd, struct err *err);
