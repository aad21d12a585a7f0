/* SPDX-License-Identifier: BSD-3-Clause */
/* Reading a directory of keys. A file that does not conform to dir.h is refused by name. */
#include "dir.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "util/text.h"

#define FILE_MAX 8192u

static bool is_trusted(uid_t owner)
{
	return owner == geteuid() || owner == 0;
}

/* Is this process a member of the group? */
static bool is_own_group(gid_t group)
{
	int n = getgroups(0, NULL);
	gid_t *groups = n > 0 ? malloc((size_t)n * sizeof(*groups)) : NULL;
	bool is_member = group == getegid();

	n = groups ? getgroups(n, groups) : 0;
	for (int i = 0; i < n && !is_member; i++)
		is_member = groups[i] == group;
	free(groups);
	return is_member;
}

/*
 * Mode bits that a secret file may not have. If root owns the file, and this process is in its
 * group, the group may read it: in this way a container that does not run as root gets its secrets.
 */
static mode_t forbidden_of(const struct stat *status)
{
	return status->st_uid == 0 && is_own_group(status->st_gid) ? 037 : 077;
}

static int owner_check(const char *path, const struct stat *status, char why[KEY_WHY])
{
	if (is_trusted(status->st_uid))
		return 0;
	snprintf(why, KEY_WHY, "%.180s belongs to another user: chown it", path);
	return -EACCES;
}

/* Checks that no other user can have written the file, or, if it is secret, read it. */
static int status_check(const char *path, const struct stat *status, bool secret, char why[KEY_WHY])
{
	unsigned int mode = status->st_mode & 0777;
	int error = owner_check(path, status, why);

	if (error || !(mode & (secret ? forbidden_of(status) : 022)))
		return error;
	if (secret)
		snprintf(why, KEY_WHY, "%.80s is open to others (mode %04o, group %u): chmod go= "
			"it, or, if root owns it, use mode 0440 and a group of this process "
			"(Kubernetes: defaultMode, fsGroup)", path, mode,
			(unsigned int)status->st_gid);
	else
		snprintf(why, KEY_WHY, "%.160s is writable by others (mode %04o): chmod go-w it",
			path, mode);
	return -EACCES;
}

/* Describes errno. */
static int open_error(const char *path, char why[KEY_WHY])
{
	int error = -errno;
	struct stat status;

	if (error == -EACCES && stat(path, &status) == 0)
		snprintf(why, KEY_WHY, "%.80s: %s (mode %04o, user %u, group %u): chown it to the "
			"user of this process, or, if root owns it, to a group of the process "
			"(Kubernetes: fsGroup)", path, strerror(EACCES),
			(unsigned int)status.st_mode & 0777, (unsigned int)status.st_uid,
			(unsigned int)status.st_gid);
	else
		snprintf(why, KEY_WHY, "%.160s: %s", path, strerror(-error));
	return error;
}

/* Reads the file into text, of FILE_MAX bytes. Returns its length. No final zero is added. */
static int read_all(int fd, const char *path, char *text, char why[KEY_WHY])
{
	ssize_t n = 0, more = 1;

	while (more > 0 && n < (ssize_t)FILE_MAX) {
		more = read(fd, text + n, FILE_MAX - (size_t)n);
		if (more < 0 && errno != EINTR) {
			snprintf(why, KEY_WHY, "%.160s: %s", path, strerror(errno));
			return -errno;
		}
		n += more > 0 ? more : 0;
		more = more < 0 ? 1 : more;
	}
	if (n == (ssize_t)FILE_MAX) {
		snprintf(why, KEY_WHY, "%.160s is not a file of keys: it has 8 KiB or more", path);
		return -EINVAL;
	}
	return (int)n;
}

/* Reads a file. For -ENOENT the caller writes the reason. */
static int file_read(const char *path, bool secret, char *text, char why[KEY_WHY])
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat status;
	int n;

	if (fd < 0)
		return open_error(path, why);
	if (fstat(fd, &status) || !S_ISREG(status.st_mode)) {
		snprintf(why, KEY_WHY, "%.160s is not a regular file", path);
		n = -EINVAL;
	} else {
		n = status_check(path, &status, secret, why);
	}
	n = n ? n : read_all(fd, path, text, why);
	close(fd);
	return n;
}

static int path_of(const char *dir, const char *name, char path[PATH_MAX], char why[KEY_WHY])
{
	if (snprintf(path, PATH_MAX, "%s/%s", dir, name) < PATH_MAX)
		return 0;
	snprintf(why, KEY_WHY, "the name of the directory of keys is too long");
	return -ENAMETOOLONG;
}

int ripc__key_file_read(const char *dir, const char *name, bool secret, uint8_t key[32],
		char why[KEY_WHY])
{
	char path[PATH_MAX], text[FILE_MAX];
	int n = path_of(dir, name, path, why);

	n = n ? n : file_read(path, secret, text, why);
	if (n >= 0 && ((n != 64 && !(n == 65 && text[64] == '\n')) ||
			!ripc__hex_read(text, key, 32))) {
		snprintf(why, KEY_WHY, "%.110s is not one line of 64 hexadecimal digits: restore "
			"it, or make new keys (ripc key new)", path);
		n = -EINVAL;
	}
	explicit_bzero(text, sizeof(text));
	return n < 0 ? n : 0;
}

static int line_parse(const char *line, size_t len, struct key_dir *dir)
{
	struct capability capability;

	if (len == 0 || line[0] == '#')
		return 0;
	if (len != 2 * CAPABILITY_LEN || dir->n_capabilities == CAPABILITIES_MAX ||
			!ripc__hex_read(line, dir->capabilities[dir->n_capabilities],
				CAPABILITY_LEN) ||
			ripc__capability_decode(dir->capabilities[dir->n_capabilities],
				&capability))
		return -EINVAL;
	dir->n_capabilities++;
	return 0;
}

int ripc__capabilities_parse(const char *text, struct key_dir *dir, uint32_t *line)
{
	dir->n_capabilities = 0;
	for (*line = 1; *text; ++*line) {
		size_t len = strcspn(text, "\n");

		if (line_parse(text, len, dir))
			return -EINVAL;
		text += len + (text[len] == '\n');
	}
	return 0;
}

/* Reads a file of lines, which may be missing. Returns its length; the text ends with a zero. */
static int lines_read(const char *path, const char *name, char file[PATH_MAX], char text[FILE_MAX],
		char why[KEY_WHY])
{
	int n = path_of(path, name, file, why);

	n = n ? n : file_read(file, false, text, why);
	n = n == -ENOENT ? 0 : n;
	if (n >= 0)
		text[n] = 0;
	return n;
}

static int capabilities_read(const char *path, struct key_dir *dir, char why[KEY_WHY])
{
	char file[PATH_MAX], text[FILE_MAX];
	int n = lines_read(path, "capabilities", file, text, why);
	uint32_t line;

	if (n < 0)
		return n;
	if (ripc__capabilities_parse(text, dir, &line) || memchr(text, 0, (size_t)n)) {
		snprintf(why, KEY_WHY, "%.140s, line %u: not a capability as printed by ripc key "
			"grant, or more than %u", file, line, CAPABILITIES_MAX);
		return -EINVAL;
	}
	return 0;
}

int ripc__key_dir_revoked(const char *path, struct key_dir *dir, uint32_t room, char why[KEY_WHY])
{
	char file[PATH_MAX], text[FILE_MAX], *at = text;
	int n = lines_read(path, "revoked", file, text, why);
	bool is_formed = n <= 0 || !memchr(text, 0, (size_t)n);

	while (n > 0 && is_formed && *at) {
		size_t len = strcspn(at, "\n");

		is_formed = !len || *at == '#' || (len == 64 && dir->n_revoked < REVOKED_MAX &&
			ripc__hex_read(at, dir->revoked[dir->n_revoked++], 32));
		at += len + (at[len] == '\n');
	}
	if (!is_formed) {
		snprintf(why, KEY_WHY, "%.140s has a line that is not a public key, or more than "
			"%u", file, REVOKED_MAX);
		return -EINVAL;
	}
	if (n >= 0 && ((uint32_t)n + room >= FILE_MAX || (room && dir->n_revoked == REVOKED_MAX))) {
		snprintf(why, KEY_WHY, "%.140s is full: remove keys whose capabilities have "
			"expired", file);
		return -ENOSPC;
	}
	return n < 0 ? n : 0;
}

/* Reads secret.next, or else secret.old. */
static int second_read(const char *path, struct key_dir *dir, char why[KEY_WHY])
{
	int error = ripc__key_file_read(path, "secret.next", true, dir->secrets[1], why);

	dir->has_next = error == 0;
	if (error == -ENOENT)
		error = ripc__key_file_read(path, "secret.old", true, dir->secrets[1], why);
	dir->n_secrets = error ? 1 : 2;
	return error == -ENOENT ? 0 : error;
}

/* Reads both secrets again if the first one has changed: the files may be renamed meanwhile. */
static int secrets_read(const char *path, struct key_dir *dir, char why[KEY_WHY])
{
	int error = ripc__key_file_read(path, "secret", true, dir->secrets[0], why);
	bool is_steady = false;
	uint8_t again[32];

	for (int tries = 0; tries < 3 && !error && !is_steady; tries++) {
		error = second_read(path, dir, why);
		error = error ? error : ripc__key_file_read(path, "secret", true, again, why);
		is_steady = !error && ripc__is_equal(again, dir->secrets[0], 32);
		if (!error)
			memcpy(dir->secrets[0], again, 32);
	}
	explicit_bzero(again, sizeof(again));
	return error;
}

/*
 * Does root own the directory, and is it mounted read-only? Kubernetes mounts a volume of secrets
 * like this, with mode 1777: only root has put files there.
 */
static bool is_fixed_by_root(const char *path, const struct stat *status)
{
	struct statvfs system;

	return status->st_uid == 0 && statvfs(path, &system) == 0 && system.f_flag & ST_RDONLY;
}

int ripc__key_dir_judge(const char *path, const struct stat *status, char why[KEY_WHY])
{
	return is_fixed_by_root(path, status) ? 0 : status_check(path, status, false, why);
}

static int dir_check(const char *path, char why[KEY_WHY])
{
	struct stat status;
	int error;

	if (stat(path, &status)) {
		error = -errno;
		snprintf(why, KEY_WHY, "%.120s: %s: restore it, or, if it never existed, make it "
			"by ripc key new", path, strerror(errno));
		return error;
	}
	if (!S_ISDIR(status.st_mode)) {
		snprintf(why, KEY_WHY, "%.160s is not a directory: ripc key new makes one", path);
		return -ENOTDIR;
	}
	return ripc__key_dir_judge(path, &status, why);
}

int ripc__key_dir_read(const char *path, struct cipher_box *box, struct key_dir *dir,
		char why[KEY_WHY])
{
	struct key_dir found;
	int error = dir_check(path, why);

	memset(&found, 0, sizeof(found)); /* seal.c compares two such structs byte by byte */
	error = error ? error : ripc__key_file_read(path, "private", true, found.own.secret, why);
	error = error ? error : secrets_read(path, &found, why);
	if (!error) {
		error = ripc__key_file_read(path, "authority", false, found.authority, why);
		found.has_authority = error == 0;
		error = error == -ENOENT ? 0 : error;
	}
	error = error ? error : capabilities_read(path, &found, why);
	error = error ? error : ripc__key_dir_revoked(path, &found, 0, why);
	if (!error && box && box->ops->dh_public(box->lib, found.own.secret, found.own.public)) {
		snprintf(why, KEY_WHY, "%.150s/private is not a key", path);
		error = -EINVAL;
	}
	if (!error)
		memcpy(dir, &found, sizeof(found));
	ripc__key_dir_wipe(&found);
	return error;
}

bool ripc__key_dir_revokes(const struct key_dir *dir, const uint8_t key[32])
{
	for (uint32_t i = 0; i < dir->n_revoked; i++) {
		if (ripc__is_equal(dir->revoked[i], key, 32))
			return true;
	}
	return false;
}

void ripc__key_dir_wipe(struct key_dir *dir)
{
	explicit_bzero(dir, sizeof(*dir));
}
