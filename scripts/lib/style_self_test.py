# SPDX-License-Identifier: BSD-3-Clause
"""Plants one fault per style check in a small tree and sees that exactly that is found."""
import os
import subprocess
import tempfile

import readme_figures
import words

HASH = '# SPDX-License-Identifier: BSD-3-Clause\n'
HEAD = '/* SPDX-License-Identifier: BSD-3-Clause */\n/* A file. */\n'

FIGURES = '''
| date | 2026-01-02 |
| commit | 0 |
| processor | one |
| processors | 2 |

## Round trips

`ripc-bench`

```
latency: round trips; us; 20 runs each
ratio: ripc / peer, less than 1: ripc is faster; low, high: its 95 % interval
     bytes  peer             median         p99   lost    ratio      low     high
        50  ripc               3.00        3.28      0
            tcp                2.00        8.30      0    1.500    1.400    1.600
            udp                3.01        8.30      0    0.990    0.900    1.010
            path: shm
      1400  ripc               4.00        3.28      0
            tcp                3.99        8.30      0    1.001    0.999    1.003
            udp                8.00        8.30      0    0.500    0.400    0.600
            path: shm
```

## Files

`bench/compare/files`

```
100 files of 4096 bytes, files/s; 9 runs each, in turns; ratio ripc / tcp, more than 1: ripc is faster
depth        ripc         tcp    ratio    least     most  path
    1       69000       16200    4.260    4.100    4.400  udp/pull
   16       70000       60000    1.170    1.100    1.200  udp/pull
```

## Requests

`bench/compare/call_rates`

```

8 clients, 16 under way each: replies per second, median of 5; times Redis, Unix
  libripc, shm                 1,154,369   (1,046,174 to 1,353,892)    0.99
  libripc, udp                   265,237   (255,299 to 328,548)    0.24
  Redis, Unix                  1,144,822   (1,084,309 to 1,237,099)    1.00
  Redis, TCP                     931,449   (871,323 to 994,790)    0.83
```
'''
# A row that loses stays, and an interval with 1 in it is no difference.
TABLE = '''Measured on 2026-01-02 at commit 0, on a virtual machine: one, 2 processors.

| measurement | libripc | reference | libripc is |
| --- | --- | --- | --- |
| Round trips, 50 B | 3.00 us | TCP 2.00 us; UDP 3.01 us | **1.50x slower**; no difference |
| Round trips, 1,400 B | 4.00 us | TCP 3.99 us; UDP 8.00 us | no difference; 2.0x faster |
| Files, 16 at once | 70,000 /s | TCP 60,000 /s | 1.17x faster |
| Requests, shm, 8 clients, 16 under way each | 1,154,369 /s | Redis, Unix 1,144,822 /s | no difference |
| Requests, udp, 8 clients, 16 under way each | 265,237 /s | Redis, TCP 931,449 /s | **3.5x slower** |
'''
README = readme_figures.BEGIN + TABLE + readme_figures.END

CLEAN = {
    'include/ripc/ripc.h': HEAD + 'RIPC_API int ripc_open(void);\n',
    'src/core/wire/one.h': HEAD + 'int ripc__one(void);\n',
    'src/core/net/backend.h': HEAD,
    'src/core/wire/one.c': HEAD + '#include "one.h"\n#include "ripc/ripc.h"\n\n'
                             'int ripc__one(void)\n{\n\treturn 1;\n}\n',
    'src/core/api/one.c': HEAD + '#include "core/wire/one.h"\n\n'
                            'static int two(void)\n{\n\treturn 2 * ripc__one();\n}\n',
    'src/backends/udp/udp.c': HEAD + '#include <sys/socket.h>\n#include "core/net/backend.h"\n',
    'src/backends/shm/internal.h': HEAD,
    'tests/unit/test_one.c': HEAD + 'START_TEST(one__returns_one)\n{\n}\nEND_TEST\n',
    'docs/guarantees.md': 'Shown by `one__returns_one` in `tests/unit/test_one.c`.\n',
    'README.md': README,
    'docs/figures.md': FIGURES,
    'scripts/run': '#!/bin/sh\n# SPDX-License-Identifier: BSD-3-Clause\n:\n',
}


def body(line, count):
    return 'static void f(void)\n{\n' + line * count + '}\n'


# planted faults: the check that must find it, the file, its text, a part of the complaint
FAULTS = [
    ('check_functions', 'src/core/wire/f.c', HEAD + body('\tg();\n', 81), '81 lines'),
    ('check_functions', 'src/core/wire/f.c',
     HEAD + body('\tif (a) {\n\tif (b) {\n\tif (c) {\n\tif (d) {\n\t}\n\t}\n\t}\n\t}\n', 1), 'nests 4'),
    ('check_function_spread', 'src/core/wire/f.c', HEAD + body('\tg();\n', 40) * 30, 'one function in ten'),
    ('check_file_length', 'src/core/wire/f.c', HEAD + '\n' * 1500, '1502 lines'),
    ('check_file_length', 'src/util/f.c', HEAD + '\n' * 1500, '1502 lines'),
    ('check_file_length', 'tests/unit/f.c', HEAD + '\n' * 1500, '1502 lines'),
    ('check_folders', 'src/odds/f.c', HEAD, 'src/odds is no folder'),
    ('check_folders', 'src/backends/odd/f.c', HEAD, 'src/backends/odd is no folder'),
    ('check_folders', 'src/util/odd/f.c', HEAD, 'src/util/odd is no folder'),
    ('check_folders', 'src/core/wire/odd/f.c', HEAD, 'src/core/wire/odd is no folder'),
    ('check_folders', 'src/f.c', HEAD, 'src is no folder'),
    ('check_file_length', 'include/ripc/ripc.h', HEAD + '\n' * 700, '702 lines'),
    ('check_licence', 'src/core/wire/f.c', '/* A file. */\n/* Really. */\n', 'no "SPDX'),
    ('check_licence', 'scripts/f', '#!/bin/sh\n:\n', 'no "SPDX'),
    ('check_purpose', 'src/core/wire/f.c', HEAD.split('\n')[0] + '\n#include <a.h>\n', 'no paragraph'),
    ('check_whitespace', 'README.md', 'text \n', 'white space'),
    ('check_whitespace', 'README.md', 'text', 'one newline'),
    ('check_layout', 'src/core/wire/f.c', HEAD + '\tint a = %s1;\n' % ('1 + ' * 30), 'columns'),
    ('check_layout', 'src/core/wire/f.c', HEAD + '        int a;\n', 'spaces'),
    ('check_unfinished', 'src/core/wire/f.c', HEAD + '/* TO' + 'DO */\n', 'unfinished'),
    ('check_exports', 'src/core/wire/f.c',
     HEAD + 'int ripc__alone(void)\n{\n\treturn ripc__one();\n}\n', 'used in this file alone'),
    ('check_strays', 'src/core/wire/f.c', HEAD + '#include "one.h"\n', 'uses nothing of one.h'),
    ('check_strays', 'src/core/wire/f.h', HEAD + 'struct none;\n', 'declares struct none'),
    ('check_headers', 'src/core/wire/f.c', HEAD + '#include "backends/shm/internal.h"\n',
     'is of its folder alone'),
    ('check_headers', 'src/core/wire/lone.h', HEAD, 'only its folder includes it'),
    ('check_layering', 'src/core/wire/f.c', HEAD + '#include <sys/socket.h>\n', 'a network'),
    ('check_layering', 'src/core/wire/f.c', HEAD + '#include "../../backends/shm/internal.h"\n', 'must not know'),
    ('check_layering', 'src/backends/udp/f.c', HEAD + '#include "../shm/internal.h"\n', 'must not know'),
    ('check_layering', 'src/backends/udp/f.c', HEAD + '#include "../../core/wire/one.h"\n', 'must not'),
    ('check_layering', 'src/util/f.c', HEAD + '#include "../core/wire/one.h"\n', 'must not know'),
    ('check_layering', 'tools/f.c', HEAD + '#include "../src/core/wire/one.h"\n', 'must not know'),
    ('check_layering', 'examples/f.c', HEAD + '#include "none.h"\n', 'there is no'),
    ('check_rooms', 'src/core/wire/f.c', HEAD + '#include "core/api/f.h"\n', 'wire to api'),
    ('check_rooms', 'src/core/send/f.c', HEAD + '#include "core/engine/f.h"\n', 'send to engine'),
    ('check_events', 'src/core/api/f.c', HEAD + 'int ripc__one(void)\n{\n\treturn 1;\n}\n',
     'which is above'),
    ('check_events', 'src/core/events.h', HEAD + 'void ripc__one(void);\n', 'from nowhere'),
    ('check_events', 'src/core/events.h',
     HEAD + ''.join(f'void ripc__e{n}(void);\n' for n in range(11)), '11 calls, at most 10'),
    ('check_rooms', 'src/core/cellar/f.c', HEAD, 'no room cellar'),
    ('check_rooms', 'src/core/f.c', HEAD, 'belongs to no room'),
    ('check_picture', 'docs/rooms.svg', '<svg/>\n', 'not the picture'),
    ('check_shown', 'docs/none.svg', '<svg/>\n', 'no page shows'),
    ('check_shown', 'README.md', '![A picture](docs/none.svg)\n', 'no picture docs/none.svg'),
    ('check_manners', 'src/core/wire/f.c', HEAD + body('\texit(1);\n', 1), 'exit('),
    ('check_manners', 'src/core/wire/f.c', HEAD + body('\tprintf("%d", 1);\n', 1), 'printf('),
    ('check_manners', 'src/core/wire/f.c', HEAD + body('\tn = sendto(a);\n', 1), 'sendto('),
    ('check_named_tests', 'docs/guarantees.md', 'By `one__never_written`.\n', 'there is no test'),
    ('check_named_tests', 'docs/guarantees.md', 'By `tests/system/net/test_a.py:b`.\n', 'there is no test'),
    ('check_readme', 'README.md', README.replace('1.50x', '1.49x'), 'not the figures'),
    ('check_readme', 'README.md', README + '\n' * 200, '211 lines'),
    ('check_readme', 'README.md', TABLE, 'lacks the two marks'),
    ('check_readme', 'docs/figures.md', FIGURES.replace('1.400', '0.900'), 'not the figures'),
    ('check_readme', 'docs/figures.md', FIGURES.replace(' us;', ''), 'no unit'),
    ('check_documents', 'README.md', 'See [here](docs/none.md).\n', 'leads nowhere'),
    ('check_documents', 'README.md', 'See `src/core/none.c`.\n', 'there is no src'),
    ('check_words', 'NEWS.md', 'Calls end.\n\nWho is late waits.\n', 'NEWS.md:3: begins with "Who is late'),
    ('check_words', 'docs/a.md', 'Calls end. What is left\nis freed.\n', 'docs/a.md:1: begins'),
    ('check_words', 'docs/a.md', '| a | b |\n| --- | --- |\n| it | Of two, one. |\n', 'docs/a.md:3: begins'),
    ('check_words', 'docs/man/a.7', '.SH NOTES\n.I Whoever\nis late waits.\n', 'a.7:2: begins with "Whoever'),
    ('check_words', 'src/util/f.c', HEAD + '/* What a call needs. */\n', 'f.c:3: begins with "What a call'),
    ('check_words', 'src/util/f.c', HEAD + 'int a; /* it is used by b() */\n', 'begins with "it is used'),
    ('check_words', 'src/util/f.c', HEAD + '/*\n * Ends it. That the\n * end is seen, is shown.\n */\n', 'That the end'),
    ('check_words', 'src/util/f.c', HEAD + '/* Who calls it? */\n', 'begins with "Who calls'),
    ('check_words', 'src/util/f.c', HEAD + 'char *a = "%s: who "\n\t\t"is late";\n', 'begins with "who is late'),
    ('check_words', 'tools/f.c', HEAD + 'char *a = "usage:\\nWhose is late\\n";\n', 'begins with "Whose is late'),
    ('check_words', 'tests/a.py', f'{HASH}"""One that fails."""\n', 'a.py:2: begins with "One that'),
    ('check_words', 'tests/a.py', f'{HASH}\n# To wait\n# is slow.\n', 'a.py:3: begins with "To wait'),
    ('check_words', 'tests/a.py', f"{HASH}A = f'it is {{b}}'\n", 'a.py:2: begins with "it is'),
    ('check_words', 'scripts/f', f'#!/bin/sh\n{HASH}a  # that is b\n', 'f:3: begins with "that is b'),
    ('check_words', 'tools/a.lua', 'b = 1  -- He alone calls\n', 'a.lua:1: begins with "He alone'),
    ('check_words', 'src/meson.build', f'{HASH}\n# There is a file that is made.\n', 'There is a file'),
]
# Openings that a reader would call right.
PLAIN = {
    'docs/plain.md': '# What it does\n\nTo build it, run `ninja`. What if it fails? Of course, it runs.\n'
                     '```\nWho is late\n```\n',
    'docs/man/plain.7': '.SH NAME\nplain \\- to wait\n.PP\nThis function waits.\n',
    'src/util/plain.c': HEAD + '/* Is it open? To be freed by the caller. */\n/* One thread sends. */\n'
                        '/* All reads are counted. Both ends are open. It is shown. */\n'
                        'int n; /* what to do next */\nchar *a = "Who?", *b = "no such ID: it ended";\n',
}


def complaints(style, files):
    with tempfile.TemporaryDirectory() as root:
        subprocess.run(['git', 'init', '-q', root], check=True)
        for path, text in files.items():
            os.makedirs(os.path.join(root, os.path.dirname(path)), exist_ok=True)
            with open(os.path.join(root, path), 'w') as f:
                f.write(text)
        tree = style.Tree(root)
        return {check.__name__: list(check(tree)) for check in style.CHECKS}


def wrong_findings(style, fault):
    name, path, text, expected = fault
    found = complaints(style, {**CLEAN, path: text})
    if not any(expected in complaint for complaint in found[name]):
        yield f'{name} does not find "{expected}" in {path}: {found[name]}'


def wrong_words(style):
    """Plain sentences are not found, and subjects of commits are read."""
    found = complaints(style, {**CLEAN, **PLAIN})['check_words']
    if found:
        yield f'check_words finds in plain sentences: {found}'
    with tempfile.TemporaryDirectory() as root:
        git = ['git', '-C', root, '-c', 'user.name=a', '-c', 'user.email=a']
        subprocess.run(['git', 'init', '-q', root], check=True)
        for subject in 'util: Who is old', 'util: who is late waits', 'util: a call waits':
            subprocess.run(git + ['commit', '-q', '--allow-empty', '-m', subject], check=True)
        base, words.BASE = words.BASE, 'HEAD~2'
        found = list(style.check_words(style.Tree(root)))
        words.BASE = base
    if len(found) != 1 or 'begins with "who is late waits' not in found[0]:
        yield f'check_words does not find the subject of a commit: {found}'


def wrong_symbols(style):
    declared = style.declared_symbols('RIPC_API int ripc_a(void);\nRIPC_API const char *ripc_b(\n);')
    if declared != {'ripc_a', 'ripc_b'}:
        yield f'declared_symbols finds {declared}'
    if list(style.compare_symbols(declared, declared)):
        yield 'compare_symbols complains about equal sets'
    if len(list(style.compare_symbols({'ripc_a', 'ripc_b'}, {'ripc_b', 'ripc_c'}))) != 2:
        yield 'compare_symbols does not find one missing and one too many'
    if list(style.compare_map(declared, 'RIPC_0.1 {\n\tripc_a;\n\tripc_b;\n};')):
        yield 'compare_map complains about a map of all functions'
    if len(list(style.compare_map(declared, 'RIPC_0.1 {\n\tripc_a;\n\tripc_[b-z]*;\n};'))) != 2:
        yield 'compare_map does not find a pattern, and what is missing for it'


def main(style):
    words.AREAS_OFF.clear()
    wrong = [f'{name} complains about a clean tree: {found}'
             for name, found in complaints(style, CLEAN).items() if found]
    for fault in FAULTS:
        wrong += wrong_findings(style, fault)
    wrong += wrong_symbols(style)
    wrong += wrong_words(style)
    untested = {check.__name__ for check in style.CHECKS} - {fault[0] for fault in FAULTS}
    wrong += [f'no fault is planted for {name}' for name in sorted(untested)]
    for line in wrong:
        print(line)
    print(f'{len(FAULTS) + 7} planted faults, {len(wrong)} not found or wrong')
    return 1 if wrong else 0
