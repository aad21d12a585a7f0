#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
tests/fuzz/inputs: inputs come out as they went in, and a replay that cannot run all of them fails.

usage: test_inputs.py REPLAY [unittest arguments]
  REPLAY   a fuzz target made with tests/fuzz/replay.c, which any bytes suit
"""
import os
import subprocess
import sys
import tempfile
import unittest

INPUTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'inputs')
REPLAY = os.path.abspath(sys.argv.pop(1))
BLOCK = 512  # of a tar archive: a header, then the data


class Inputs(unittest.TestCase):
    def setUp(self):
        top = tempfile.TemporaryDirectory()
        self.addCleanup(top.cleanup)
        self.top, self.archive = top.name, os.path.join(top.name, 'a.tar')

    def path(self, name):
        return os.path.join(self.top, name)

    def file(self, name, data):
        with open(self.path(name), 'wb') as stream:
            stream.write(data)
        return self.path(name)

    def inputs(self, command, *arguments):
        return subprocess.run([INPUTS, command, self.archive, *arguments], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def add_three(self):
        files = [self.file(name, name.encode() * 9) for name in ('two', 'one', 'three')]
        self.assertEqual(self.inputs('add', *files).returncode, 0)
        with open(self.archive, 'rb') as stream:
            return stream.read()

    def must_refuse(self, data, words):
        self.file('a.tar', data)
        done = self.inputs('replay', REPLAY)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn(words, done.stdout)

    def test_same_inputs_same_bytes(self):
        data = self.add_three()
        os.unlink(self.archive)
        for name in ('three', 'two', 'one'):
            os.utime(self.path(name), (1, 1))
            os.chmod(self.path(name), 0o600)
            self.inputs('add', self.path(name))
        with open(self.archive, 'rb') as stream:
            self.assertEqual(stream.read(), data)

    def test_comes_out_as_it_went_in(self):
        self.add_three()
        self.file('one', b'')
        self.assertIn('3 inputs', self.inputs('add', self.path('one')).stdout)
        self.assertIn('2 inputs', self.inputs('remove', 'three').stdout)
        self.assertEqual(self.inputs('list').stdout, 'one\ntwo\n')
        self.inputs('unpack', self.path('out'))
        self.assertEqual(sorted(os.listdir(self.path('out'))), ['one', 'two'])
        for name, expected in (('one', b''), ('two', b'two' * 9)):
            with open(self.path('out/' + name), 'rb') as stream:
                self.assertEqual(stream.read(), expected)
        self.assertEqual(self.inputs('remove', 'four').returncode, 1)

    def test_replays_all(self):
        self.add_three()
        done = self.inputs('replay', REPLAY)
        self.assertEqual((done.returncode, done.stdout), (0, '3 files\n'))

    def test_refuses_what_is_damaged(self):
        data = self.add_three()
        second = bytearray(data)
        second[2 * BLOCK] ^= 1  # in the name: the header's sum is wrong
        self.must_refuse(bytes(second), 'damaged')
        self.must_refuse(bytes([data[0] ^ 1]) + data[1:], 'a.tar: ')
        for n in (0, BLOCK, BLOCK + 5, 2 * BLOCK, len(data) - BLOCK):
            self.must_refuse(data[:n], 'a.tar: ')
        self.must_refuse(bytes(20 * BLOCK), 'no inputs')

    def test_refuses_a_replay_of_fewer(self):
        self.add_three()
        for program in ('true', 'false'):
            done = self.inputs('replay', program)
            self.assertEqual(done.returncode, 1, done.stdout)


if __name__ == '__main__':
    unittest.main()
