/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Directories of keys: making them, granting capabilities, looking at them. "ripc key" does the
 * same for people. A context works with the directory that ripc_config.keys or RIPC_KEYS names.
 * All members of one deployment have the same file "secret" (docs/security.md). No function but
 * ripc_keys_reload() needs a context, and all block only on the file system.
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
#define RIPC_KEYS_AUTHORITY 1u /* also makes the keys of an authority, which grants capabilities */

/* ripc_keys_rotate(): steps, in this order, each on all hosts before the next */
#define RIPC_ROTATE_BEGIN 1u /* a new secret is accepted, but not used yet */
#define RIPC_ROTATE_USE   2u /* the new secret is used, the old one still accepted */
#define RIPC_ROTATE_END   3u /* the old secret is no longer accepted */

/* struct ripc_grant.what */
#define RIPC_MAY_BE   1u
#define RIPC_MAY_SEND 2u

struct ripc_grant {
	size_t size;       /* sizeof(struct ripc_grant) */
	const char *key;   /* the holder's: 64 hexadecimal digits, as in its file "public" */
	uint64_t id;       /* the service ID that the holder may be or send to; 0: any */
	uint64_t until_s;  /* the end of the grant, seconds since 1970 */
	uint32_t what;     /* RIPC_MAY_BE, RIPC_MAY_SEND, or both */
	uint32_t reserved; /* 0 */
};

/*
 * Makes the directory dir, if it does not exist, and its files "private", "public" and "secret";
 * with RIPC_KEYS_AUTHORITY also "authority" and "authority.private". No file is overwritten; if an
 * earlier call was killed, the missing files are added. like: NULL, or a directory whose secret and
 * authority are copied; the two directories then belong to one deployment. why has RIPC_KEYS_WHY
 * bytes; when the call fails, it gets a sentence that says why.
 *  -EEXIST  the directory has keys already
 *  -EACCES  the directory belongs neither to root nor to the user of the process, or other users
 *           can write to it
 *  -EINVAL  a bad argument, or a file with wrong contents
 *  -ENODEV  no cryptography: built without OpenSSL, or its module is not installed
 *  -EFBIG   the limit of file lengths, RLIMIT_FSIZE, is less than the length of a file of keys
 * Other errors are those of the file system, as -ENOSPC.
 */
RIPC_API int ripc_keys_new(const char *dir, const char *like, uint32_t flags, char *why);

/*
 * Signs a capability with the private key of the authority in dir. text has RIPC_CAPABILITY bytes
 * and gets one line, for the holder's file "capabilities", which has at most 8 lines. why and
 * errors as ripc_keys_new().
 */
RIPC_API int ripc_keys_grant(const char *dir, const struct ripc_grant *grant, char *text,
		char *why);

/*
 * Describes the keys of dir in sentences: the public key, its rights, and until when they hold.
 * Calls line once for each sentence (see the conventions of ripc.h). why and errors as
 * ripc_keys_new(); also:
 *  -EACCES  others can read a secret file. A group of the process may, if root owns the file
 *           (docs/security.md)
 */
RIPC_API int ripc_keys_show(const char *dir, int (*line)(void *arg, const char *text), void *arg,
		char *why);

/*
 * Replaces the secret of dir. RIPC_ROTATE_BEGIN makes the file "secret.next" with a new secret,
 * which must then be copied to all other members; RIPC_ROTATE_USE keeps the file "secret" as
 * "secret.old" and puts "secret.next" in its place; RIPC_ROTATE_END removes "secret.old". Open
 * contexts continue: no message is lost if each step has reached all members, and their contexts,
 * before the next. A step that was killed is done once more. why and errors as ripc_keys_new();
 * also:
 *  -EEXIST    RIPC_ROTATE_BEGIN was done before
 *  -ENOENT    it was not
 *  -EALREADY  RIPC_ROTATE_USE or RIPC_ROTATE_END was done before: nothing is changed
 *  -EBUSY     RIPC_ROTATE_END, but RIPC_ROTATE_USE was not done: nothing is changed
 */
RIPC_API int ripc_keys_rotate(const char *dir, uint32_t step, char *why);

/*
 * Adds key, 64 hexadecimal digits, to the file "revoked" of dir: contexts with dir refuse its
 * holder, and end their exchanges with it, within a minute, or from their ripc_keys_reload() on.
 * The call then reads dir as a context does, and fails if dir cannot be read: the key is then in
 * the file, but has no effect. why and errors as ripc_keys_new() and ripc_keys_reload(); also:
 *  -ENOSPC  the file has 120 keys, or the disk is full
 */
RIPC_API int ripc_keys_revoke(const char *dir, const char *key, char *why);

/*
 * Reads the directory of keys of a context again, now; by itself a context does so once a minute.
 * The secrets, capabilities, authority and revoked keys in the directory are used from now on. The
 * private key stays that with which the context was opened. A revoked right has no effect from
 * then on, and a granted right counts from the next send on, which waits for a handshake.
 * Blocks while the file system does; other calls on the context go on meanwhile. With
 * RIPC_NO_THREAD a call that does the context's work reads once a minute: then all calls wait.
 *  -ENOKEY  the context has no keys
 *  -EACCES, -EINVAL  a file cannot be used: all stays as it was, and the log says why
 *  -ENOENT  the same, of a missing file; also if the file "authority" has vanished: no context
 *           loses its authority
 * Errors of the file system have the same effect.
 */
RIPC_API int ripc_keys_reload(struct ripc_context *ctx);

#ifdef __cplusplus
}
#endif

#endif
