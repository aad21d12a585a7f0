# SPDX-License-Identifier: BSD-3-Clause
"""
Which file calls which function of another file. A call through a pointer does not count.
"""
import re

import csource


def named(texts):
    """(file, function, the file that defines it) of each function that another file names."""
    home, words = {}, {}
    for path, text in texts.items():
        code = csource.blank_comments(text, strings=True)
        if path.endswith('.h'):
            code = csource.bodies(code)  # calls of its inline functions, no prototypes
        words[path] = set(re.findall(r'(?<!struct )\b(?:ripc_|wire_)\w+', code))
        for function in csource.functions(text):
            home.setdefault(function.name, path)
    for path in sorted(words):
        for word in sorted(words[path] & home.keys()):
            if home[word] != path:
                yield path, word, home[word]
