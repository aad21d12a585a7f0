/* SPDX-License-Identifier: BSD-3-Clause */
/* Directories of keys: made, granted from, and shown; no context is needed. */
#include "ripc/keys.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "capability.h"
#include "core/net/crypto.h"
#include "dir.h"
#include "noise.h"
#include "util/hex.h"

static int crypto_open(struct cipher_box *box, char *why)
{
	char cause[256] = "", remedy[256] = "";
	const struct ripc__crypto *ops = ripc__crypto_load(cause, remedy);

	if (ops)
		return ripc__box_open(box, ops);
	snprintf(why, RIPC_KEYS_WHY, "%.120s: %.120s", cause, remedy);
	return -ENODEV;
}

/* ---- making ------------------------------------------------------------------------------ */

static int write_text(int fd, const char *text, size_t len)
{
	ssize_t n = write(fd, text, len);

	if (n >= 0 && (size_t)n < len)
		return -ENOSPC;
	return n < 0 || fsync(fd) ? -errno : 0;
}

/* A new file of 64 digits. */
static int key_write(const char *dir, const char *name, mode_t mode, const uint8_t key[32],
		char *why)
{
	char path[PATH_MAX], text[66];
	int error = 0, fd;

	if (snprintf(path, sizeof(path), "%s/%s", dir, name) >= PATH_MAX)
		return -ENAMETOOLONG;
	ripc__hex_write(text, key, 32);
	text[64] = '\n';
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
	error = fd < 0 ? -errno : write_text(fd, text, 65);
	if (fd >= 0 && close(fd) && !error)
		error = -errno;
	explicit_bzero(text, sizeof(text));
	if (error)
		snprintf(why, RIPC_KEYS_WHY, "%.160s: %s", path, error == -EEXIST ?
			"there are keys already" : strerror(-error));
	return error;
}

static int draw(uint8_t key[32], char *why)
{
	if (getrandom(key, 32, 0) == 32)
		return 0;
	snprintf(why, RIPC_KEYS_WHY, "the system gives no random numbers");
	return -EIO;
}

static int pair_write(struct cipher_box *box, const char *dir, char *why)
{
	struct static_keys own;
	int error = draw(own.secret, why);

	error = error ? error : box->ops->dh_public(box->lib, own.secret, own.public);
	error = error ? error : key_write(dir, "private", 0600, own.secret, why);
	error = error ? error : key_write(dir, "public", 0644, own.public, why);
	explicit_bzero(&own, sizeof(own));
	return error;
}

static int authority_write(struct cipher_box *box, const char *dir, char *why)
{
	uint8_t secret[32], key[32];
	int error = draw(secret, why);

	error = error ? error : box->ops->sign_public(box->lib, secret, key);
	error = error ? error : key_write(dir, "authority.private", 0600, secret, why);
	error = error ? error : key_write(dir, "authority", 0644, key, why);
	explicit_bzero(secret, sizeof(secret));
	return error;
}

/* A file of another directory, if there is one. */
static int file_copy(const char *dir, const char *like, const char *name, mode_t mode, char *why)
{
	uint8_t key[32];
	int error = ripc__key_file_read(like, name, mode == 0600, key, why);

	error = error ? error : key_write(dir, name, mode, key, why);
	explicit_bzero(key, sizeof(key));
	return error == -ENOENT ? 0 : error;
}

/* The secret and the authority's key of another directory, or a new secret. */
static int deployment_write(const char *dir, const char *like, char *why)
{
	uint8_t key[32];
	int error = like ? ripc__key_file_read(like, "secret", true, key, why) : draw(key, why);

	error = error ? error : key_write(dir, "secret", 0600, key, why);
	explicit_bzero(key, sizeof(key));
	if (!error && like)
		error = file_copy(dir, like, "secret.other", 0600, why);
	if (!error && like)
		error = file_copy(dir, like, "authority", 0644, why);
	return error;
}

int ripc_keys_new(const char *dir, const char *like, uint32_t flags, char *why)
{
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
	error = error ? error : pair_write(&box, dir, why);
	error = error ? error : deployment_write(dir, like, why);
	if (!error && flags & RIPC_KEYS_AUTHORITY)
		error = authority_write(&box, dir, why);
	ripc__box_close(&box);
	return error;
}

/* ---- granting ---------------------------------------------------------------------------- */

int ripc_keys_grant(const char *dir, const struct ripc_grant *grant, char *text, char *why)
{
	uint8_t bytes[CAPABILITY_LEN], secret[32];
	struct capability capability;
	struct cipher_box box = {0};
	int error;

	if (!dir || !grant || !text || !why || grant->size < sizeof(*grant) || !grant->key ||
			!grant->what || grant->what & ~(RIPC_MAY_BE | RIPC_MAY_SEND))
		return -EINVAL;
	capability = (struct capability){.what = (uint8_t)grant->what, .id = grant->id,
		.until_s = grant->until_s};
	if (strlen(grant->key) != 64 || !ripc__hex_read(grant->key, capability.holder, 32)) {
		snprintf(why, RIPC_KEYS_WHY, "the holder's key is not 64 hexadecimal digits, "
			"as its file \"public\" has them");
		return -EINVAL;
	}
	error = crypto_open(&box, why);
	error = error ? error : ripc__key_file_read(dir, "authority.private", true, secret, why);
	if (!error) {
		ripc__capability_encode(&capability, bytes);
		error = ripc__capability_sign(&box, secret, bytes);
		explicit_bzero(secret, sizeof(secret));
	}
	if (!error)
		ripc__hex_write(text, bytes, CAPABILITY_LEN);
	ripc__box_close(&box);
	return error;
}

/* ---- replacing and revoking -------------------------------------------------------------- */

/* Where a file is there it is not overwritten; what is read must be as a secret is. */
static int rotate(const char *dir, uint32_t step, char *why)
{
	char path[PATH_MAX], other[PATH_MAX];
	uint8_t key[32];
	int error = 0;

	if (snprintf(path, sizeof(path), "%s/secret", dir) >= PATH_MAX ||
			snprintf(other, sizeof(other), "%s/secret.other", dir) >= PATH_MAX)
		return -ENAMETOOLONG;
	if (step == RIPC_ROTATE_BEGIN) {
		error = ripc__key_file_read(dir, "secret", true, key, why);
		error = error ? error : draw(key, why);
		error = error ? error : key_write(dir, "secret.other", 0600, key, why);
		explicit_bzero(key, sizeof(key));
		return error;
	}
	error = ripc__key_file_read(dir, "secret.other", true, key, why);
	explicit_bzero(key, sizeof(key));
	if (error)
		return error;
	if (step == RIPC_ROTATE_END)
		error = unlink(other);
	else
		error = (int)syscall(SYS_renameat2, AT_FDCWD, other, AT_FDCWD, path,
			RENAME_EXCHANGE);
	if (!error)
		return 0;
	error = -errno;
	snprintf(why, RIPC_KEYS_WHY, "%.160s: %s", other, strerror(-error));
	return error;
}

int ripc_keys_rotate(const char *dir, uint32_t step, char *why)
{
	if (!dir || !why || step < RIPC_ROTATE_BEGIN || step > RIPC_ROTATE_END)
		return -EINVAL;
	return rotate(dir, step, why);
}

/* Does the file end in the middle of a line, as an editor may have left it? */
static bool lacks_end(int fd)
{
	off_t len = lseek(fd, 0, SEEK_END);
	char last = '\n';

	return len > 0 && pread(fd, &last, 1, len - 1) == 1 && last != '\n';
}

int ripc_keys_revoke(const char *dir, const char *key, char *why)
{
	struct key_dir found = {0};
	char path[PATH_MAX], line[68];
	uint8_t bytes[32];
	int error, fd, len;

	if (!dir || !key || !why || snprintf(path, sizeof(path), "%s/revoked", dir) >= PATH_MAX)
		return -EINVAL;
	if (strlen(key) != 64 || !ripc__hex_read(key, bytes, 32)) {
		snprintf(why, RIPC_KEYS_WHY, "the key is not 64 hexadecimal digits, as the file "
			"\"public\" of its holder has them");
		return -EINVAL;
	}
	/* All programs would refuse a directory with a line too many, or with a wrong one. */
	error = ripc__key_dir_revoked(dir, &found, sizeof(line), why);
	if (error || ripc__key_dir_revokes(&found, bytes))
		return error;
	fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	len = snprintf(line, sizeof(line), "%s%s\n", fd >= 0 && lacks_end(fd) ? "\n" : "", key);
	error = fd < 0 ? -errno : write_text(fd, line, (size_t)len);
	if (fd >= 0 && close(fd) && !error)
		error = -errno;
	if (error)
		snprintf(why, RIPC_KEYS_WHY, "%.160s: %s", path, strerror(-error));
	return error;
}

/* ---- showing ----------------------------------------------------------------------------- */

struct showing {
	void (*line)(void *arg, const char *text);
	void *arg;
	struct cipher_box box;
	struct key_dir dir;
};

static const char *state_of(struct showing *showing, const uint8_t bytes[CAPABILITY_LEN],
		const struct capability *capability)
{
	if (!ripc__is_equal(capability->holder, showing->dir.own.public, 32))
		return "of no use: it is for another key";
	if (!showing->dir.has_authority)
		return "of no use: there is no authority";
	if (ripc__capability_verify(&showing->box, showing->dir.authority, bytes))
		return "of no use: our authority has not signed it";
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
	showing->line(showing->arg, text);
}

static void show(struct showing *showing)
{
	const struct iovec label = {"ripc fingerprint 1", 18};
	char text[160] = "key ", *digits = text + 4;
	uint8_t mac[32];

	ripc__hex_write(digits, showing->dir.own.public, 32);
	showing->line(showing->arg, text);
	if (showing->box.ops->mac(showing->box.lib, showing->dir.secrets[0], &label, 1, mac) == 0) {
		strcpy(text, "deployment ");
		ripc__hex_write(text + 11, mac, 8);
		showing->line(showing->arg, text);
	}
	if (showing->dir.n_secrets > 1)
		showing->line(showing->arg, "a second secret is let in, too (secret.other): "
			"ripc key rotate");
	for (uint32_t i = 0; i < showing->dir.n_revoked; i++) {
		strcpy(text, "revoked ");
		ripc__hex_write(text + 8, showing->dir.revoked[i], 32);
		showing->line(showing->arg, text);
	}
	if (!showing->dir.has_authority) {
		showing->line(showing->arg, "no authority: whoever has the secret may be any "
			"service and send to any");
		return;
	}
	strcpy(text, "authority ");
	ripc__hex_write(text + 10, showing->dir.authority, 32);
	showing->line(showing->arg, text);
	if (!showing->dir.n_capabilities)
		showing->line(showing->arg, "no capability: others refuse this key: "
			"ripc key grant");
	for (uint32_t i = 0; i < showing->dir.n_capabilities; i++)
		show_capability(showing, showing->dir.capabilities[i]);
}

int ripc_keys_show(const char *dir, void (*line)(void *arg, const char *text), void *arg, char *why)
{
	struct showing showing = {.line = line, .arg = arg};
	int error;

	if (!dir || !line || !why)
		return -EINVAL;
	error = crypto_open(&showing.box, why);
	error = error ? error : ripc__key_dir_read(dir, &showing.box, &showing.dir, why);
	if (!error)
		show(&showing);
	ripc__key_dir_wipe(&showing.dir);
	ripc__box_close(&showing.box);
	return error;
}
