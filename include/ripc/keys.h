/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Directories of keys: making them, granting capabilities, looking at them. "ripc key" does the
 * same for people. A context works with one when ripc_config.keys or RIPC_KEYS names it; all
 * members of one deployment have the same file "secret" (docs/security.md).
 */
#ifndef RIPC_KEYS_H
#define RIPC_KEYS_H

#include <ripc/ripc.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RIPC_KEYS_WHY   256 /* bytes of a sentence that says what is wrong */
#define RIPC_CAPABILITY 241 /* bytes of a capability as text, with its final zero */

/* ripc_keys_new() */
#define RIPC_KEYS_AUTHORITY 1u /* also the keys of an authority, which grants capabilities */

/* struct ripc_grant.what */
#define RIPC_MAY_BE   1u
#define RIPC_MAY_SEND 2u

struct ripc_grant {
	size_t size;       /* sizeof(struct ripc_grant) */
	const char *key;   /* the holder's: 64 hexadecimal digits, as in its file "public" */
	uint64_t id;       /* of the service that it may be or send to; 0: any */
	uint64_t until_s;  /* seconds since 1970 */
	uint32_t what;     /* RIPC_MAY_BE, RIPC_MAY_SEND, or both */
};

/*
 * Makes the directory dir, if it is not there, and the files in it: "private", "public", "secret",
 * with RIPC_KEYS_AUTHORITY also "authority" and "authority.private". Nothing is overwritten. like:
 * NULL, or a directory whose secret and authority are copied: both belong to one deployment then.
 * why has RIPC_KEYS_WHY bytes, and gets a sentence when the call fails.
 *  -EEXIST  there are keys already
 *  -EINVAL, -ENODEV (no cryptography was built or is installed), what the system says
 */
RIPC_API int ripc_keys_new(const char *dir, const char *like, uint32_t flags, char *why);

/*
 * Signs a capability with the authority's private key of dir. text has RIPC_CAPABILITY bytes; what
 * it gets is to be a line of the file "capabilities" of the holder. Errors as above.
 */
RIPC_API int ripc_keys_grant(const char *dir, const struct ripc_grant *grant, char *text,
		char *why);

/*
 * Calls line for each sentence about the keys of dir: who we are, what we may, until when. text is
 * valid during the call. Errors as above; -EACCES: others can read what is secret.
 */
RIPC_API int ripc_keys_show(const char *dir, void (*line)(void *arg, const char *text), void *arg,
		char *why);

#ifdef __cplusplus
}
#endif

#endif
