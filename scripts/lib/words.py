# SPDX-License-Identifier: BSD-3-Clause
"""
Finds statements with forbidden openings: a clause as subject ("Who is late ..."), and comments
and strings that begin with a pronoun whose noun the reader has to look for.

An area is a kind of text (comments, strings, documents, man, commits) and where the text lies.
A sentence that ends with "?" is a question: documents and strings may ask it, comments may not.
"Is it open?" has no forbidden opening, hence boolean functions may be documented so everywhere.
Headings of documents are not checked, nor are texts of one word.
"""
import ast
import collections
import io
import re
import subprocess
import tokenize

# Areas that are not checked yet: remove a line to switch its area on.
AREAS_OFF = [
]
BASE = '88ef25eb'  # the subjects of later commits are checked
OLDER = ('ecd57e41',)  # later commits, but made before this check

PLANTED = 'scripts/lib/style_self_test.py'  # its strings are faults

Text = collections.namedtuple('Text', 'kind line text first')  # first: may not be a pronoun

AFTER_ONE = (
    r'(?:is|was|has|does|can|cannot|could|may|might|must|shall|should|will|would|needs|takes|costs|'
    r'makes|means|keeps|holds|gets|goes|comes|gives|tells|says|shows|sends|runs|stands|stays|waits|'
    r'ends|begins|happens|lets|leaves|finds|works|fails|helps|lies|knows|counts|sees|depends|'
    r'follows|belongs|uses|reads|writes|never|always|also|alone|only|too|not|then|'
    r'of (?:them|these|those)|who|which|,)')
AFTER_MANY = (
    r'(?:are|were|have|had|do|did|can|cannot|could|may|might|must|shall|should|will|would|need|'
    r'take|make|mean|keep|hold|get|go|come|give|tell|say|stand|stay|begin|happen|let|leave|find|'
    r'fail|know|see|depend|follow|belong|never|always|also|alone|only|too|not|then|'
    r'of (?:them|these|those)|who|which|that)')
DETERMINERS = (
    r'(?:an?|the|it|they|he|she|we|you|no|nobody|nothing|none|one|each|every|both|all|its?|there)')
# No statement begins so, wherever it stands. WHAT may be the name of an argument.
CLAUSES = re.compile(
    r'(?:who(?:ever|se|m)?|(?!(?-i:WHAT)\b)what(?:ever)?(?! to\b)|that (?:which|' + DETERMINERS + r')|'
    r'those (?:who|which|that)|he who|one who|they who|(?-i:Of)(?! course,))\b|'
    r'there (?:is|are|was|were) [^.:;,]*\b(?:that|who|which|whose)\b|'
    r'to (?!\w+:)[^,:.]*\b(?:is|are|was|would|costs?|takes?|means|needs|has|may|must|can|does)\b',
    re.I)
# No comment or string begins so.
PRONOUNS = re.compile(
    r'(?:it|they|he|she|him|them|theirs|itself|themselves)\b|'
    r'(?:one|this|that|each|none|neither|either|another|any|the (?:same|other|first|second|last|'
    r'latter|former|rest)) ' + AFTER_ONE + r'\b|'
    r'(?:these|those|both|all|some|any|many|most|few|such|others|the others) ' + AFTER_MANY + r'\b|'
    r'one that\b|(?:so|thus|hence|nor|else|elsewhere|meanwhile)\b', re.I)
SENTENCE = re.compile(r'(?<=[.!?])["\')*_`]*\s+(?=["\'(*_`]*[A-Z])')
LEAD = re.compile(r'^(?:[\s"\'(*_`]|%[-\w.]+: |ripc: |error: )+')  # before a first word


def sentences(text):
    for part in SENTENCE.split(' '.join(text.split())):
        yield LEAD.sub('', part)


def is_question(sentence):
    return sentence.rstrip(' "\')*_`').endswith('?')


def wrong_openings(text):
    """The first words of those statements of a text that are forbidden."""
    if ' ' not in text.text:
        return
    for n, sentence in enumerate(sentences(text.text)):
        if text.kind != 'comments' and is_question(sentence):
            continue
        if CLAUSES.match(sentence) or (text.first and n == 0 and PRONOUNS.match(sentence)):
            yield ' '.join(sentence.split()[:8])


_C_TOKEN = re.compile(
    r'(?P<comment>/\*.*?\*/|//[^\n]*)|(?P<string>"(?:\\.|[^"\\\n])*"'
    r'(?:\s*(?:PRI\w+\s*)?"(?:\\.|[^"\\\n])*")*)|\'(?:\\.|[^\'\\\n])*\'', re.S)
HASHES = ('.sh', '.bash', '.zsh', '.map', '.toml', '.cmake.in', 'meson.build', 'CMakeLists.txt',
          'meson_options.txt', 'debian/rules')
_HASH = re.compile(r'(?:^|(?<=\s))(?P<mark>#|--)(?!!)(?P<text>[ \t][^\n]*|$)', re.M)


def paragraphs(lines, first):
    """(line, text, is the first) of each paragraph and list item."""
    found, start = [], True
    for number, line in enumerate(lines, first):
        item = re.match(r'(?:[-*] |\d+\. )(?=\S)', line)
        if not line or line.startswith('SPDX-License'):
            start = True
        elif start or item:
            found.append([number, line[item.end():] if item else line])
            start = False
        else:
            found[-1][1] += ' ' + line
    return [(number, text, n == 0) for n, (number, text) in enumerate(found)]


def c_texts(text):
    """Comments, paragraph by paragraph, and strings, line by line."""
    for match in _C_TOKEN.finditer(text):
        line = text.count('\n', 0, match.start()) + 1
        if match.group('comment'):
            body = re.sub(r'^/[*/]+|\**/$', '', match.group('comment'))
            lines = [re.sub(r'^\s*\*?\s*', '', part).rstrip() for part in body.split('\n')]
            for number, part, first in paragraphs(lines, line):
                yield Text('comments', number, part, first)
        elif match.group('string'):
            parts = re.findall(r'"((?:\\.|[^"\\\n])*)"', match.group('string'))
            for n, part in enumerate(re.split(r'\\n', ''.join(parts))):
                yield Text('strings', line, re.sub(r'\\[t"]', ' ', part), n == 0)


def grouped(comments):
    """Joins comments that stand below each other: [(line, column, text)]."""
    groups = []
    for line, column, text in comments:
        last = groups[-1] if groups else None
        if last and last[0] + len(last[2]) == line and last[1] == column:
            last[2].append(text)
        else:
            groups.append((line, column, [text]))
    for line, _, lines in groups:
        for number, part, first in paragraphs(lines, line):
            yield Text('comments', number, part, first)


def python_texts(text):
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    yield from grouped([(t.start[0], t.start[1], t.string.lstrip('#').strip())
                        for t in tokens if t.type == tokenize.COMMENT])
    tree = ast.parse(text)
    docstrings = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and node.body:
            value = getattr(node.body[0], 'value', None)
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                docstrings.add(value)
                lines = [line.strip() for line in value.value.split('\n')]
                for number, part, first in paragraphs(lines, value.lineno):
                    yield Text('comments', number, part, first)
    for node in ast.walk(tree):
        inner = {id(v) for v in node.values[1:]} if isinstance(node, ast.JoinedStr) else set()
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Constant) and isinstance(child.value, str) \
                    and child not in docstrings and id(child) not in inner:
                for n, part in enumerate(child.value.split('\n')):
                    yield Text('strings', child.lineno, part, n == 0)


def dash_texts(text):
    return hash_texts(text, '--')


def hash_texts(text, mark='#'):
    comments = []
    for match in _HASH.finditer(text):
        if match.group('mark') == mark:
            line = text.count('\n', 0, match.start()) + 1
            column = match.start() - text.rfind('\n', 0, match.start())
            comments.append((line, column, match.group('text').strip()))
    yield from grouped(comments)


def document_texts(text):
    """Paragraphs, list items and cells of tables, but no headings and no code."""
    text = re.sub(r'^( *)(```|~~~).*?^ *\2', lambda m: '\n' * m.group(0).count('\n'), text,
                  flags=re.S | re.M)
    lines = []
    for line in text.split('\n'):
        stripped = line.strip().lstrip('> ')
        if line.startswith(('#', '    ')) or re.match(r'[-=]+$', stripped):
            stripped = ''
        lines.append(stripped)
    cells = []
    for number, line in enumerate(lines):
        if line.startswith('|'):
            cells += [(number + 1, cell.strip()) for cell in line.split('|')]
            lines[number] = ''
    for number, part in [(number, part) for number, part, _ in paragraphs(lines, 1)] + cells:
        yield Text('documents', number, part, False)


def man_texts(text):
    lines = []
    for line in text.split('\n'):
        words = line.split()
        if line.startswith(('.', "'")):  # a macro, or what it shows in another font
            line = ' '.join(words[1:]) if re.match(r"\.[BIR]{1,2}$", words[0]) else ''
        lines.append(re.sub(r'\\f[BIRP]|\\', '', line).strip())
    for number, part, _ in paragraphs(lines, 1):
        yield Text('man', number, part, False)


def place_of(kind, path):
    """The folder, or the file at the top, that the findings of a file are counted for."""
    for off in AREAS_OFF:
        if f'{kind} {path}'.startswith(off):
            return off.split(' ', 1)[1]
    return path.split('/')[0] + '/' if '/' in path else path


def reader_of(path, text, is_script):
    """The function that takes the texts out of a file, or None."""
    if re.match(r'docs/man/.*\.\d$', path):
        return man_texts
    if path.endswith('.md') or path.startswith('docs/man/notes/'):
        return document_texts
    if path.endswith(('.c', '.h')):
        return c_texts
    if path.endswith(('.py', '.pyi')) or (is_script and 'python' in text[:40]):
        return python_texts
    if path.endswith('.lua'):
        return dash_texts
    return hash_texts if is_script or path.endswith(HASHES) else None


def subjects(root):
    """Commits after BASE; an export of the tree, or a shallow clone, has none."""
    git = ['git', '-C', root]
    known = subprocess.run(git + ['rev-parse', '-q', '--verify', BASE + '^{commit}'],
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    if known.returncode:
        return
    listed = subprocess.run(git + ['log', '--format=%h %s', BASE + '..HEAD'], check=True,
                            stdout=subprocess.PIPE).stdout.decode()
    for line in listed.splitlines():
        if not line.startswith(OLDER):
            yield line.split(' ', 1)


def findings(tree):
    """(area, place, opening) of all forbidden openings, of areas that are off, too."""
    scripts = set(tree.scripts())
    for path in tree.paths:
        text = tree.text(path) if path != PLANTED else None
        reader = reader_of(path, text, path in scripts) if text else None
        for found in reader(text) if reader else []:
            for opening in wrong_openings(found):
                area = f'{found.kind} {place_of(found.kind, path)}'
                yield area, f'{path}:{found.line}', opening
    for commit, subject in subjects(tree.root):
        words = re.sub(r'^[^:]*: ', '', subject)
        for opening in wrong_openings(Text('commits', 0, words, True)):
            yield 'commits', f'commit {commit}', opening


def check(tree):
    for area, place, opening in findings(tree):
        if area not in AREAS_OFF:
            yield f'{place}: begins with "{opening} ..."'


def print_counts(tree):
    counts = collections.Counter({area: 0 for area in AREAS_OFF})
    counts.update(area for area, _, _ in findings(tree))
    for area, n in sorted(counts.items()):
        print(f'{n:5} {area}' + (' (off)' if area in AREAS_OFF else ''))
