/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fate of secrets, shown by two ends that make sessions, take forged datagrams, and close.
 *
 *   secrets wiped     then nothing writable of this process has a secret any more
 *   secrets held      while the ends are open: what a core dump has, and what a forked child has.
 *                     Only keys of sessions may be there, in the memory of libcrypto.
 *   secrets compared  under valgrind: no branch and no address depends on a secret. Keys are
 *                     marked as undefined, and so is what is computed from them; memcheck tells
 *                     of each use. libcrypto itself is left out: it gets defined copies. Sent
 *                     bytes and results of ripc__is_equal() are no secrets.
 *
 * Each then looks whether it would have found a copy that stays, a memcmp().
 */
#include <pthread.h>
#include <sys/wait.h>

#include "../../../support/util/key_end.h"
#include "core/base/base.h"
#include "ripc/keys.h"
#ifdef HAS_MEMCHECK
#include <valgrind/memcheck.h>
#else
#define RUNNING_ON_VALGRIND                    0
#define VALGRIND_COUNT_ERRORS                  0
#define VALGRIND_MAKE_MEM_UNDEFINED(at, len)   ((void)(at), (void)(len))
#define VALGRIND_MAKE_MEM_DEFINED(at, len)     ((void)(at), (void)(len))
#define VALGRIND_GET_VBITS(at, bits, len)      ((void)(at), (void)(bits), (void)(len))
#endif

#define SKIP    77
#define NOTES 32u
#define PART    16u /* bytes of a secret that are looked for, from its 9th: free() writes before;
                     * of one of 16 bytes all, as it is not at the start of what is freed */
#define ROOM    2048u
#define STACK   65536u

static struct key_end ends[2];
static char dirs[2][KEY_END_DIR];
static const struct ripc__crypto *real;
static struct ripc__crypto marking;
static bool plants;           /* ripc__is_equal() is like memcmp() */
static uint8_t noted[NOTES][PART]; /* inverted, so that they are not found themselves */
static uint32_t n_noted, left_on_stack;
static char *leak;

#define MUST(condition)                                                               \
	do {                                                                          \
		if (!(condition)) {                                                   \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__,    \
				#condition);                                          \
			exit(1);                                                      \
		}                                                                     \
	} while (0)

/* ---- a library of cryptography between which and us secrets are marked -------------------- */

static bool is_secret(const void *at, size_t len)
{
	uint8_t bits[ROOM] = {0};

	VALGRIND_GET_VBITS(at, bits, len < ROOM ? len : ROOM);
	for (size_t i = 0; i < len && i < ROOM; i++)
		if (bits[i])
			return true;
	return false;
}

/* A copy that libcrypto may look at. */
static const void *bare(const void *at, size_t len, uint8_t *copy)
{
	memcpy(copy, at, len);
	VALGRIND_MAKE_MEM_DEFINED(copy, len);
	return copy;
}

static int mark_dh_public(void *lib, const uint8_t secret[32], uint8_t key[32])
{
	uint8_t copy[32];
	int error = real->dh_public(lib, bare(secret, 32, copy), key);

	explicit_bzero(copy, sizeof(copy));
	return error;
}

static int mark_dh(void *lib, const uint8_t secret[32], const uint8_t key[32], uint8_t shared[32])
{
	uint8_t copy[32];
	int error = real->dh(lib, bare(secret, 32, copy), key, shared);

	explicit_bzero(copy, sizeof(copy));
	VALGRIND_MAKE_MEM_UNDEFINED(shared, 32);
	return error;
}

static bool gather(const struct iovec *in, uint32_t n, uint8_t copy[ROOM], struct iovec *all)
{
	bool secret = false;

	*all = (struct iovec){copy, 0};
	for (uint32_t i = 0; i < n; i++) {
		MUST(all->iov_len + in[i].iov_len <= ROOM);
		secret |= is_secret(in[i].iov_base, in[i].iov_len);
		if (in[i].iov_len)
			bare(in[i].iov_base, in[i].iov_len, copy + all->iov_len);
		all->iov_len += in[i].iov_len;
	}
	return secret;
}

static int mark_hash(void *lib, const struct iovec *in, uint32_t n, uint8_t digest[32])
{
	uint8_t copy[ROOM];
	struct iovec all;
	bool secret = gather(in, n, copy, &all);
	int error = real->hash(lib, &all, 1, digest);

	explicit_bzero(copy, sizeof(copy));
	if (secret)
		VALGRIND_MAKE_MEM_UNDEFINED(digest, 32);
	return error;
}

static int mark_mac(void *lib, const uint8_t key[32], const struct iovec *in, uint32_t n,
		uint8_t digest[32])
{
	uint8_t copy[ROOM], key_copy[32];
	struct iovec all;
	bool secret = gather(in, n, copy, &all) || is_secret(key, 32);
	int error = real->mac(lib, bare(key, 32, key_copy), &all, 1, digest);

	explicit_bzero(copy, sizeof(copy));
	explicit_bzero(key_copy, sizeof(key_copy));
	if (secret)
		VALGRIND_MAKE_MEM_UNDEFINED(digest, 32);
	return error;
}

/* The last ciphers whose keys have 16 bytes: two ends have two each. */
static void *short_keyed[8];

static void *mark_alloc(void *lib, enum ripc__cipher cipher, bool seals)
{
	static uint32_t n;
	void *aead = real->aead_alloc(lib, cipher, seals);

	for (uint32_t i = 0; i < 8; i++)
		if (short_keyed[i] == aead)
			short_keyed[i] = NULL;
	if (cipher == RIPC_AES_128_GCM)
		short_keyed[n++ % 8] = aead;
	return aead;
}

static int mark_key(void *aead, const uint8_t *key)
{
	uint8_t copy[32];
	size_t len = 32;
	int error;

	for (uint32_t i = 0; i < 8; i++)
		if (short_keyed[i] == aead)
			len = 16;
	error = real->aead_key(aead, bare(key, len, copy));

	explicit_bzero(copy, sizeof(copy));
	return error;
}

/* Encrypted data is sent, decrypted data is believed: both are known then. */
static int mark_seal(void *aead, const struct ripc__beside *beside, const struct iovec *in,
		uint32_t n, uint8_t *out)
{
	uint8_t copy[ROOM], data[ROOM];
	struct ripc__beside known = {beside->nonce, bare(beside->data, beside->len, data),
		beside->len};
	struct iovec all;

	gather(in, n, copy, &all);
	return real->seal(aead, &known, &all, 1, out);
}

static int mark_unseal(void *aead, const struct ripc__beside *beside, const struct iovec *in,
		uint8_t *out)
{
	uint8_t data[ROOM];
	struct ripc__beside known = {beside->nonce, bare(beside->data, beside->len, data),
		beside->len};

	return real->unseal(aead, &known, in, out);
}

static const struct ripc__crypto *marking_load(char why[256], char remedy[256])
{
	real = ripc__crypto_load(why, remedy);
	MUST(real);
	marking = *real;
	marking.dh_public = mark_dh_public;
	marking.dh = mark_dh;
	marking.hash = mark_hash;
	marking.mac = mark_mac;
	marking.aead_alloc = mark_alloc;
	marking.aead_key = mark_key;
	marking.seal = mark_seal;
	marking.unseal = mark_unseal;
	return &marking;
}

bool __real_ripc__is_equal(const void *a, const void *b, size_t len);
bool __wrap_ripc__is_equal(const void *a, const void *b, size_t len);

bool __wrap_ripc__is_equal(const void *a, const void *b, size_t len)
{
	bool is_equal = plants ? memcmp(a, b, len) == 0 : __real_ripc__is_equal(a, b, len);

	VALGRIND_MAKE_MEM_DEFINED(&is_equal, sizeof(is_equal));
	return is_equal;
}

/* ---- secrets ------------------------------------------------------------------------------ */

static void note(void *secret, size_t len)
{
	uint8_t *part = (uint8_t *)secret + (len < 8 + PART ? 0 : 8);

	MUST(n_noted < NOTES);
	for (uint32_t i = 0; i < PART; i++)
		noted[n_noted][i] = part[i] ^ 0xff;
	n_noted++;
	VALGRIND_MAKE_MEM_UNDEFINED(secret, len);
}

static bool is_at(const uint8_t *at, const uint8_t *inverted)
{
	for (uint32_t i = 0; i < PART; i++)
		if ((at[i] ^ inverted[i]) != 0xff)
			return false;
	return true;
}

/* How many secrets there are in this memory. */
static uint32_t look(const uint8_t *from, const uint8_t *to, const char *where)
{
	uint32_t found = 0;

	for (; from + PART <= to; from++) {
		for (uint32_t i = 0; i < n_noted; i++) {
			if (is_at(from, noted[i])) {
				printf("secret %u of %u is still at %p: %s", i, n_noted, from,
					where);
				found++;
			}
		}
	}
	return found;
}

/* Clears the stack of functions that have returned; it is overwritten soon. */
static __attribute__((noinline)) void stack_look(void)
{
	const uint8_t *here = __builtin_frame_address(0);

	if (!RUNNING_ON_VALGRIND)
		left_on_stack += look(here - STACK, here - 16 * sizeof(void *), "stack\n");
}

/* All random numbers of 32 bytes are ephemeral keys. */
static int secret_random(void *arg, void *bytes, size_t len)
{
	int error = key_end_random(arg, bytes, len);

	if (len == 32)
		note(bytes, len);
	return error;
}

/* As the file has it, in digits. */
static void note_digits(const uint8_t *secret)
{
	MUST(n_noted < NOTES);
	for (uint32_t i = 0; i < PART; i++)
		noted[n_noted][i] = 0xff ^ (uint8_t)"0123456789abcdef"[secret[4 + i / 2] >>
			(i % 2 ? 0 : 4) & 15];
	n_noted++;
}

/* The directory alone: what reading it leaves on the stack. */
static void dir_read(const char *path)
{
	char why[256], remedy[256];
	struct cipher_box box;
	struct key_dir dir;

	MUST(ripc__box_open(&box, ripc__crypto_load(why, remedy)) == 0);
	MUST(ripc__key_dir_read(path, &box, &dir, why) == 0);
	note_digits(dir.own.secret);
	note_digits(dir.secrets[0]);
	note(dir.own.secret, 32);
	note(dir.secrets[0], 32);
	ripc__key_dir_wipe(&dir);
	stack_look();
	ripc__box_close(&box);
}

static void end_open(int i)
{
	struct seal *seal;

	MUST(key_end_open(&ends[i], dirs[i], (uint8_t)(i + 1), marking_load) == 0);
	ends[i].ctx->env.random = secret_random;
	seal = ends[i].ctx->seal;
	note(seal->dir.own.secret, 32);
	note(seal->dir.secrets[0], 32);
	note(seal->secrets[0].psk, 32);
	note(seal->secrets[0].handshake_key, 32);
	note(seal->secrets[0].record_key, 32);
	stack_look();
}

/* By another process, so that this one has never had the keys before the library read them. */
static void dirs_make(void)
{
	static const uint8_t secret[32] = "a secret, as all members have it";
	static const uint8_t private[2][32] = {"private, and of the one end only",
		"another private key, of that end"};
	int status;

	for (int i = 0; i < 2; i++) {
		MUST(key_end_dir_empty(dirs[i]));
		if (fork() == 0)
			_exit(!key_end_digits(dirs[i], "private", private[i], 32) ||
				!key_end_digits(dirs[i], "secret", secret, 32));
		MUST(wait(&status) > 0 && status == 0);
	}
}

/* ---- what the two ends do ------------------------------------------------------------------ */

static void passes(int to)
{
	struct key_datagram came = ends[!to].sent[--ends[!to].n_sent];

	ripc__handshake_input(key_end_net(&ends[to]), came.bytes, came.len, &ends[!to].addr);
	stack_look();
}

/* The last datagram, with a bit of its MAC altered, comes before it comes as it is. */
static void forged_passes(int to)
{
	struct key_datagram *last = &ends[!to].sent[ends[!to].n_sent - 1];
	struct key_datagram came = *last;

	came.bytes[came.len - 3] ^= 1;
	ripc__handshake_input(key_end_net(&ends[to]), came.bytes, came.len, &ends[!to].addr);
	MUST(ends[to].n_sent == 0);
	passes(to);
}

static void note_session(struct session *session)
{
	uint32_t len;

	MUST(session);
	len = ripc__cipher_key_len(session->cipher);
	note(session->keys, len);
	note(session->keys + len, len);
	stack_look();
}

static void data_passes(struct seal *from, struct session *ours, struct seal *to,
		struct session *theirs)
{
	uint8_t bytes[SEALED_EXTRA + 5], again[SEALED_EXTRA + 5];
	const struct iovec in = {"hello", 5};

	MUST(ripc__session_seal(&from->ciphers, ours, &in, 1, bytes) == 0);
	memcpy(again, bytes, sizeof(bytes));
	again[20] ^= 1;
	MUST(ripc__session_unseal(&to->ciphers, theirs, again, sizeof(again)) != 0);
	MUST(ripc__session_unseal(&to->ciphers, theirs, bytes, sizeof(bytes)) == 0);
	MUST(memcmp(bytes + SEALED_HEADER, "hello", 5) == 0);
}

static void marks(struct seal *from, struct seal *to)
{
	uint8_t record[64 + SEALED_MARK] = {1, 2, 3};

	ripc__sealed_mark(from, record, 64);
	VALGRIND_MAKE_MEM_DEFINED(record, sizeof(record)); /* the record is sent */
	MUST(ripc__sealed_mark_is_right(to, record, 64));
	record[70] ^= 1;
	MUST(!ripc__sealed_mark_is_right(to, record, 64));
}

static void sent_is_known(int i)
{
	VALGRIND_MAKE_MEM_DEFINED(ends[i].sent, sizeof(ends[i].sent));
}

static void talk(void)
{
	struct session *theirs;
	struct member *ours;

	ours = key_end_member(&ends[0], &ends[1]);
	MUST(ripc__handshake_begin(key_end_net(&ends[0]), ours, &ends[1].addr) == 0);
	sent_is_known(0);
	forged_passes(1); /* INIT without a proof, */
	sent_is_known(1);
	forged_passes(0); /* PROOF, */
	sent_is_known(0);
	forged_passes(1); /* INIT, */
	sent_is_known(1);
	forged_passes(0); /* REPLY */
	sent_is_known(0);
	theirs = ripc__session_by(ends[1].ctx->seal, key_end_member(&ends[1], &ends[0])->next);
	note_session(ours->current);
	note_session(theirs);
	data_passes(ends[0].ctx->seal, ours->current, ends[1].ctx->seal, theirs);
	data_passes(ends[1].ctx->seal, theirs, ends[0].ctx->seal, ours->current);
	marks(ends[0].ctx->seal, ends[1].ctx->seal);
	ends[0].n_sent = ends[1].n_sent = 0;
}

static void *reload(void *ctx)
{
	MUST(ripc_keys_reload(ctx) == 0);
	stack_look();
	return NULL;
}

/* As once a minute: glibc keeps the stack of a thread that has ended. */
static void reread(struct ripc_context *ctx)
{
	pthread_t thread;

	MUST(pthread_create(&thread, NULL, reload, ctx) == 0);
	MUST(pthread_join(thread, NULL) == 0);
}

static void whole(void)
{
	n_noted = 0;
	dir_read(dirs[0]);
	end_open(0);
	end_open(1);
	talk();
	reread(ends[0].ctx);
	for (int i = 0; i < 2; i++)
		MUST(ripc_close(ends[i].ctx, 0) == 0);
	MUST(n_noted == 4 + 10 + 3 + 4);
}

/* ---- wiped --------------------------------------------------------------------------------- */

/* In all memory that can be written, the dead part of the stack, too. */
static uint32_t look_everywhere(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	unsigned long from, to;
	char line[512], mode[5];
	uint32_t found = 0;

	MUST(maps);
	while (fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%lx-%lx %4s", &from, &to, mode) == 3 && mode[0] == 'r' &&
				mode[1] == 'w' && !strstr(line, "[vv"))
			found += look((const uint8_t *)from, (const uint8_t *)to, line);
	}
	fclose(maps);
	return found;
}

static int wiped(void)
{
	uint32_t left;

	whole();
	left = left_on_stack + look_everywhere();
	printf("%u secrets, %u of them left\n", n_noted, left);
	leak = malloc(PART); /* the secret that the search must find */
	MUST(leak);
	for (uint32_t i = 0; i < PART; i++)
		leak[i] = (char)(noted[n_noted / 2][i] ^ 0xff);
	MUST(look_everywhere() > 0);
	free(leak);
	return left != 0;
}

/* ---- held ---------------------------------------------------------------------------------- */

/* In all memory that a core dump has. *hidden: how many there are in the other memory. */
static uint32_t look_dumped(uint32_t *hidden)
{
	FILE *maps = fopen("/proc/self/smaps", "r");
	unsigned long from = 0, to = 0, begin, end;
	char line[512], mode[5], own[5] = "";
	uint32_t found = 0;

	MUST(maps);
	*hidden = 0;
	while (fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%lx-%lx %4s", &begin, &end, mode) == 3) {
			from = begin;
			to = end;
			memcpy(own, mode, sizeof(own));
		} else if (strncmp(line, "VmFlags:", 8) == 0 && own[0] == 'r' && own[1] == 'w') {
			*(strstr(line, " dd") ? hidden : &found) += look((const uint8_t *)from,
				(const uint8_t *)to, line);
		}
	}
	fclose(maps);
	return found;
}

static uint32_t look_in_child(void)
{
	int status;
	pid_t child = fork();

	MUST(child >= 0);
	if (child == 0)
		_exit(look_everywhere() > 100 ? 100 : (int)look_everywhere());
	MUST(waitpid(child, &status, 0) == child && WIFEXITED(status));
	return (uint32_t)WEXITSTATUS(status);
}

static uint32_t look_at_holders(const char *what)
{
	uint32_t hidden, dumped = look_dumped(&hidden), inherited = look_in_child();

	printf("%s: %u secrets, %u times in a core dump, %u times in a child, %u times beside\n",
		what, n_noted, dumped, inherited, hidden);
	MUST(hidden >= n_noted / 2);
	return dumped + inherited;
}

static int held(void)
{
	struct seal *seal;
	uint32_t found;

	for (int i = 0; i < 2; i++)
		end_open(i);
	talk();
	reread(ends[0].ctx);
	n_noted -= 4; /* keys of sessions: libcrypto has them, too */
	found = look_at_holders("keys");
	for (int i = 0; i < 2; i++) {
		seal = ends[i].ctx->seal;
		ripc__ciphers_free(&seal->ciphers); /* the ciphers hold no secrets any more */
	}
	n_noted += 4;
	found += look_at_holders("keys, also of sessions");
	for (int i = 0; i < 2; i++)
		MUST(ripc_close(ends[i].ctx, 0) == 0);
	return found != 0;
}

/* ---- compared ------------------------------------------------------------------------------ */

static int compared(void)
{
	unsigned int errors, planted;

	if (!RUNNING_ON_VALGRIND) {
		printf("skipped: there is no valgrind, or its header was missing\n");
		return SKIP;
	}
	whole();
	errors = VALGRIND_COUNT_ERRORS;
	plants = true;
	whole();
	planted = VALGRIND_COUNT_ERRORS - errors;
	printf("%u uses of secrets; with a memcmp() %u\n", errors, planted);
	return errors != 0 || planted == 0;
}

int main(int argc, char **argv)
{
	int status = 2;

	if (argc != 2)
		return 2;
	dirs_make();
	if (strcmp(argv[1], "wiped") == 0)
		status = wiped();
	else if (strcmp(argv[1], "held") == 0)
		status = held();
	else if (strcmp(argv[1], "compared") == 0)
		status = compared();
	for (int i = 0; i < 2; i++)
		key_end_dir_remove(dirs[i]);
	return status;
}
