/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the fuzz targets: libFuzzer's entry, and a claim that stops it when it is false. */
#ifndef FUZZ_H
#define FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define CLAIM(condition)                                                             \
	do {                                                                         \
		if (!(condition)) {                                                  \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__,   \
				#condition);                                         \
			abort();                                                     \
		}                                                                    \
	} while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

#endif
