# SPDX-License-Identifier: BSD-3-Clause
"""
Writes the texts of docstrings as mdoc(7), and declarations as they look in the header.

Names are recognized by their form: ripc_call(), ripc(7), -ENOENT, RIPC_GIVE, struct ripc_msg,
ripc_msg.from, docs/security.md; parameters of the page's functions, unless they are English words;
and members of structs that have an underscore.
"""
import re
import textwrap

import docstring

WIDTH = 72  # of literal lines: a terminal has 80 columns, and mandoc indents them by 5
LABEL = 20  # the text beside a longer label begins on the next line
MANUALS = {'fork': 2, '_exit': 2, 'longjmp': 3, 'pthread_cancel': 3, 'pthread_exit': 3, 'malloc': 3}
ENVIRONMENT = 'RIPC_BACKENDS RIPC_INTERFACES RIPC_KEYS RIPC_LOG RIPC_OPTIONS RIPC_PEERS'.split()
# Parameters that are English words: marked only with a star before them.
WORDS = ('completion cookie dir error flags found grant group id items key like line list lister max '
         'message n name outcome path reply report request send stats step text to why').split()
# A name between what stands before and after it in a word.
_NAME = re.compile(
    r'(?P<before>[("]*)'
    r'(?:(?P<function>\w+)\(\)'
    r'|(?P<page>[a-z]\w*)\((?P<section>[1-8])\)'
    r'|-(?P<error>E[A-Z0-9]{3,})'
    r'|(?P<constant>(?:RIPC_\w+|NULL)(?![\w=(]))'
    r'|(?P<type>(?:struct|enum)\0ripc_\w+)'  # a zero instead of a space: one word
    r'|(?P<member>ripc_\w+\.\w+)'
    r'|(?P<file>(?:docs|ripc)/[\w.]+\w)'
    r'|(?P<argument>\*?[a-z_]+)(?![\w/(=-]))'
    r'(?P<after>.*)$')


class Unknown(Exception):
    """A text names a function that does not exist."""


def escaped(text):
    """Plain text that means nothing to mdoc. Minus signs stay what they are."""
    text = text.replace('\\', '\\e')
    text = re.sub(r'(?:(?<=[\s("])|^)-+(?=\w)', lambda match: '\\-' * len(match.group(0)), text)
    return re.sub(r"^(?=[.'])", r'\\&', text)


def wrapped(words):
    """Lines of plain text."""
    lines = textwrap.wrap(' '.join(words), 78, break_long_words=False, break_on_hyphens=False)
    return [escaped(line).replace('\0', ' ') for line in lines]


class Writer:
    """Marks the names in the texts of one page, whose functions and parameters it knows."""

    def __init__(self, own, public, parameters, members):
        self.own, self.public = own, public
        self.parameters, self.members = parameters, members
        self.mentioned = set()  # functions, structs and constants

    def function(self, name):
        if name in self.own:
            return f'.Fn {name}'
        if name in self.public:
            return f'.Xr {name} 3'
        if name.startswith('ripc_'):
            raise Unknown(f'there is no public function {name}()')
        return f'.Xr {name} {MANUALS[name]}' if name in MANUALS else f'.Fn {name}'

    def argument(self, word):
        plain = word.lstrip('*')
        if plain in self.parameters and (word != plain or plain not in WORDS):
            return f'.Fa {word}'
        return f'.Va {word}' if '_' in plain and plain in self.members else None

    def macro(self, name):
        """The macro that marks a name, or None: an ordinary word."""
        if name['function']:
            return self.function(name['function'])
        if name['page']:
            return f'.Xr {name["page"]} {name["section"]}'
        if name['error']:
            return f'.Er \\-{name["error"]}'
        if name['constant']:
            return ('.Ev ' if name['constant'] in ENVIRONMENT else '.Dv ') + name['constant']
        if name['type']:
            return '.Vt "' + name['type'].replace('\0', ' ') + '"'
        if name['member']:
            return '.Va ' + name['member']
        return '.Pa ' + name['file'] if name['file'] else self.argument(name['argument'])

    def word(self, word):
        """The line for a word that is a name, or None."""
        match = _NAME.match(word)
        self.mentioned.update(re.findall(r'\w+', match.group(0)) if match else [])
        macro = self.macro(match.groupdict()) if match else None
        if macro is None:
            return None
        if match.group('before'):
            macro = f'.No \\&{match.group("before")} Ns {macro[1:]}'
        after = match.group('after')
        if re.match(r'[.,:;)?!]*$', after):
            return ' '.join([macro, *after])
        return f'{macro} Ns No {after}' if re.match(r"['\"\[/]", after) else None

    def sentence(self, text):
        """The lines of one sentence: plain text, and a line for each name in it."""
        lines, plain = [], []
        for word in re.sub(r'\b(struct|enum) (?=ripc_)', '\\1\0', text).split():
            marked = self.word(word)
            if marked is None:
                plain.append(word)
            else:
                lines += [*wrapped(plain), marked]
                plain = []
        return lines + wrapped(plain)

    def text(self, text):
        return sum([self.sentence(sentence) for sentence in docstring.sentences(text)], [])

    def entries(self, part):
        """A list of errors or cases, each with its text beside it."""
        lines = []
        for label, text in part.content:
            if part.kind == 'errors':
                label = re.sub(r'-(\w+)', r'Er \\-\1', label).replace(',', ' ,')
            else:
                label = escaped(label).replace(',', ' ,')
            lines += [f'.It {label}', *self.text(text)]
        widths = [label for label, _ in part.content if len(label) <= LABEL] or ['Ds']
        return [f'.Bl -tag -width "{max(widths, key=len)}"', *lines, '.El']

    def part(self, part):
        """The lines of one part of a docstring."""
        if part.kind == 'text':
            return ['.Pp', *self.text(part.content)]
        if part.kind == 'table':
            return literal(part.content)
        if part.kind == 'points':
            items = [['.It', *self.text(point)] for point in part.content]
            return ['.Bl -bullet', *sum(items, []), '.El']
        return self.entries(part)


def literal(lines):
    return ['.Bd -literal', *[escaped(line) for line in lines], '.Ed']


def comment(text, column):
    """The lines of a comment that begins in a column."""
    lines = textwrap.wrap(f'/* {text} */', WIDTH - column, subsequent_indent='   ',
                          break_long_words=False, break_on_hyphens=False)
    if lines[-1].strip() == '*/':
        rest, last = lines[-2].rsplit(' ', 1)
        lines[-2:] = [rest, f'   {last} */']
    return lines


_PIECE = re.compile(
    r'(?P<code> *[^\s/]?[^\n]*?) *(?:/\*(?P<comment>(?:(?!\*/).)*)\*/)?\n', re.S)


def declaration(text):
    """A declaration as in the header, with its comments wrapped to the width of a page."""
    pieces = [(match.group('code'), ' '.join(docstring.body(match.group('comment') or '')).split())
              for match in _PIECE.finditer(text.expandtabs(4) + '\n')]
    widths = [len(code) for code, said in pieces if said and code.strip()]
    beside = max([width for width in widths if width < WIDTH // 2], default=0) + 1
    lines = []
    for code, said in pieces:
        column = beside if code.strip() else len(code)
        told = comment(' '.join(said), column) if said else []
        if told and len(code) <= column:
            lines.append(code.ljust(column) + told.pop(0))
        elif code.strip():
            lines.append(code)
        lines += [' ' * column + line for line in told]
    return lines
