# SPDX-License-Identifier: BSD-3-Clause
"""Tests of failure_text.py."""
import os
import subprocess
import tempfile
import unittest

from failure_text import LOG_LINES, excerpt, fuzz_input, gist


def many(n, word='line'):
    return [f'{word} {i}' for i in range(n)]


class Excerpt(unittest.TestCase):
    def test_short_output_is_whole(self):
        lines = ['FAIL  a'] + many(LOG_LINES - 1)
        self.assertEqual(excerpt('\n'.join(lines) + '\n'), '\n'.join(lines))

    def test_last_lines(self):
        lines = many(LOG_LINES + 7)
        self.assertEqual(excerpt('\n'.join(lines)).split('\n'),
                         ['(7 lines are left out)'] + lines[7:])

    def test_failed_case_near_the_beginning(self):
        said = many(5, '    why')
        lines = ['ok  a', 'FAIL  b: exit status 1', *said, 'ok  c', *many(200)]
        self.assertEqual(excerpt('\n'.join(lines)).split('\n')[:8],
                         ['(1 lines are left out)', lines[1], *said, '(141 lines are left out)'])

    def test_failed_case_that_said_much(self):
        said = many(100, '    why')
        lines = ['FAIL  b: exit status 1', *said, 'skipped: c: no', *many(100)]
        self.assertEqual(excerpt('\n'.join(lines)).split('\n')[:17],
                         [lines[0], *said[:5], '(85 lines are left out)', *said[-10:]])

    def test_failed_checks(self):
        failures = ['../a.c:12:F:suite:a__b:0: Assertion failed', 'b.c:3:E:suite:a__c:0: (after']
        lines = [*failures, *many(70), 'ok: 12:F', *many(70)]
        self.assertEqual(excerpt('\n'.join(lines)).split('\n')[:3],
                         [*failures, '(81 lines are left out)'])


class Gist(unittest.TestCase):
    def test_what_failed(self):
        for said in ('FAIL  many: not all: 82', '../a.c:12:F:suite:a__b:0: Assertion failed',
                     '==7==ERROR: LeakSanitizer: detected memory leaks', 'AssertionError: 1 != 2'):
            output = '\n'.join(['FAIL after 40 s', *many(70), f'  {said}', *many(70)])
            self.assertEqual(gist(output), said)

    def test_else_the_last_line(self):
        self.assertEqual(gist('TIMEOUT after 40 s\nok    one\nkilled\n\n'), 'killed')
        self.assertEqual(gist(''), 'nothing was said')


class FuzzInput(unittest.TestCase):
    def test_runs_again(self):
        data = bytes(range(256)) * 9
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, 'crash-1')
            with open(path, 'wb') as f:
                f.write(data)
            text = fuzz_input('cat', f"prefix='x'; Test unit written to {path}\nBase64: \n")
            done = subprocess.run(['bash', '-c', text.split('\n')[-2]], cwd=folder,
                                  stdout=subprocess.PIPE, check=True)
        self.assertEqual(done.stdout, data)

    def test_none_written(self):
        self.assertEqual(fuzz_input('cat', 'killed'), '')


if __name__ == '__main__':
    unittest.main()
