/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Any files as a directory of keys: their contents and modes are what the input says. A directory
 * that is accepted has keys of 64 digits which nobody else reads, and nothing is left open.
 */
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../support/util/key_end.h"
#include "core/keys/dir.h"
#include "input.h"
#include "keys.h"

#define FILES 4u

static const char *const names[FILES] = {"private", "secret", "authority", "capabilities"};
static char dir[KEY_END_DIR];
static struct cipher_box box;

struct file {
	bool is_there;
	mode_t mode;
	uint8_t text[9000];
	size_t len;
};

static void dir_remove(void)
{
	key_end_dir_remove(dir);
}

static void setup(void)
{
	char why[256], remedy[256];

	if (box.ops)
		return;
	CLAIM(ripc__box_open(&box, fuzz_crypto(why, remedy)) == 0);
	CLAIM(key_end_dir_empty(dir));
	atexit(dir_remove);
}

/* Raw bytes of the input, or digits that they yield, so that good files are found at once. */
static void file_draw(struct input *input, struct file *file)
{
	static const mode_t modes[] = {0600, 0400, 0644, 0640, 0602, 0666, 0604, 0620};
	static const uint32_t lens[] = {32, 31, 33, 120, 240, 960, 1080, 0};
	uint8_t how = input8(input);
	size_t want = lens[how >> 3 & 7], len;
	const uint8_t *bytes;

	file->is_there = how != 0xff;
	file->mode = modes[how & 7];
	file->len = 0;
	if (how >> 6 == 0) {
		len = input_bytes(input, input16(input), &bytes);
		file->len = len < sizeof(file->text) ? len : sizeof(file->text);
		memcpy(file->text, bytes, file->len);
		return;
	}
	for (size_t i = 0; i < want; i++) {
		uint8_t byte = input8(input);

		file->len += (size_t)snprintf((char *)file->text + file->len, 3, "%02x", byte);
		if (want >= 120 && i % 120 == 119)
			file->text[file->len++] = '\n';
	}
	if (how >> 6 == 1 && want < 120)
		file->text[file->len++] = '\n';
}

static bool is_key(const struct file *file)
{
	for (size_t i = 0; i < 64 && file->len >= 64; i++)
		if (!strchr("0123456789abcdefABCDEF", file->text[i]) || !file->text[i])
			return false;
	return file->len == 64 || (file->len == 65 && file->text[64] == '\n');
}

static void check(const struct file files[FILES], int error, const struct key_dir *found,
		const char *why)
{
	bool good = is_key(&files[0]) && is_key(&files[1]) && files[0].is_there &&
		files[1].is_there &&
		!((files[0].mode | files[1].mode) & (geteuid() ? 077 : 037));

	if (files[2].is_there)
		good = good && is_key(&files[2]) && !(files[2].mode & 022);
	if (files[3].is_there)
		good = good && !(files[3].mode & 022) && files[3].len < 8192;
	if (error) {
		CLAIM(strnlen(why, KEY_WHY) > 0 && strnlen(why, KEY_WHY) < KEY_WHY);
		CLAIM(!good || files[3].is_there);
		return;
	}
	CLAIM(good && found->has_authority == files[2].is_there);
	CLAIM(found->n_capabilities <= CAPABILITIES_MAX);
	CLAIM(files[3].is_there || !found->n_capabilities);
	CLAIM(!files[3].is_there || !memchr(files[3].text, 0, files[3].len));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static struct file files[FILES];
	struct input input = {data, data + len};
	struct key_dir found = {.n_capabilities = 0};
	char why[KEY_WHY] = "";
	uint64_t fds;
	int error;

	setup();
	for (uint32_t i = 0; i < FILES; i++) {
		char path[64];

		file_draw(&input, &files[i]);
		snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
		if (files[i].is_there)
			CLAIM(key_end_file(dir, names[i], files[i].text, files[i].len,
				files[i].mode));
		else
			unlink(path);
	}
	fds = open_fds();
	error = ripc__key_dir_read(dir, &box, &found, why);
	CLAIM(open_fds() == fds);
	check(files, error, &found, why);
	return 0;
}
