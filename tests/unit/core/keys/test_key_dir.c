/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Directories of keys and capabilities: what is made is read; what others can read, what is cut
 * off, altered, or of another key, is refused, with a sentence that names it.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../../../support/util/kernel.h"
#include "../../../support/util/process.h"
#include "core/keys/dir.h"
#include "ripc/keys.h"
#include "suite.h"
#include "util/text.h"

static struct cipher_box box;
static char dir[] = "/tmp/ripc-keys-XXXXXX", why[KEY_WHY];

static void path_of(const char *name, char path[128])
{
	snprintf(path, 128, "%s/%s", dir, name);
}

static void file_write(const char *name, const char *text)
{
	char path[128];
	FILE *file;

	path_of(name, path);
	file = fopen(path, "w");
	ck_assert_ptr_nonnull(file);
	ck_assert_int_ge(fputs(text, file), 0);
	ck_assert_int_eq(fclose(file), 0);
}

static void set_up(void)
{
	char reason[256], remedy[256];

	ck_assert_int_eq(ripc__box_open(&box, ripc__crypto_load(reason, remedy)), 0);
	ck_assert_ptr_nonnull(mkdtemp(dir));
	ck_assert_int_eq(ripc_keys_new(dir, NULL, RIPC_KEYS_AUTHORITY, why), 0);
}

static void tear_down(void)
{
	static const char *const names[] = {"private", "public", "secret", "authority",
		"authority.private", "capabilities", "revoked", "secret.next",
		".secret.next.new", ".private.new", ".revoked.new"};
	char path[128];

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		path_of(names[i], path);
		unlink(path);
	}
	ck_assert_int_eq(rmdir(dir), 0);
	ripc__box_close(&box);
}

static int read_dir(struct key_dir *found)
{
	return ripc__key_dir_read(dir, &box, found, why);
}

static void grant(uint32_t what, uint64_t id, char text[RIPC_CAPABILITY + 1])
{
	char public[65] = "";
	struct key_dir found;
	struct ripc_grant request = {.size = sizeof(request), .key = public, .id = id,
		.what = what, .until_s = (uint64_t)time(NULL) + 100};

	ck_assert_int_eq(read_dir(&found), 0);
	ripc__hex_write(public, found.own.public, 32);
	ck_assert_int_eq(ripc_keys_grant(dir, &request, text, why), 0);
	strcat(text, "\n");
}

/* The kernel ends a process that writes beyond its limit (SIGXFSZ). */
START_TEST(new__no_long_files)
{
	char other[] = "/tmp/ripc-keys-XXXXXX";
	rlim_t limit;
	int error;

	ck_assert_ptr_nonnull(mkdtemp(other));
	limit = file_limit(10);
	error = ripc_keys_new(other, NULL, 0, why);
	file_limit(limit);
	ck_assert_int_eq(error, -EFBIG);
	ck_assert_int_eq(rmdir(other), 0);
}
END_TEST

/* A struct of another version of the library. */
START_TEST(grant__of_other_versions)
{
	char text[RIPC_CAPABILITY + 1], public[65] = "";
	struct key_dir found;
	struct {
		struct ripc_grant known;
		uint64_t later;
	} newer = {.known = {.size = sizeof(newer), .key = public, .what = RIPC_MAY_BE}};

	ck_assert_int_eq(read_dir(&found), 0);
	ripc__hex_write(public, found.own.public, 32);
	ck_assert_int_eq(ripc_keys_grant(dir, &newer.known, text, why), 0);
	newer.later = 1;
	ck_assert_int_eq(ripc_keys_grant(dir, &newer.known, text, why), -E2BIG);
	newer.later = 0;
	newer.known.reserved = 1;
	ck_assert_int_eq(ripc_keys_grant(dir, &newer.known, text, why), -EINVAL);
	newer.known.reserved = 0;
	newer.known.size = offsetof(struct ripc_grant, reserved);
	ck_assert_int_eq(ripc_keys_grant(dir, &newer.known, text, why), -EINVAL);
}
END_TEST

START_TEST(read__what_was_made)
{
	struct key_dir found, other;
	char path[128];
	struct stat status;

	ck_assert_int_eq(read_dir(&found), 0);
	ck_assert(found.has_authority);
	ck_assert_uint_eq(found.n_capabilities, 0);
	path_of("private", path);
	ck_assert_int_eq(stat(path, &status), 0);
	ck_assert_uint_eq(status.st_mode & 0777, 0600);
	ck_assert_int_eq(ripc_keys_new(dir, NULL, 0, why), -EEXIST);
	ck_assert_int_eq(read_dir(&other), 0);
	ck_assert_mem_eq(&found, &other, sizeof(found));
}
END_TEST

START_TEST(read__refuses_what_others_see)
{
	static const char *const names[] = {"private", "secret"};
	struct key_dir found;
	char path[128];

	for (int i = 0; i < 2; i++) {
		path_of(names[i], path);
		ck_assert_int_eq(chmod(path, i ? 0620 : 0604), 0);
		ck_assert_int_eq(read_dir(&found), -EACCES);
		ck_assert_ptr_nonnull(strstr(why, names[i]));
		ck_assert_ptr_nonnull(strstr(why, "chmod"));
		ck_assert_int_eq(chmod(path, 0600), 0);
	}
	ck_assert_int_eq(chmod(dir, 0777), 0);
	ck_assert_int_eq(read_dir(&found), -EACCES);
	ck_assert_int_eq(chmod(dir, 0700), 0);
	path_of("authority", path);
	ck_assert_int_eq(chmod(path, 0666), 0);
	ck_assert_int_eq(read_dir(&found), -EACCES);
	ck_assert_int_eq(chmod(path, 0644), 0);
	ck_assert_int_eq(read_dir(&found), 0);
}
END_TEST

/* Where others can put files, no keys are made or replaced. */
static void expect_not_made(const char *path, const char *word)
{
	char file[128];

	ck_assert_int_eq(ripc_keys_new(path, NULL, RIPC_KEYS_AUTHORITY, why), -EACCES);
	ck_assert_ptr_nonnull(strstr(why, word));
	ck_assert_int_eq(ripc_keys_rotate(path, RIPC_ROTATE_BEGIN, why), -EACCES);
	snprintf(file, sizeof(file), "%s/private", path);
	ck_assert_int_ne(access(file, F_OK), 0);
}

START_TEST(new__in_a_directory_of_others)
{
	static const char *const names[] = {"theirs/private", "theirs/public", "theirs/secret"};
	char path[128], file[128];

	path_of("theirs", path);
	ck_assert_int_eq(mkdir(path, 0700), 0);
	ck_assert_int_eq(chmod(path, 0777), 0);
	expect_not_made(path, "chmod go-w");
	ck_assert_int_eq(chmod(path, 0700), 0);
	if (kernel_runs(geteuid() ? "not root" : NULL, "new__in_a_directory_of_others", 1)) {
		ck_assert_int_eq(chown(path, 65534, 65534), 0);
		expect_not_made(path, "belongs to another user");
		ck_assert_int_eq(chown(path, 0, 0), 0);
	}
	ck_assert_int_eq(ripc_keys_new(path, NULL, 0, why), 0);
	for (int i = 0; i < 3; i++) {
		path_of(names[i], file);
		ck_assert_int_eq(unlink(file), 0);
	}
	ck_assert_int_eq(rmdir(path), 0);
}
END_TEST

/* Reads the directory in a child that is nobody, with one group beside its own. */
static int read_as_nobody(gid_t group)
{
	struct key_dir found;
	int error, status;
	pid_t child = fork();

	if (child == 0) {
		if (setgroups(1, &group) || setgid(65534) || setuid(65534))
			_exit(200);
		error = read_dir(&found);
		_exit(error && !(strstr(why, dir) && strstr(why, "mode ")) ? 201 : -error);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert(WIFEXITED(status));
	return -WEXITSTATUS(status);
}

static void chmod_secrets(gid_t group, mode_t mode)
{
	static const char *const names[] = {"private", "secret"};
	char path[128];

	for (int i = 0; i < 2; i++) {
		path_of(names[i], path);
		ck_assert_int_eq(chown(path, 0, group), 0);
		ck_assert_int_eq(chmod(path, mode), 0);
	}
}

START_TEST(read__what_root_shows_to_a_group)
{
	struct key_dir found;
	char path[128];

	if (!kernel_runs(geteuid() ? "not root" : NULL, "read__what_root_shows_to_a_group", 1))
		return;
	ck_assert_int_eq(chmod(dir, 0755), 0);
	chmod_secrets(7777, 0440);
	ck_assert_int_eq(read_as_nobody(7777), 0);
	ck_assert_int_eq(read_as_nobody(7778), -EACCES); /* the file cannot be opened */
	ck_assert_int_eq(read_dir(&found), -EACCES); /* the group is not ours */
	path_of("private", path);
	ck_assert_ptr_nonnull(strstr(why, path));
	ck_assert_ptr_nonnull(strstr(why, "mode 0440, group 7777"));
	ck_assert_ptr_nonnull(strstr(why, "chmod go="));
	ck_assert_ptr_nonnull(strstr(why, "fsGroup"));
	chmod_secrets(7777, 0640);
	ck_assert_int_eq(read_as_nobody(7777), 0);
	for (int i = 0; i < 7; i++) {
		static const mode_t modes[] = {0460, 0660, 0450, 0444, 0442, 0441, 0466};

		chmod_secrets(7777, modes[i]);
		ck_assert_int_eq(read_as_nobody(7777), -EACCES);
	}
	chmod_secrets(7777, 0440);
	ck_assert_int_eq(chown(path, 65534, 7777), 0); /* its owner needs no group */
	ck_assert_int_eq(read_as_nobody(7777), -EACCES);
}
END_TEST

/* As Kubernetes does: NAME -> ..data/NAME, ..data -> ..2026_11_29, in a directory of mode 1777. */
static void volume_make(void)
{
	static const char *const names[] = {"private", "secret"};
	char path[128], to[128];

	ck_assert_int_eq(mkdir("..2026_11_29", 0755), 0);
	ck_assert_int_eq(symlink("..2026_11_29", "..data"), 0);
	for (int i = 0; i < 2; i++) {
		snprintf(path, sizeof(path), "..data/%s", names[i]);
		snprintf(to, sizeof(to), "..2026_11_29/%s", names[i]);
		ck_assert_int_eq(rename(names[i], to), 0);
		ck_assert_int_eq(symlink(path, names[i]), 0);
	}
	ck_assert_int_eq(chmod(".", 01777), 0);
}

static void volume_unmake(void)
{
	ck_assert_int_eq(rename("..data/private", "private"), 0);
	ck_assert_int_eq(rename("..data/secret", "secret"), 0);
	ck_assert_int_eq(unlink("..data"), 0);
	ck_assert_int_eq(rmdir("..2026_11_29"), 0);
	ck_assert_int_eq(chdir("/"), 0);
}

/* The mount exists in a child only. 0: nobody reads the volume; 77: the kernel refused to mount. */
static int read_mounted(void)
{
	if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
			mount(dir, dir, NULL, MS_BIND, NULL) ||
			mount(NULL, dir, NULL, MS_BIND | MS_REMOUNT | MS_RDONLY, NULL))
		return 77;
	return -read_as_nobody(7777);
}

START_TEST(read__a_volume_of_kubernetes)
{
	int status;
	pid_t child;

	if (!kernel_runs(geteuid() ? "not root" : NULL, "read__a_volume_of_kubernetes", 1))
		return;
	ck_assert_int_eq(chdir(dir), 0);
	chmod_secrets(7777, 0440);
	volume_make();
	ck_assert_int_eq(read_as_nobody(7777), -EACCES); /* other users can add files */
	child = fork();
	if (child == 0)
		_exit(read_mounted());
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert(WIFEXITED(status));
	if (kernel_runs(WEXITSTATUS(status) == 77 ? "no mounts" : NULL, "a read-only volume", 1))
		ck_assert_int_eq(WEXITSTATUS(status), 0);
	ck_assert_int_eq(chmod(".", 0755), 0);
	ck_assert_int_eq(read_as_nobody(7777), 0);
	volume_unmake();
}
END_TEST

START_TEST(read__refuses_what_is_no_key)
{
	static const char *const texts[] = {"", "\n", "0123", "zz23456789abcdef0123456789abcdef"
		"0123456789abcdef0123456789abcdef\n", "0123456789abcdef0123456789abcdef"
		"0123456789abcdef0123456789abcdef\n\n", "0123456789abcdef0123456789abcdef"
		"0123456789abcdef0123456789abcdef0"};
	struct key_dir found;

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		file_write("secret", texts[i]);
		ck_assert_int_eq(read_dir(&found), -EINVAL);
		ck_assert_ptr_nonnull(strstr(why, "secret"));
	}
	file_write("secret", "0123456789abcdef0123456789abcdef0123456789ABCDEF0123456789abcdef");
	ck_assert_int_eq(read_dir(&found), 0);
}
END_TEST

/*
 * The directory can be read for every list of revoked keys: otherwise no revocation would be
 * effective.
 */
START_TEST(revoke__leaves_what_can_be_read)
{
	char key[65] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
	struct key_dir found;
	char path[128];

	file_write("revoked", key); /* without an end of line */
	key[0] = 'a';
	ck_assert_int_eq(ripc_keys_revoke(dir, key, why), 0);
	ck_assert_int_eq(ripc_keys_revoke(dir, key, why), 0); /* is there already */
	ck_assert_int_eq(read_dir(&found), 0);
	ck_assert_uint_eq(found.n_revoked, 2);
	for (uint32_t i = 2; i < REVOKED_MAX; i++) {
		snprintf(key, 5, "%04x", i);
		key[4] = '4';
		ck_assert_int_eq(ripc_keys_revoke(dir, key, why), 0);
	}
	key[5] = 'f';
	ck_assert_int_eq(ripc_keys_revoke(dir, key, why), -ENOSPC);
	ck_assert_ptr_nonnull(strstr(why, "is full"));
	ck_assert_int_eq(read_dir(&found), 0);
	ck_assert_uint_eq(found.n_revoked, REVOKED_MAX);
	path_of("revoked", path);
	ck_assert_int_eq(truncate(path, 65 * 2), 0);
	ck_assert_int_eq(truncate(path, 65 * 3), 0); /* zeros: what comes behind would not count */
	ck_assert_int_eq(read_dir(&found), -EINVAL);
}
END_TEST

static int begin(void)
{
	return ripc_keys_rotate(dir, RIPC_ROTATE_BEGIN, why);
}

static int renew(void)
{
	return ripc_keys_new(dir, NULL, RIPC_KEYS_AUTHORITY, why);
}

static int revoke_one(void)
{
	return ripc_keys_revoke(dir, "0123456789abcdef0123456789abcdef"
		"0123456789abcdef0123456789abcdef", why);
}

/* The bytes of a file that are written until the disk is full; 0: until the process is killed. */
static size_t write_most = SIZE_MAX;

ssize_t __real_write(int fd, const void *bytes, size_t len);
ssize_t __wrap_write(int fd, const void *bytes, size_t len);
ssize_t __wrap_write(int fd, const void *bytes, size_t len)
{
	if (!write_most)
		raise(SIGKILL);
	return __real_write(fd, bytes, len < write_most ? len : write_most);
}

static const struct changing {
	int (*change)(void);
	const char *name;
} changes[] = {{begin, "secret.next"}, {renew, "private"}, {revoke_one, "revoked"}};

/* The disk is full after ten bytes, or the process is killed: all is as before, and goes on. */
START_TEST(change__cut_off)
{
	const struct changing *changing = &changes[_i / 2];
	struct key_dir found;
	char path[128];
	int status;
	pid_t pid;

	for (int i = 0; i < 3 && changing->change == renew; i++) {
		path_of(i == 0 ? "secret" : i == 1 ? "private" : "public", path);
		ck_assert_int_eq(unlink(path), 0);
	}
	path_of(changing->name, path);
	pid = fork();
	if (pid == 0) {
		write_most = _i % 2 ? 10 : 0;
		_exit(changing->change() == -ENOSPC ? 0 : 1);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	if (_i % 2)
		ck_assert_int_eq(status, 0);
	else
		ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	ck_assert_int_eq(access(path, F_OK), -1);
	ck_assert_int_eq(changing->change(), 0);
	ck_assert_int_eq(read_dir(&found), 0);
}
END_TEST

/* Remains of a killed run are used: nothing is lost, and nothing blocks the next run. */
START_TEST(new__goes_on)
{
	struct key_dir found, again;
	char path[128];

	ck_assert_int_eq(read_dir(&found), 0);
	path_of("secret", path);
	ck_assert_int_eq(unlink(path), 0);
	path_of("public", path);
	ck_assert_int_eq(unlink(path), 0);
	ck_assert_int_eq(renew(), 0);
	ck_assert_int_eq(read_dir(&again), 0);
	ck_assert_mem_eq(&found.own, &again.own, sizeof(found.own));
	ck_assert_mem_eq(found.authority, again.authority, 32);
	ck_assert_int_eq(renew(), -EEXIST);
}
END_TEST

/* A key is not revoked where no program can read that. */
START_TEST(revoke__tells_what_cannot_be_read)
{
	file_write("capabilities", "frog\n");
	ck_assert_int_eq(revoke_one(), -EINVAL);
	ck_assert_ptr_nonnull(strstr(why, "/capabilities, line 1"));
	file_write("capabilities", "");
	ck_assert_int_eq(revoke_one(), 0);
}
END_TEST

START_TEST(read__capabilities)
{
	char text[4 * RIPC_CAPABILITY] = "# what I may\n\n", line[RIPC_CAPABILITY + 1];
	struct capability capability;
	struct key_dir found;

	grant(RIPC_MAY_BE, 77, line);
	strcat(text, line);
	grant(RIPC_MAY_BE | RIPC_MAY_SEND, 0, line);
	strcat(text, line);
	file_write("capabilities", text);
	ck_assert_int_eq(read_dir(&found), 0);
	ck_assert_uint_eq(found.n_capabilities, 2);
	ck_assert_int_eq(ripc__capability_decode(found.capabilities[0], &capability), 0);
	ck_assert_uint_eq(capability.id, 77);
	ck_assert_uint_eq(capability.what, CAPABILITY_BE);
	ck_assert_mem_eq(capability.holder, found.own.public, 32);
	for (uint32_t bit = 0; bit < 8 * CAPABILITY_LEN; bit++) {
		ck_assert_int_eq(ripc__capability_verify(&box, found.authority,
			found.capabilities[0]), 0);
		found.capabilities[0][bit / 8] ^= (uint8_t)(1 << bit % 8);
		ck_assert_int_eq(ripc__capability_verify(&box, found.authority,
			found.capabilities[0]), -EKEYREJECTED);
		found.capabilities[0][bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	text[20] = 'x';
	file_write("capabilities", text);
	ck_assert_int_eq(read_dir(&found), -EINVAL);
	ck_assert_ptr_nonnull(strstr(why, "line 3"));
}
END_TEST

START_TEST(rights__say_what_may_be)
{
	struct capability capability = {.what = CAPABILITY_BE, .id = 5, .until_s = 100};
	struct rights rights = {0};

	ck_assert(!ripc__rights_any(&rights, 0));
	ripc__rights_add(&rights, &capability);
	ck_assert(ripc__rights_has(&rights, CAPABILITY_BE, 5, 99));
	ck_assert(!ripc__rights_has(&rights, CAPABILITY_BE, 5, 100));
	ck_assert(!ripc__rights_has(&rights, CAPABILITY_BE, 6, 99));
	ck_assert(!ripc__rights_has(&rights, CAPABILITY_SEND, 5, 99));
	capability = (struct capability){.what = CAPABILITY_SEND, .id = 0, .until_s = 50};
	ripc__rights_add(&rights, &capability);
	ck_assert(ripc__rights_has(&rights, CAPABILITY_SEND, 123, 49));
	ck_assert(!ripc__rights_has(&rights, CAPABILITY_SEND, 123, 50));
	ck_assert(!ripc__rights_has(&rights, CAPABILITY_BE, 123, 49));
	ck_assert(ripc__rights_any(&rights, 99));
	ck_assert(!ripc__rights_any(&rights, 100));
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {new__no_long_files, grant__of_other_versions,
		read__what_was_made,
		read__refuses_what_others_see, new__in_a_directory_of_others,
		read__what_root_shows_to_a_group,
		read__a_volume_of_kubernetes, read__refuses_what_is_no_key,
		revoke__leaves_what_can_be_read, new__goes_on,
		revoke__tells_what_cannot_be_read, read__capabilities, rights__say_what_may_be};
	TCase *tcase = tcase_create("key_dir");

	tcase_add_checked_fixture(tcase, set_up, tear_down);
	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
		tcase_add_test(tcase, tests[i]);
	tcase_add_loop_test(tcase, change__cut_off, 0, 2 * sizeof(changes) / sizeof(changes[0]));
	return suite_finish("key_dir", tcase);
}
