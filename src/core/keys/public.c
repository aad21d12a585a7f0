/* SPDX-License-Identifier: BSD-3-Clause */
/* Public calls: directories of keys. They make, show and change them, and grant capabilities. */
#include "ripc/keys.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "core/base/base.h"
#include "core/net/crypto.h"
#include "dir.h"
#include "util/system/cancel.h"
#include "util/system/mapping.h"
#include "util/text.h"

static int crypto_open(struct cipher_box *box, char *why)
{
	char cause[256] = "", remedy[256] = "";
	const struct ripc__crypto *ops = ripc__crypto_load(cause, remedy);

	if (ops)
		return ripc__box_open(box, ops);
	snprintf(why, RIPC_KEYS_WHY, "%.120s: %.120s", cause, remedy);
	return -ENODEV;
}

static bool key_parse(const char *text, uint8_t key[32], char *why)
{
	if (strlen(text) == 64 && ripc__hex_read(text, key, 32))
		return true;
	snprintf(why, RIPC_KEYS_WHY, "the key is not 64 hexadecimal digits, as in the file "
		"\"public\" of its owner");
	return false;
}

/* ---- files ------------------------------------------------------------------------------- */

/* A directory that is being changed. */
struct place {
	const char *dir;
	int at;    /* locked: other processes that change the directory wait */
	char *why; /* RIPC_KEYS_WHY bytes */
};

static int fail_at(const struct place *place, const char *name, int error)
{
	snprintf(place->why, RIPC_KEYS_WHY, "%.140s/%s: %s", place->dir, name,
		error == -EEXIST ? "already exists" : strerror(-error));
	return error;
}

/* Checks the owner of a directory, who could replace our files. */
static int place_judge(const struct place *place)
{
	struct stat status;

	if (fstat(place->at, &status) == 0)
		return ripc__key_dir_judge(place->dir, &status, place->why);
	return fail_at(place, ".", -errno);
}

static int place_open(struct place *place)
{
	int error;

	place->at = open(place->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (place->at >= 0 && flock(place->at, LOCK_EX) == 0) {
		error = place_judge(place);
		if (!error)
			return 0;
	} else {
		error = -errno;
		snprintf(place->why, RIPC_KEYS_WHY, "%.160s: %s", place->dir, strerror(-error));
	}
	if (place->at >= 0)
		close(place->at);
	return error;
}

static bool is_there(const struct place *place, const char *name)
{
	return faccessat(place->at, name, F_OK, 0) == 0;
}

static int write_text(int fd, const char *text, size_t len)
{
	ssize_t n;

	if (ripc__is_over_file_limit(len))
		return -EFBIG;
	n = write(fd, text, len);
	if (n >= 0 && (size_t)n < len)
		return -ENOSPC;
	return n < 0 || fsync(fd) ? -errno : 0;
}

/* Renames without replacing another file. Not all file systems have both methods. */
static int name_give(int at, const char *made, const char *name)
{
	if (syscall(SYS_renameat2, at, made, at, name, RENAME_NOREPLACE) == 0)
		return 0;
	if (errno != EINVAL && errno != ENOSYS)
		return -errno;
	return linkat(at, made, at, name, 0) ? -errno : 0;
}

/* Writes a file, which appears as a whole or not at all: it gets its name last. */
static int file_put(const struct place *place, const char *name, mode_t mode, const char *text,
		size_t len, bool replaces)
{
	char made[32];
	int error, fd;

	snprintf(made, sizeof(made), ".%.24s.new", name);
	(void)unlinkat(place->at, made, 0); /* left by a process that was killed */
	fd = openat(place->at, made, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
	error = fd < 0 ? -errno : write_text(fd, text, len);
	if (fd >= 0 && close(fd) && !error)
		error = -errno;
	if (!error && replaces)
		error = renameat(place->at, made, place->at, name) ? -errno : 0;
	else if (!error)
		error = name_give(place->at, made, name);
	if (!error)
		error = fsync(place->at) ? -errno : 0;
	(void)unlinkat(place->at, made, 0);
	return error ? fail_at(place, name, error) : 0;
}

/* Writes a file of 64 digits. A killed run may have left one with the same digits. */
static int key_write(const struct place *place, const char *name, mode_t mode,
		const uint8_t key[32])
{
	uint8_t old[32];
	char text[65];
	int error;

	if (is_there(place, name)) {
		error = ripc__key_file_read(place->dir, name, mode == 0600, old, place->why);
		if (!error && !ripc__is_equal(old, key, 32))
			error = fail_at(place, name, -EEXIST);
		explicit_bzero(old, sizeof(old));
		return error;
	}
	ripc__hex_write(text, key, 32);
	text[64] = '\n';
	error = file_put(place, name, mode, text, sizeof(text), false);
	explicit_bzero(text, sizeof(text));
	return error;
}

/* ---- making ------------------------------------------------------------------------------ */

static int draw(uint8_t key[32], char *why)
{
	if (getrandom(key, 32, 0) == 32)
		return 0;
	snprintf(why, RIPC_KEYS_WHY, "the system provides no random numbers");
	return -EIO;
}

/* Makes a private key, or takes the key that a killed run has left. */
static int private_make(const struct place *place, const char *name, uint8_t key[32])
{
	int error = ripc__key_file_read(place->dir, name, true, key, place->why);

	if (error != -ENOENT)
		return error;
	error = draw(key, place->why);
	return error ? error : key_write(place, name, 0600, key);
}

static int pair_write(struct cipher_box *box, const struct place *place)
{
	struct static_keys own;
	int error = private_make(place, "private", own.secret);

	error = error ? error : box->ops->dh_public(box->lib, own.secret, own.public);
	error = error ? error : key_write(place, "public", 0644, own.public);
	explicit_bzero(&own, sizeof(own));
	return error;
}

static int authority_write(struct cipher_box *box, const struct place *place)
{
	uint8_t secret[32], key[32];
	int error = private_make(place, "authority.private", secret);

	error = error ? error : box->ops->sign_public(box->lib, secret, key);
	error = error ? error : key_write(place, "authority", 0644, key);
	explicit_bzero(secret, sizeof(secret));
	return error;
}

/* Copies a file of another directory, if it exists. */
static int file_copy(const struct place *place, const char *like, const char *name, mode_t mode)
{
	uint8_t key[32];
	int error = ripc__key_file_read(like, name, mode == 0600, key, place->why);

	error = error ? error : key_write(place, name, mode, key);
	explicit_bzero(key, sizeof(key));
	return error == -ENOENT ? 0 : error;
}

/* Copies the secret and the authority's key of another directory, or makes a new secret. */
static int deployment_write(const struct place *place, const char *like)
{
	uint8_t key[32];
	int error = like ? ripc__key_file_read(like, "secret", true, key, place->why) :
		draw(key, place->why);

	if (!error && like)
		error = file_copy(place, like, "secret.next", 0600);
	if (!error && like)
		error = file_copy(place, like, "secret.old", 0600);
	if (!error && like)
		error = file_copy(place, like, "authority", 0644);
	error = error ? error : key_write(place, "secret", 0600, key);
	explicit_bzero(key, sizeof(key));
	return error;
}

/* Writes all files, the secret last: if it is missing, a run was killed, and the next goes on. */
static int all_write(struct cipher_box *box, const struct place *place, const char *like,
		uint32_t flags)
{
	int error = is_there(place, "secret") ? -EEXIST : 0;

	if (error) {
		snprintf(place->why, RIPC_KEYS_WHY, "%.160s: has keys already", place->dir);
		return error;
	}
	error = pair_write(box, place);
	if (!error && flags & RIPC_KEYS_AUTHORITY)
		error = authority_write(box, place);
	return error ? error : deployment_write(place, like);
}

int ripc_keys_new(const char *dir, const char *like, uint32_t flags, char *why)
{
	RIPC__HOLD_CANCEL;
	struct place place = {.dir = dir, .why = why};
	struct cipher_box box = {0};
	int error;

	if (!dir || !why || flags & ~RIPC_KEYS_AUTHORITY || (like && flags))
		return -EINVAL;
	error = crypto_open(&box, why);
	if (error)
		return error;
	if (mkdir(dir, 0700) && errno != EEXIST) {
		error = -errno;
		snprintf(why, RIPC_KEYS_WHY, "%.160s: %s", dir, strerror(-error));
	}
	error = error ? error : place_open(&place);
	if (!error) {
		error = all_write(&box, &place, like, flags);
		close(place.at);
	}
	ripc__box_close(&box);
	return error;
}

/* ---- granting ---------------------------------------------------------------------------- */

int ripc_keys_grant(const char *dir, const struct ripc_grant *grant, char *text, char *why)
{
	RIPC__HOLD_CANCEL;
	uint8_t bytes[CAPABILITY_LEN], secret[32];
	struct capability capability;
	struct cipher_box box = {0};
	struct ripc_grant own;
	int error = ripc__struct_take(&own, sizeof(own), grant,
		offsetof(struct ripc_grant, reserved) + sizeof(own.reserved));

	if (error)
		return error;
	if (!dir || !text || !why || !own.key || !own.what || own.reserved ||
			own.what & ~(RIPC_MAY_BE | RIPC_MAY_SEND))
		return -EINVAL;
	capability = (struct capability){.what = (uint8_t)own.what, .id = own.id,
		.until_s = own.until_s};
	if (!key_parse(own.key, capability.holder, why))
		return -EINVAL;
	error = crypto_open(&box, why);
	error = error ? error : ripc__key_file_read(dir, "authority.private", true, secret, why);
	if (!error) {
		ripc__capability_encode(&capability, bytes);
		error = ripc__capability_sign(&box, secret, bytes);
	}
	if (error == -ENOENT)
		snprintf(why, RIPC_KEYS_WHY, "%.110s is not the directory of an authority, which "
			"grants capabilities: name one, or make one by ripc key new --authority",
			dir);
	explicit_bzero(secret, sizeof(secret));
	if (!error)
		ripc__hex_write(text, bytes, CAPABILITY_LEN);
	ripc__box_close(&box);
	return error;
}

/* ---- replacing --------------------------------------------------------------------------- */

static int say(const struct place *place, int error, const char *text)
{
	snprintf(place->why, RIPC_KEYS_WHY, "%.120s: %s", place->dir, text);
	return error;
}

static int rotate_begin(const struct place *place)
{
	uint8_t key[32];
	int error = ripc__key_file_read(place->dir, "secret", true, key, place->why);

	if (!error && (is_there(place, "secret.next") || is_there(place, "secret.old")))
		error = say(place, -EEXIST, "the secret is being replaced already: ripc key show "
			"names the next step");
	error = error ? error : draw(key, place->why);
	error = error ? error : key_write(place, "secret.next", 0600, key);
	explicit_bzero(key, sizeof(key));
	return error;
}

static int used_already(const struct place *place)
{
	return say(place, -EALREADY, "the next secret is in use already: nothing is changed");
}

/* First keeps the old secret, then renames the next one. A repetition goes on from there. */
static int secret_replace(const struct place *place, const uint8_t now[32], const uint8_t next[32])
{
	int error;

	if (ripc__is_equal(now, next, 32)) /* copied again from a host that is behind */
		return unlinkat(place->at, "secret.next", 0) ?
			fail_at(place, "secret.next", -errno) : used_already(place);
	error = key_write(place, "secret.old", 0600, now);
	if (error)
		return error;
	return renameat(place->at, "secret.next", place->at, "secret") || fsync(place->at) ?
		fail_at(place, "secret.next", -errno) : 0;
}

static int rotate_use(const struct place *place)
{
	uint8_t now[32], next[32];
	int error = ripc__key_file_read(place->dir, "secret.next", true, next, place->why);

	if (error == -ENOENT && is_there(place, "secret.old"))
		return used_already(place);
	if (error == -ENOENT)
		return say(place, error, "there is no next secret: make it by ripc key rotate "
			"begin, or copy secret.next from the host where you made it");
	error = error ? error : ripc__key_file_read(place->dir, "secret", true, now, place->why);
	error = error ? error : secret_replace(place, now, next);
	explicit_bzero(now, sizeof(now));
	explicit_bzero(next, sizeof(next));
	return error;
}

static int rotate_end(const struct place *place)
{
	if (!is_there(place, "secret.next") && !is_there(place, "secret.old"))
		return say(place, -EALREADY, "no secret is being replaced: nothing is changed");
	if (is_there(place, "secret.next"))
		return say(place, -EBUSY, "the next secret is not in use yet: run ripc key rotate "
			"use on all hosts first");
	if (unlinkat(place->at, "secret.old", 0) || fsync(place->at))
		return fail_at(place, "secret.old", -errno);
	return 0;
}

int ripc_keys_rotate(const char *dir, uint32_t step, char *why)
{
	RIPC__HOLD_CANCEL;
	struct place place = {.dir = dir, .why = why};
	int error;

	if (!dir || !why || step < RIPC_ROTATE_BEGIN || step > RIPC_ROTATE_END)
		return -EINVAL;
	error = place_open(&place);
	if (error)
		return error;
	error = step == RIPC_ROTATE_BEGIN ? rotate_begin(&place) :
		step == RIPC_ROTATE_USE ? rotate_use(&place) : rotate_end(&place);
	close(place.at);
	return error;
}

/* ---- revoking ---------------------------------------------------------------------------- */

#define TEXT_MAX 8192u /* longer than any valid file of keys */

/* Reads the file "revoked" unchanged. Returns its length. */
static int revoked_read(const struct place *place, char text[TEXT_MAX])
{
	int fd = openat(place->at, "revoked", O_RDONLY | O_CLOEXEC);
	struct stat status;
	ssize_t n;

	if (fd < 0)
		return errno == ENOENT ? 0 : fail_at(place, "revoked", -errno);
	n = read(fd, text, TEXT_MAX);
	if (n < 0 || fstat(fd, &status) || n != status.st_size)
		n = fail_at(place, "revoked", n < 0 ? -errno : -EIO);
	close(fd);
	return (int)n;
}

static int revoked_add(const struct place *place, const char *key, const uint8_t bytes[32])
{
	struct key_dir found = {0};
	char text[TEXT_MAX + 68];
	/* All programs would refuse a directory with a line too many, or with a wrong one. */
	int error = ripc__key_dir_revoked(place->dir, &found, 66, place->why), n;

	if (error || ripc__key_dir_revokes(&found, bytes))
		return error;
	n = revoked_read(place, text);
	if (n < 0)
		return n;
	/* An editor may have left the last line without its end. */
	n += snprintf(text + n, 67, "%s%s\n", n && text[n - 1] != '\n' ? "\n" : "", key);
	return file_put(place, "revoked", 0644, text, (size_t)n, true);
}

/* Checks that programs can read the directory: only then the key is revoked. */
static int revoked_check(struct cipher_box *box, const struct place *place)
{
	char cause[KEY_WHY];
	struct key_dir found;
	int error = ripc__key_dir_read(place->dir, box, &found, cause);

	ripc__key_dir_wipe(&found);
	if (error)
		snprintf(place->why, RIPC_KEYS_WHY, "written, but programs cannot read the "
			"directory: %.190s", cause);
	return error;
}

int ripc_keys_revoke(const char *dir, const char *key, char *why)
{
	RIPC__HOLD_CANCEL;
	struct place place = {.dir = dir, .why = why};
	struct cipher_box box = {0};
	uint8_t bytes[32];
	int error;

	if (!dir || !key || !why || !key_parse(key, bytes, why))
		return -EINVAL;
	error = crypto_open(&box, why);
	if (error)
		return error;
	error = place_open(&place);
	if (!error) {
		error = revoked_add(&place, key, bytes);
		error = error ? error : revoked_check(&box, &place);
		close(place.at);
	}
	ripc__box_close(&box);
	return error;
}

/* ---- showing ----------------------------------------------------------------------------- */

struct showing {
	char *lines; /* each with its final zero */
	size_t len;
	bool lost;   /* there was no memory for a line */
	struct cipher_box box;
	struct key_dir dir;
};

static void line_add(struct showing *showing, const char *text)
{
	size_t len = strlen(text) + 1;
	char *lines = realloc(showing->lines, showing->len + len);

	if (!lines) {
		showing->lost = true;
		return;
	}
	memcpy(lines + showing->len, text, len);
	showing->lines = lines;
	showing->len += len;
}

static const char *state_of(struct showing *showing, const uint8_t bytes[CAPABILITY_LEN],
		const struct capability *capability)
{
	if (!ripc__is_equal(capability->holder, showing->dir.own.public, 32))
		return "invalid: granted to another key";
	if (!showing->dir.has_authority)
		return "invalid: there is no authority";
	if (ripc__capability_verify(&showing->box, showing->dir.authority, bytes))
		return "invalid: not signed by our authority";
	return capability->until_s <= (uint64_t)time(NULL) ? "EXPIRED" : "valid";
}

static void show_capability(struct showing *showing, const uint8_t bytes[CAPABILITY_LEN])
{
	struct capability capability;
	char text[160], id[24] = "any service", until[32] = "the end of time";
	time_t until_s;
	struct tm day;

	if (ripc__capability_decode(bytes, &capability))
		return;
	until_s = (time_t)capability.until_s;
	if (capability.id)
		snprintf(id, sizeof(id), "0x%016" PRIx64, capability.id);
	if (gmtime_r(&until_s, &day))
		strftime(until, sizeof(until), "%Y-%m-%d %H:%M UTC", &day);
	snprintf(text, sizeof(text), "may %s %s until %s: %s", capability.what == CAPABILITY_BE ?
		"be" : capability.what == CAPABILITY_SEND ? "send to" : "be and send to", id, until,
		state_of(showing, bytes, &capability));
	line_add(showing, text);
}

static void show(struct showing *showing)
{
	const struct iovec label = {"ripc fingerprint 1", 18};
	char text[160] = "key ", *digits = text + 4;
	uint8_t mac[32];

	ripc__hex_write(digits, showing->dir.own.public, 32);
	line_add(showing, text);
	if (showing->box.ops->mac(showing->box.lib, showing->dir.secrets[0], &label, 1, mac) == 0) {
		strcpy(text, "deployment ");
		ripc__hex_write(text + 11, mac, 8);
		line_add(showing, text);
	}
	if (showing->dir.n_secrets > 1)
		line_add(showing, showing->dir.has_next ?
			"rotation: begun; secret.next is accepted, too. When all hosts have it, "
			"run ripc key rotate use" :
			"rotation: in use; secret.old is accepted, too. When all hosts use the new "
			"secret, run ripc key rotate end");
	for (uint32_t i = 0; i < showing->dir.n_revoked; i++) {
		strcpy(text, "revoked ");
		ripc__hex_write(text + 8, showing->dir.revoked[i], 32);
		line_add(showing, text);
	}
	if (!showing->dir.has_authority) {
		line_add(showing, "no authority: every program with the secret may be any service "
			"and send to any");
		return;
	}
	strcpy(text, "authority ");
	ripc__hex_write(text + 10, showing->dir.authority, 32);
	line_add(showing, text);
	if (!showing->dir.n_capabilities)
		line_add(showing, "no capability: others refuse this key; see ripc key grant");
	for (uint32_t i = 0; i < showing->dir.n_capabilities; i++)
		show_capability(showing, showing->dir.capabilities[i]);
}

/* While line runs, no file is open, and no secret is in memory. */
int ripc_keys_show(const char *dir, int (*line)(void *arg, const char *text), void *arg, char *why)
{
	RIPC__HOLD_CANCEL;
	struct showing showing = {0};
	int error, ended = 0;

	if (!dir || !line || !why)
		return -EINVAL;
	error = crypto_open(&showing.box, why);
	error = error ? error : ripc__key_dir_read(dir, &showing.box, &showing.dir, why);
	if (!error)
		show(&showing);
	ripc__key_dir_wipe(&showing.dir);
	ripc__box_close(&showing.box);
	if (!error && showing.lost) {
		error = -ENOMEM;
		snprintf(why, RIPC_KEYS_WHY, "out of memory");
	}
	for (size_t at = 0; !error && !ended && at < showing.len;
			at += strlen(showing.lines + at) + 1)
		ended = line(arg, showing.lines + at);
	free(showing.lines);
	return error;
}
