# SPDX-License-Identifier: BSD-3-Clause
"""Reads C sources just well enough for the style checks: comments, functions, structs."""
import glob
import os
import re
from collections import namedtuple

Function = namedtuple('Function', 'name line lines depth is_static')

_TOKEN = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)


def _blank(text):
    return re.sub(r'[^\n]', ' ', text)


def blank_comments(text, strings=False):
    """The text with comments (and strings, if asked) replaced by blanks, lines kept."""
    def replace(match):
        token = match.group(0)
        if token.startswith('/'):
            # A comment's own lines are of no interest, but the code's columns are.
            return _blank(token)
        return token[0] + _blank(token[1:-1]) + token[-1] if strings else token
    return _TOKEN.sub(replace, text)


def _blank_preprocessor(text):
    out, continued = [], False
    for line in text.split('\n'):
        directive = continued or line.lstrip().startswith('#')
        continued = directive and line.endswith('\\')
        out.append('' if directive else line)
    return '\n'.join(out)


def _name_before(head):
    """The name of the function whose declarator ends this text, or None."""
    head = head.rstrip()
    if not head.endswith(')'):
        return None
    name = re.search(r'([A-Za-z_]\w*)\s*\((?:[^()]|\([^()]*\)|\((?:[^()]|\([^()]*\))*\))*\)$', head)
    return name.group(1) if name else None


def functions(text):
    """Every function definition: name, line of its brace, body lines, levels of braces, static."""
    code = _blank_preprocessor(blank_comments(text, strings=True))
    found, depth, deepest, start, name, since = [], 0, 0, 0, None, 0
    is_static = False
    for match in re.finditer(r'[{};]', code):
        token, at = match.group(0), match.start()
        if token == '{':
            depth += 1
            deepest = max(deepest, depth)
            if depth == 1:
                name, start, deepest = _name_before(code[since:at]), at, 1
                is_static = bool(re.search(r'\bstatic\b', code[since:at]))
        elif token == '}':
            depth -= 1
            if depth == 0 and name:
                first = code.count('\n', 0, start) + 1
                last = code.count('\n', 0, at) + 1
                found.append(Function(name, first, max(0, last - first - 1), deepest - 1,
                                      is_static))
        if depth == 0:
            since = at + 1
    return found


def bodies(code):
    """The text between braces, of code without comments."""
    depth, out = 0, []
    for piece in re.split(r'([{}])', code):
        depth += {'{': 1, '}': -1}.get(piece, 0)
        if depth:
            out.append(piece)
    return ''.join(out)


def declared(text):
    """All names that a header declares, or None: it makes names by macros."""
    code = blank_comments(text)
    if '##' in code:
        return None
    names = set(re.findall(r'^\s*#\s*define\s+(\w+)', code, re.M))
    names |= set(re.findall(r'\b(?:struct|enum|union)\s+(\w+)\s*\{', code))
    for body in re.findall(r'\benum\b[^{;]*\{([^}]*)\}', code):
        names |= set(re.findall(r'\b([A-Z]\w+)\b', body))
    before = None
    while before != code:  # only what stands outside of braces
        before, code = code, re.sub(r'\{[^{}]*\}', ' ', code)
    names |= set(re.findall(r'\b(\w+)\s*\(', code))
    names |= set(re.findall(r'^extern\b.*?(\w+)\s*(?:\[[^\]]*\])*;', code, re.M))
    return names | set(re.findall(r'^typedef\b.*?(\w+);', code, re.M))


def structs(text):
    """Every struct of a header with its members' names, in order: [(name, [member, ...])]."""
    found = []
    for name, body in re.findall(r'\bstruct (\w+) \{([^}]*)\}', blank_comments(text)):
        members = []
        for declaration in body.split(';'):
            pointer = re.search(r'\(\*(\w+)\)', declaration)
            if pointer:
                members.append(pointer.group(1))
                continue
            for part in declaration.split(','):
                member = re.search(r'(\w+)\s*(?:\[[^\]]*\])?\s*$', part)
                if member:
                    members.append(member.group(1))
        found.append((name, members))
    return found


def prototypes(text):
    """Every public function of the header and how many parameters it has: [(name, n), ...]."""
    found = []
    for declaration in re.findall(r'\bRIPC_API\b([^;]*);',
                                  _blank_preprocessor(blank_comments(text))):
        head = re.search(r'\b(ripc_\w+)\s*\((.*)\)\s*$', declaration, re.S)
        found.append((head.group(1), _count_parameters(head.group(2))))
    return found


def _count_parameters(text):
    """Counts commas that are not inside a function pointer's parentheses."""
    depth, count = 0, 1
    for char in text:
        depth += (char == '(') - (char == ')')
        count += char == ',' and depth == 0
    return 0 if text.strip() in ('', 'void') else count


def enumerators(text):
    """The names of all enumerators and of all macros that are numbers."""
    code = blank_comments(text)
    names = []
    for body in re.findall(r'\benum \w+ \{([^}]*)\}', code):
        names += [part.split('=')[0].strip() for part in body.split(',') if part.strip()]
    return names + re.findall(r'^#define (\w+)\s+\d+u?\s*$', code, re.M)


def public_headers(root):
    """The text of all headers that are installed."""
    texts = []
    for path in sorted(glob.glob(os.path.join(root, 'include/ripc/*.h')), reverse=True):
        with open(path) as f:
            texts.append(f.read())
    return '\n'.join(texts)
