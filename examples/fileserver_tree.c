/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Implements fileserver.h. A path comes from a stranger: the kernel resolves it with openat2(2)
 * and RESOLVE_BENEATH, so that neither "..", nor an absolute path, nor a symbolic link leads out
 * of the tree, even if the tree is changed meanwhile. Where openat2 is missing, or a container's
 * filter forbids it, the path is walked part by part and every symbolic link is refused.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#include "fileserver.h"
#include "openat2.h"

/* O_NONBLOCK: a FIFO in the tree must not stop us; O_NOCTTY: nor a terminal take us over. */
#define FILE_FLAGS	(O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)
#define DIRECTORY_FLAGS (O_RDONLY | O_DIRECTORY | O_CLOEXEC)
#define RACES_MAX	8 /* openat2 says EAGAIN when a directory is renamed at that moment */

struct listing {
	uint8_t *bytes;
	size_t len, capacity, max;
};

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static enum file_status status_from_errno(int error)
{
	switch (error) {
	case ENOENT:
	case ENAMETOOLONG:
		return FILE_NOT_FOUND;
	case ENOTDIR:
	case EISDIR:
	case ENXIO: /* a socket, or a FIFO without a partner */
	case ENODEV:
		return FILE_NO_FILE;
	case EXDEV: /* RESOLVE_BENEATH would have been left */
	case ELOOP:
		return FILE_REFUSED;
	case EACCES:
	case EPERM:
		return FILE_DENIED;
	default:
		return FILE_IO_ERROR;
	}
}

/* Opens the next part of a path. Returns a descriptor or a negative errno. */
static int open_part(int fd, const char *path, size_t len, int flags)
{
	char part[FILE_PATH_MAX + 1];

	memcpy(part, path, len);
	part[len] = '\0';
	if (strcmp(part, "..") == 0)
		return -EXDEV;
	fd = openat(fd, len ? part : ".", flags | O_NOFOLLOW);
	return fd < 0 ? -errno : fd;
}

/* Opens one part of a path after the other. Returns a descriptor or a negative errno. */
static int open_by_parts(const struct tree *tree, const char *path, int flags)
{
	int fd = tree->fd, next, last;
	size_t len;

	if (path[0] == '/')
		return -EXDEV;
	do {
		len = strcspn(path, "/");
		last = path[len] == '\0';
		next = open_part(fd, path, len, last ? flags : DIRECTORY_FLAGS);
		if (fd != tree->fd)
			close(fd);
		fd = next;
		path += len + 1;
	} while (fd >= 0 && !last);
	return fd;
}

/* Opens a path below the tree. Returns a descriptor or a negative errno. */
static int open_beneath(struct tree *tree, const char *path, int flags)
{
	const struct openat2_how how = {
		.flags = (uint64_t)flags,
		.resolve = OPENAT2_BENEATH | OPENAT2_NO_MAGICLINKS,
	};
	int races, fd;

	if (path[0] == '\0')
		path = ".";
	for (races = 0; !tree->no_openat2; races++) {
		fd = openat2_call(tree->fd, path, &how);
		if (fd >= 0)
			return fd;
		if (errno != EAGAIN || races == RACES_MAX)
			return -errno;
	}
	return open_by_parts(tree, path, flags);
}

/* Asked of what we have open already: that it cannot be had there says nothing about a file. */
static int lacks_openat2(int tree_fd)
{
	const struct openat2_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = OPENAT2_BENEATH};
	int fd = openat2_call(tree_fd, ".", &how);

	if (fd < 0)
		return errno == ENOSYS || errno == EPERM;
	close(fd);
	return 0;
}

int tree_open(struct tree *tree, const char *dir)
{
	int fd = open(dir, DIRECTORY_FLAGS), i;

	if (fd < 0)
		return -errno;
	tree->fd = fd;
	tree->no_openat2 = lacks_openat2(fd);
	tree->n_kept = 0;
	for (i = 0; i < TREE_KEPT; i++)
		tree->kept[i].fd = -1;
	return 0;
}

static void forget(struct tree *tree, struct tree_kept *kept)
{
	close(kept->fd);
	kept->fd = -1;
	tree->n_kept--;
}

void tree_close(struct tree *tree)
{
	int i;

	for (i = 0; i < TREE_KEPT; i++)
		if (tree->kept[i].fd >= 0)
			forget(tree, &tree->kept[i]);
	close(tree->fd);
}

static struct tree_kept *find_kept(struct tree *tree, const char *path)
{
	int i;

	for (i = 0; tree->n_kept && i < TREE_KEPT; i++)
		if (tree->kept[i].fd >= 0 && strcmp(tree->kept[i].path, path) == 0)
			return &tree->kept[i];
	return NULL;
}

/* FNV-1a of what tells whether it is still the same. */
static uint64_t version_of(const struct stat *st)
{
	const uint64_t facts[] = {(uint64_t)st->st_dev, (uint64_t)st->st_ino, (uint64_t)st->st_size,
		(uint64_t)st->st_mtim.tv_sec, (uint64_t)st->st_mtim.tv_nsec,
		(uint64_t)st->st_ctim.tv_sec, (uint64_t)st->st_ctim.tv_nsec};
	uint64_t hash = 14695981039346656037ull;
	size_t i;

	for (i = 0; i < sizeof(facts) / sizeof(facts[0]); i++)
		hash = (hash ^ facts[i]) * 1099511628211ull;
	return hash;
}

enum file_status tree_get(struct tree *tree, const char *path, int again, struct tree_file *file)
{
	struct tree_kept *kept = again ? find_kept(tree, path) : NULL;
	int fd;

	if (kept) {
		fd = kept->fd; /* tree_put() gives it back */
		kept->fd = -1;
		tree->n_kept--;
	} else {
		fd = open_beneath(tree, path, FILE_FLAGS);
		if (fd < 0)
			return status_from_errno(-fd);
	}
	if (fstat(fd, &file->stat) < 0 || !S_ISREG(file->stat.st_mode)) {
		close(fd);
		return FILE_NO_FILE;
	}
	file->fd = fd;
	file->version = version_of(&file->stat);
	return FILE_OK;
}

void tree_expire(struct tree *tree)
{
	uint64_t now = tree->n_kept ? now_ms() : 0;
	int i;

	for (i = 0; tree->n_kept && i < TREE_KEPT; i++)
		if (tree->kept[i].fd >= 0 && now - tree->kept[i].used_ms > TREE_KEPT_MS)
			forget(tree, &tree->kept[i]);
}

void tree_put(struct tree *tree, const char *path, const struct tree_file *file, int more)
{
	struct tree_kept *kept;
	int i;

	if (!more) {
		close(file->fd);
		return;
	}
	tree_expire(tree);
	kept = find_kept(tree, path);
	for (i = 0; !kept && i < TREE_KEPT; i++)
		if (tree->kept[i].fd < 0)
			kept = &tree->kept[i];
	if (!kept) {
		kept = &tree->kept[0];
		for (i = 1; i < TREE_KEPT; i++)
			if (tree->kept[i].used_ms < kept->used_ms)
				kept = &tree->kept[i];
	}
	if (kept->fd >= 0)
		forget(tree, kept);
	kept->fd = file->fd;
	kept->used_ms = now_ms();
	snprintf(kept->path, sizeof(kept->path), "%s", path);
	tree->n_kept++;
}

/* Adds an entry. 0, -E2BIG or -ENOMEM. */
static int listing_add(struct listing *listing, const struct file_entry *entry)
{
	size_t len = FILE_ENTRY_HEADER + (size_t)entry->name_len;
	size_t capacity = listing->capacity;
	uint8_t *bytes;

	if (len > listing->max - listing->len)
		return -E2BIG;
	if (listing->len + len > capacity) {
		capacity = capacity ? capacity * 2 : 65536;
		bytes = realloc(listing->bytes, capacity);
		if (!bytes)
			return -ENOMEM;
		listing->bytes = bytes;
		listing->capacity = capacity;
	}
	file_entry_encode(entry, listing->bytes + listing->len);
	memcpy(listing->bytes + listing->len + FILE_ENTRY_HEADER, entry->name, entry->name_len);
	listing->len += len;
	return 0;
}

/* Finds out what a symbolic link leads to, if that is a regular file in the tree. */
static int stat_link(struct tree *tree, const char *dir, const char *name, struct stat *st)
{
	char path[FILE_PATH_MAX + 1];
	int len, fd, err;

	len = snprintf(path, sizeof(path), "%s%s%s", dir, dir[0] ? "/" : "", name);
	if (len < 0 || (size_t)len >= sizeof(path))
		return -ENAMETOOLONG;
	fd = open_beneath(tree, path, O_PATH | O_CLOEXEC);
	if (fd < 0)
		return fd;
	err = fstat(fd, st) < 0 ? -errno : 0;
	close(fd);
	return err == 0 && !S_ISREG(st->st_mode) ? -EINVAL : err;
}

/* 0, also for what is passed over: other kinds of file, and links that lead out or to nothing. */
static int list_one(struct tree *tree, const char *dir, DIR *stream, struct listing *listing)
{
	const struct dirent *dirent = readdir(stream);
	struct file_entry entry;
	struct stat st;

	if (!dirent)
		return errno ? -errno : -ENOENT;
	if (strcmp(dirent->d_name, ".") == 0 || strcmp(dirent->d_name, "..") == 0)
		return 0;
	if (fstatat(dirfd(stream), dirent->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	if (S_ISLNK(st.st_mode) && stat_link(tree, dir, dirent->d_name, &st) < 0)
		return 0;
	if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
		return 0;
	entry.type = S_ISDIR(st.st_mode) ? 'd' : 'f';
	entry.size = S_ISDIR(st.st_mode) ? 0 : (uint64_t)st.st_size;
	entry.name_len = (uint16_t)strnlen(dirent->d_name, NAME_MAX);
	memcpy(entry.name, dirent->d_name, entry.name_len);
	entry.name[entry.name_len] = '\0';
	return listing_add(listing, &entry);
}

enum file_status tree_list(
	struct tree *tree, const char *path, size_t max, uint8_t **bytes, size_t *len)
{
	struct listing listing = {.max = max};
	int fd = open_beneath(tree, path, DIRECTORY_FLAGS);
	DIR *stream;
	int err;

	if (fd < 0)
		return status_from_errno(-fd);
	stream = fdopendir(fd);
	if (!stream) {
		close(fd);
		return FILE_IO_ERROR;
	}
	do {
		errno = 0;
		err = list_one(tree, path, stream, &listing);
	} while (err == 0);
	closedir(stream);
	if (err == -ENOENT) { /* the end of the directory */
		*bytes = listing.bytes;
		*len = listing.len;
		return FILE_OK;
	}
	free(listing.bytes);
	return err == -E2BIG ? FILE_TOO_LARGE : FILE_IO_ERROR;
}
