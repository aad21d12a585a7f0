/* SPDX-License-Identifier: BSD-3-Clause */
/* Errors in words: each code that a call may return has a sentence of its own. */
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "ripc/ripc.h"
#include "suite.h"

/* The errors in ripc.h and the man pages, and those that the parts below pass on. */
static const int documented[] = {
	0, E2BIG, EACCES, EADDRINUSE, EADDRNOTAVAIL, EAFNOSUPPORT, EAGAIN, EALREADY, EBADMSG,
	EBUSY,
	ECANCELED, ECONNREFUSED, ECONNRESET, EEXIST, EFAULT, EHOSTUNREACH, EINPROGRESS, EINTR,
	EINVAL, EIO, EMFILE, EMSGSIZE, ENAMETOOLONG, ENETDOWN, ENETUNREACH, ENFILE, ENOBUFS,
	ENODATA, ENODEV, ENOENT, ENOKEY, ENOMEM, ENOSPC, ENOSYS, ENOTSUP, EOVERFLOW, EOWNERDEAD,
	EPERM, EPROTO, EPROTONOSUPPORT, ESHUTDOWN, ETIMEDOUT, EUSERS,
};
#define DOCUMENTED (sizeof(documented) / sizeof(documented[0]))

START_TEST(strerror__own_sentences)
{
	for (size_t i = 0; i < DOCUMENTED; i++) {
		const char *text = ripc_strerror(-documented[i]);

		ck_assert_str_ne(text, "unknown error");
		/* the text has its meaning in this library */
		ck_assert_str_ne(text, strerror(documented[i]));
		ck_assert_str_eq(text, ripc_strerror(documented[i]));
		for (size_t j = 0; j < i; j++)
			ck_assert_str_ne(text, ripc_strerror(-documented[j]));
	}
}
END_TEST

START_TEST(strerror__remedies)
{
	ck_assert_ptr_nonnull(strstr(ripc_strerror(-ENODEV), "ripc doctor"));
	ck_assert_ptr_nonnull(strstr(ripc_strerror(-EMFILE), "ulimit -n"));
	ck_assert_ptr_nonnull(strstr(ripc_strerror(-EFBIG), "ulimit -f"));
	ck_assert_ptr_nonnull(strstr(ripc_strerror(-ENOMEM), "pool_bytes"));
	ck_assert_ptr_nonnull(strstr(ripc_strerror(-ENOMEM), "ulimit -u"));
	ck_assert_ptr_nonnull(strstr(ripc_strerror(-ENOBUFS), "pool_bytes"));
	ck_assert_ptr_nonnull(strstr(ripc_strerror(-ECONNRESET), "unknown"));
	ck_assert_ptr_nonnull(strstr(ripc_strerror(-EACCES), "another user"));
	ck_assert_ptr_nonnull(strstr(ripc_strerror(-ECONNRESET), "firewall"));
	ck_assert_ptr_nonnull(strstr(ripc_strerror(-ETIMEDOUT), "firewall"));
	ck_assert_ptr_nonnull(strstr(ripc_strerror(-EINVAL), "group"));
	ck_assert_ptr_nonnull(strstr(ripc_strerror(-ETIMEDOUT), "no room until it frees"));
	ck_assert_ptr_nonnull(strstr(ripc_strerror(-ENOENT), "group has no member"));
	ck_assert_ptr_nonnull(strstr(ripc_strerror(-ENOENT), "directory of keys"));
	ck_assert_ptr_nonnull(strstr(ripc_strerror(-ENOENT), "watch"));
}
END_TEST

/* Every number has a text, and the text stays. */
START_TEST(strerror__any_number)
{
	static const int odd[] = {INT_MIN, INT_MAX, -INT_MAX, -134, -4096, 41, 58, 100000};
	const char *first = ripc_strerror(-ENOTTY);

	for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++)
		ck_assert_str_eq(ripc_strerror(odd[i]), "unknown error");
	for (int code = -200; code <= 200; code++)
		ck_assert_uint_gt(strlen(ripc_strerror(code)), 0);
	ck_assert_str_eq(first, strerror(ENOTTY)); /* none of ours: the system's */
}
END_TEST

START_TEST(errname__names)
{
	ck_assert_str_eq(ripc_errname(-ENOENT), "ENOENT");
	ck_assert_str_eq(ripc_errname(ENOENT), "ENOENT");
	ck_assert_str_eq(ripc_errname(-EWOULDBLOCK), "EAGAIN");
	ck_assert_str_eq(ripc_errname(-ENOTSUP), "EOPNOTSUPP");
	ck_assert_str_eq(ripc_errname(-EHWPOISON), "EHWPOISON");
	ck_assert_str_eq(ripc_errname(0), "0");
	for (size_t i = 0; i < DOCUMENTED; i++)
		ck_assert_ptr_nonnull(ripc_errname(-documented[i]));
}
END_TEST

START_TEST(errname__any_number)
{
	static const int odd[] = {INT_MIN, INT_MAX, -INT_MAX, -4096, 41, 58, 100000};

	for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++)
		ck_assert_ptr_null(ripc_errname(odd[i]));
	for (int code = 1; code <= 200; code++) {
		const char *name = ripc_errname(-code);

		ck_assert_ptr_eq(name, ripc_errname(code));
		ck_assert(!name || name[0] == 'E');
		/* Only what the system does not know has no name. */
		ck_assert(name || strcmp(ripc_strerror(code), "unknown error") == 0);
	}
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		strerror__own_sentences, strerror__remedies, strerror__any_number,
		errname__names, errname__any_number, NULL,
	};

	return suite_run("errors", tests);
}
