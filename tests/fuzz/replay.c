/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs a fuzz target over files, where there is no libFuzzer: each argument is a file or a
 * directory of files. Fails if there is nothing to run.
 */
#include <dirent.h>
#include <errno.h>
#include <string.h>

#include "fuzz.h"

#define INPUT_MAX 65536

static int run_file(const char *path)
{
	FILE *file = fopen(path, "rb");
	uint8_t *data, *exact;
	size_t len;

	if (!file) {
		fprintf(stderr, "%s: %s\n", path, strerror(errno));
		return -1;
	}
	data = malloc(INPUT_MAX);
	len = data ? fread(data, 1, INPUT_MAX, file) : 0;
	fclose(file);
	exact = malloc(len ? len : 1); /* a sanitizer then sees reads beyond the end */
	if (data && exact) {
		memcpy(exact, data, len);
		LLVMFuzzerTestOneInput(exact, len);
	}
	free(exact);
	free(data);
	return data && exact ? 1 : -1;
}

/* Returns how many files were run, or -1. */
static int run_path(const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *entry;
	char name[4096];
	int n = 0, one;

	if (!dir)
		return run_file(path);
	while ((entry = readdir(dir))) {
		if (entry->d_name[0] == '.')
			continue;
		snprintf(name, sizeof(name), "%s/%s", path, entry->d_name);
		one = run_file(name);
		if (one < 0) {
			closedir(dir);
			return one;
		}
		n += one;
	}
	closedir(dir);
	return n;
}

int main(int argc, char **argv)
{
	int n = 0, one;

	for (int i = 1; i < argc; i++) {
		one = run_path(argv[i]);
		if (one < 0)
			return 1;
		n += one;
	}
	printf("%d files\n", n);
	return n ? 0 : 1;
}
