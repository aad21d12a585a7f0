#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
bench/check: what it says of figures that are made up, and when it fails.

usage: test_check.py ROOT [unittest arguments]
"""
import contextlib
import importlib.machinery
import importlib.util
import io
import os
import sys
import unittest

ROOT = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 else os.getcwd()
sys.dont_write_bytecode = True
LOADER = importlib.machinery.SourceFileLoader('check', os.path.join(ROOT, 'bench/check'))
check = importlib.util.module_from_spec(importlib.util.spec_from_loader('check', LOADER))
LOADER.exec_module(check)


def said(function, *arguments):
    with contextlib.redirect_stdout(io.StringIO()) as text:
        outcome = function(*arguments)
    return outcome, text.getvalue()


def of_ratios(time, bandwidth):
    return {'time': {'ratio': time, 'less_is_better': True},
            'bandwidth': {'ratio': bandwidth, 'less_is_better': False}}


class Check(unittest.TestCase):
    def test_instructions(self):
        baseline = {'compiler': 'gcc 12', 'instructions': {'a short': 1000}}
        for now, beyond, words in ((1001, False, 'as before'), (1040, False, 'more by 4%'),
                                   (1060, True, 'TOO MUCH'), (800, False, 'less by 20%')):
            outcome, text = said(check.check_instructions, baseline, {'a short': now}, 'gcc 12')
            self.assertEqual(outcome, beyond)
            self.assertIn(words, text)

    def test_unknown_instructions(self):
        baseline = {'compiler': 'gcc 12', 'instructions': {}}
        with self.assertRaises(check.Failed):
            check.check_instructions(baseline, {'a long': 1}, 'gcc 12')

    def test_other_compiler(self):
        baseline = {'compiler': 'gcc 12', 'instructions': {'a short': 1000}}
        outcome, text = said(check.check_instructions, baseline, {'a short': 9000}, 'clang 14')
        self.assertIsNone(outcome)
        self.assertIn('skipped: instructions: the baseline is of gcc 12', text)

    def test_ratios(self):
        baseline = {'ratios': of_ratios(1, 1)}
        for time, bandwidth, beyond in ((1.9, 0.3, False), (2.1, 1, True), (1, 0.2, True),
                                        (0.1, 9, False)):
            outcome, _ = said(check.check_ratios, baseline, of_ratios(time, bandwidth))
            self.assertEqual(outcome, beyond)


if __name__ == '__main__':
    unittest.main()
