/* What a layer that is unpacked alone says about the layers below it, as names in its folder. An
 * archive's own names with this beginning are whiteouts, or left out, so that what has one of these
 * was put there by what unpacked it (brig-unpack), for what lays it over others (images/merge.c).
 *
 *   .wh.NAME            NAME of lower layers is hidden
 *   .wh..wh..opq        all that lower layers have in this folder is
 *   .wh..wh..via        no entry names this folder: where lower layers have a link, it is that
 *   .wh..wh..lnk.NAME   NAME is one more name of a file of the image; a link, whose text says which
 */
#pragma once

#define LAYER_WHITEOUT ".wh."
#define LAYER_OTHER    ".wh..wh."
#define LAYER_OPAQUE   ".wh..wh..opq"
#define LAYER_VIA      ".wh..wh..via"
#define LAYER_LINK     ".wh..wh..lnk."
