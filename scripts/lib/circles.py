# SPDX-License-Identifier: BSD-3-Clause
"""
Circles of files: each calls, by way of the others, functions that the others define. A call through
a pointer, as those of core/upcalls.h are, does not count.
"""
import re

import csource


def calls(texts):
    """{file: the files whose functions it names}; texts: {file: its source}"""
    home, words = {}, {}
    for path, text in texts.items():
        code = csource.blank_comments(text, strings=True)
        words[path] = set(re.findall(r'(?<!struct )\b(?:ripc_|wire_)\w+', code))
        for function in csource.functions(text):
            home.setdefault(function.name, path)
    return {path: {home[word] for word in named & home.keys()} - {path}
            for path, named in words.items()}


def reached(graph, start):
    found, left = set(), [start]
    while left:
        for path in graph[left.pop()] - found:
            found.add(path)
            left.append(path)
    return found


def circles(texts):
    """Sets of files, each of which leads to all others of its set."""
    graph = calls(texts)
    ways = {path: reached(graph, path) for path in graph}
    found = {frozenset({path} | {other for other in ways[path] if path in ways[other]})
             for path in graph}
    return [sorted(circle) for circle in found if len(circle) > 1]
