# SPDX-License-Identifier: BSD-3-Clause
"""The shown text of a failed program: an excerpt of a long output, a fuzz target's input."""
import base64
import os
import re

LOG_LINES = 60     # an output's last lines, which are always shown
CASE_LINES = 5, 10  # the first and the last ones of what a failed case has said

CASE = re.compile(r'(ok|FAIL|skipped:) ')
FAILED_CASE = re.compile(r'FAIL')
FAILED_CHECK = re.compile(r'.*:\d+:[EF]:')  # as Check says it
SAYS_WHY = re.compile(r'FAIL  |.*:\d+:[EF]:|.*(ERROR: |WARNING: Thread|runtime error: )|\w+Error: ')
AFTER = re.compile(r'FAIL after \d+ s$')  # which program failed, not why
GIST = 300         # characters
FUZZ_INPUT = re.compile(r'Test unit written to (\S+)')


def case_end(lines, start):
    """The index of the first line after those that belong to the case of this line."""
    end = start + 1
    while end < len(lines) and not CASE.match(lines[end]):
        end += 1
    return end


def shown(lines):
    """The indices of the lines to show."""
    indices = set(range(max(len(lines) - LOG_LINES, 0), len(lines)))
    for at, line in enumerate(lines):
        if FAILED_CASE.match(line):
            first, last = CASE_LINES
            end = case_end(lines, at)
            indices.update(range(at, min(at + 1 + first, end)), range(max(at, end - last), end))
        elif FAILED_CHECK.match(line):
            indices.add(at)
    return sorted(indices)


def excerpt(output):
    """The last lines, and those before that say what failed."""
    lines = output.rstrip().split('\n')
    text, following = [], 0
    for at in shown(lines):
        if at > following:
            text.append(f'({at - following} lines are left out)')
        text.append(lines[at])
        following = at + 1
    return '\n'.join(text)


def gist(output):
    """One line: the first that says what failed, else the last one."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    said = [line for line in lines if SAYS_WHY.match(line) and not AFTER.match(line)]
    return (said or lines[-1:] or ['nothing was said'])[0][:GIST]


def fuzz_input(target, output):
    """How to run a fuzz target again with the input that it failed with; empty if it wrote none."""
    written = FUZZ_INPUT.findall(output)
    if not written or not os.path.exists(written[-1]):
        return ''
    with open(written[-1], 'rb') as f:
        data = base64.b64encode(f.read()).decode()
    return f"\nWith the same input again:\nbase64 -d <<<'{data}' >input; {target} input\n"
