# SPDX-License-Identifier: BSD-3-Clause
"""
Reads the public headers: functions with their docstrings, structs, enums and constants.

A docstring is the comment right before a declaration. Its indentation says what its lines are:

     * Text. A blank line ends a paragraph, and so does a line that ends a sentence and has room for
     * the first word of the next line. The first word of a function's docstring is a verb: "Sends".
     *  -ENOENT   two blanks before a code: an error, in a list of errors. Further lines of the same
     *            error have four blanks at least. One line may have two errors:
     *  -EAGAIN   like this     -ETIMEDOUT  three blanks before the second
     *   a case     three blanks before a row of two columns, which two blanks separate
     *    a table   four blanks before each line, which is printed as it is
     *  - an item of a list of points
"""
import collections
import os
import re

COLUMNS = 100  # of the headers

Part = collections.namedtuple('Part', 'kind content')
# kind: text (content: str), errors, cases (both [[label, text]]), table ([line]), points ([str])
Function = collections.namedtuple('Function', 'name prototype result parameters parts')
Block = collections.namedtuple('Block', 'names text')  # a struct, an enum with its names, constants
Header = collections.namedtuple('Header', 'parts functions blocks')
Sections = collections.namedtuple('Sections', 'description results errors')  # lists of parts

_COMMENT = r'/\*((?:(?!\*/).)*)\*/'
_FUNCTION = re.compile(rf'(?:{_COMMENT}\s*\n)?RIPC_API ([^;/]*);', re.S)
_TYPE = re.compile(rf'(?:^{_COMMENT}\n)?^(?:struct|enum) (\w*) ?\{{\n.*?^\}};', re.S | re.M)
_CONSTANTS = re.compile(
    rf'(?:^{_COMMENT}\n)?(?:^#define RIPC_\w+ +\w+(?: */\*(?:(?!\*/).)*\*/)?\n)+', re.S | re.M)
_CODES = r'-E[A-Z0-9]+(?:, -E[A-Z0-9]+)*'


class Unreadable(Exception):
    """A header does not follow the rules above."""


def body(comment):
    """The lines of a comment without the stars before them."""
    lines = [re.sub(r'^\s*\*', '', line).rstrip() for line in comment.strip('*').split('\n')]
    return [line for line in lines if 'SPDX-License-Identifier' not in line]


def sentences(text):
    return re.split(r'(?<=[.?!])\s+', text.strip())


def kind_of(line, before):
    """The kind of part that a line begins, or continues: that of the line before."""
    indent = len(line) - len(line.lstrip())
    if before in ('points', 'errors', 'cases') and indent >= 4:
        return before
    if indent == 2:
        if line.startswith('  - '):
            return 'points'
        if re.match(r'  -E[A-Z0-9]', line):
            return 'errors'
        raise Unreadable(f'"{line.strip()}" is neither text nor an error (-E...)')
    return 'text' if indent < 2 else 'cases' if indent == 3 else 'table'


def ends_paragraph(line, following):
    """Does a line end a sentence, and have room for the first word of the next line?"""
    return line.endswith('.') and len(line) + 3 + len(following.split()[0]) <= COLUMNS


def entries_of(kind, line):
    """The labels and texts of a line with a case, an error, or several errors."""
    if kind == 'cases':
        label = r'.+?\s'
        pieces = [line]
    else:
        label = _CODES
        pieces = re.split(r'\s{3,}(?=-E)', line)
    found = [re.match(rf'({label})\s+(.+)$', piece) for piece in pieces]
    if not all(found):
        raise Unreadable(f'"{line}" is not a label with a text')
    return [[match.group(1).strip(), match.group(2)] for match in found]


def add(part, line):
    """Adds a line to a part. An entry of a list begins with fewer blanks than its other lines."""
    kind, content = part
    is_entry = len(line) - len(line.lstrip()) < 4
    if kind == 'table':
        content.append(line[4:])
    elif kind == 'text' or not is_entry:
        last = content[-1] if kind in ('errors', 'cases') else content
        last[-1:] = [' '.join([*last[-1:], line.strip()])]
    elif kind == 'points':
        content.append(line[4:])
    else:
        content.extend(entries_of(kind, line.strip()))


def parts_of(lines):
    """The parts of a docstring."""
    parts, last = [], ''
    for line in lines:
        before = parts[-1].kind if parts and last else None
        kind = kind_of(line, before) if line else None
        if kind == 'table' and not last and parts[-1].kind == 'table':
            parts[-1].content.append('')
        elif line and (kind != before or kind == 'text' and ends_paragraph(last, line)):
            parts.append(Part(kind, []))
        if line:
            add(parts[-1], line)
        last = line
    return [Part(kind, content[0]) if kind == 'text' else Part(kind, content)
            for kind, content in parts]


def function_of(comment, prototype):
    prototype = ' '.join(prototype.split())
    result, name, parameters = re.match(r'(.*?)\b(ripc_\w+)\((.*)\)$', prototype).groups()
    if comment is None:
        raise Unreadable(f'{name}() has no docstring')
    try:
        parts = parts_of(body(comment))
    except Unreadable as fault:
        raise Unreadable(f'{name}(): {fault}') from None
    first = parts[0].content if parts and parts[0].kind == 'text' else ''
    if not re.match(r'[A-Z][a-z]+s\b', first):
        raise Unreadable(f'{name}(): begins with no verb such as "Returns": "{first[:40]}"')
    parameters = re.split(r', (?![^()]*\))', parameters)
    return Function(name, prototype, result.strip(), parameters, parts)


def blocks_of(text):
    """The types and the groups of constants of a header, by name."""
    found = []
    for match in _TYPE.finditer(text):
        names = re.findall(r'^\t(RIPC_\w+)', match.group(0), re.M)
        found.append(Block([match.group(2), *names], match.group(0)))
    for match in _CONSTANTS.finditer(text):
        names = re.findall(r'^#define (\w+)', match.group(0), re.M)
        found.append(Block(names, match.group(0).rstrip()))
    return found


def read(path):
    """The contents of a header. Raises Unreadable with a sentence."""
    with open(path) as f:
        text = f.read()
    comments = re.findall(_COMMENT, text, re.S)
    try:
        functions = [function_of(*match.groups()) for match in _FUNCTION.finditer(text)]
        return Header(parts_of(body(comments[1])), functions, blocks_of(text))
    except Unreadable as fault:
        raise Unreadable(f'{os.path.basename(path)}: {fault}') from None


def sections_of(function):
    """
    The parts of a function's docstring, by the section of a man page. Sentences that begin with
    "Returns" or "0:" state the results, as does a whole paragraph that begins so, with its table.
    Errors are the lists, and sentences that begin with a code ("-ENOENT: none had it"), begin with
    "Errors", or have "errors as".
    """
    found = Sections([], [], [])
    for n, part in enumerate(function.parts):
        following = function.parts[n + 1].kind if n + 1 < len(function.parts) else None
        if part.kind == 'errors':
            found.errors.append(part)
        elif part.kind == 'table' and found.results and found.results[-1] is function.parts[n - 1]:
            found.results.append(part)
        elif part.kind != 'text':
            found.description.append(part)
        elif n > 0 and part.content.startswith('Returns'):
            found.results.append(part)
        else:
            sort_sentences(part.content, found, n == 0, following == 'errors')
    return found


def sort_sentences(text, found, is_first, before_errors):
    """Distributes the sentences of a paragraph. The first one of a docstring is its summary."""
    rest = []
    for n, sentence in enumerate(sentences(text)):
        is_summary = is_first and n == 0
        is_result = sentence.startswith(('Returns ', '0: '))
        code = re.match(rf'({_CODES}): (.*?)\.?$', sentence)
        if is_result:
            found.results.append(Part('text', sentence))
        if code:
            found.errors.append(Part('errors', [list(code.groups())]))
        elif re.match(r'(Other e|E)rrors|.*\berrors as\b', sentence) or (
                before_errors and text.endswith(sentence) and sentence.endswith(':')):
            found.errors.append(Part('text', sentence))
        elif is_summary or not is_result:
            rest.append(sentence)
    if rest:
        found.description.append(Part('text', ' '.join(rest)))
