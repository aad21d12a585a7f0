# SPDX-License-Identifier: BSD-3-Clause
"""The programs of examples/python, and that docs/python.md has the first one as it is."""
import hashlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), '../../..')
EXAMPLES = os.path.join(ROOT, 'examples/python')
FILESERVER = os.environ.get('RIPC_FILESERVER')
PATIENCE = 60


def command(name, *arguments):
    return [sys.executable, os.path.join(EXAMPLES, name), *arguments]


def sigint_as_usual():
    """A shell ignores it for what it runs in the background, and Python keeps to that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Examples(unittest.TestCase):
    def serve(self, *arguments):
        server = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  text=True, preexec_fn=sigint_as_usual)
        self.addCleanup(server.stdout.close)
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        self.assertIn('serving', server.stdout.readline())
        return server

    def run_it(self, *arguments):
        done = subprocess.run(arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=PATIENCE)
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout.split('\n')

    def test_greet(self):
        self.serve(*command('greet.py', 'serve'))
        self.assertEqual(self.run_it(*command('greet.py'))[0], 'good morning, friend')

    def test_the_guide_has_it(self):
        with open(os.path.join(ROOT, 'docs/python.md'), encoding='utf-8') as guide:
            first = re.search(r'```python\n(.*?)```', guide.read(), re.S).group(1)
        with open(os.path.join(EXAMPLES, 'greet.py'), encoding='utf-8') as program:
            self.assertTrue(program.read().endswith(first[first.index('with'):]))

    def test_aio_server(self):
        self.assertIn('100 clients got replies', self.run_it(*command('aio_server.py', '100'))[0])

    def test_digest_ends_with_ctrl_c(self):
        server = self.serve(*command('digest.py', f'digest-end-{os.getpid()}'))
        server.send_signal(signal.SIGINT)
        self.assertEqual(server.wait(PATIENCE), 0)

    @unittest.skipUnless(FILESERVER, 'no RIPC_FILESERVER: examples/fileserver')
    def test_fetch(self):
        files, digest = f'files-{os.getpid()}', f'digest-{os.getpid()}'
        with tempfile.TemporaryDirectory() as folder:
            data = os.urandom(3_000_000)
            for name, content in (('big', data), ('empty', b'')):
                with open(os.path.join(folder, name), 'wb') as file:
                    file.write(content)
            self.serve(FILESERVER, folder, '--name', files)
            self.serve(*command('digest.py', digest))
            for name, content in (('big', data), ('empty', b'')):
                output = os.path.join(folder, 'fetched')
                said = self.run_it(*command('fetch.py', files, name, output, digest))
                self.assertEqual(said[:2], [f'{len(content)} bytes',
                                            hashlib.sha256(content).hexdigest()])
                with open(output, 'rb') as file:
                    self.assertEqual(file.read(), content)
            with self.assertRaisesRegex(AssertionError, 'status 1'):
                self.run_it(*command('fetch.py', files, 'missing', output))


if __name__ == '__main__':
    unittest.main()
