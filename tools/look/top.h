/* SPDX-License-Identifier: BSD-3-Clause */
/* How "ripc top" shows contexts: as JSON, and on a screen. */
#ifndef TOOLS_TOP_H
#define TOOLS_TOP_H

#include <stdio.h>

#include "look.h"

/* One object for each context that has shown itself, on a line of its own. */
void top_json(FILE *to, const struct look *look);

/* At most n_lines lines of n_columns; 0: any number of lines. */
void top_screen(FILE *to, const struct look *look, int n_lines, int n_columns);

#endif
