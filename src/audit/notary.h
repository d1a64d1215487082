/* The notary: `brig-daemon sign`, one process for each run whose receipt leaves. It is started
 * beside the sandbox while that is made, has the installation's key, and signs one receipt: the
 * supervisor, which talks to the code, never holds the key.
 *
 *   3     a socket to the supervisor, wire/wire.h
 *   4     the folder `receipts` of the state of runs (os/runstate.h)
 *
 * It works in the folder `audit` below that (audit/runs.h), sealed like the recorder. It says READY
 * when it could sign, or FAIL; takes RECEIPT with the body as a sealed file and answers DONE with
 * the member `signature`. CLAIM says that the code is about to run: if nothing follows, a record
 * says that the supervisor ended without a receipt. */
#pragma once

int notary_main(void); /* the exit status */
