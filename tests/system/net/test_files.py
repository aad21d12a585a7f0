#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
The programs that come with the library, end to end over the udp backend: fileserver and fileget
with real files, the ripc command, pingpong, and ripc-bench with small counts.

usage: test_files.py BUILD_DIRECTORY [unittest arguments]
"""
import hashlib
import csv
import json
import os
import random
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
import unittest

from programs import DEADLINE_S, ENVIRONMENT, program, run, run_found, \
    signal_when_handled, start, stop

BIG_BYTES = 80 << 20
N_SMALL = 200


def digest(path):
    with open(path, 'rb') as stream:
        return hashlib.sha256(stream.read()).hexdigest()


def digests(top):
    """The SHA-256 of every file below a directory."""
    return {os.path.relpath(os.path.join(folder, name), top): digest(os.path.join(folder, name))
            for folder, _, names in os.walk(top) for name in names}


def make_tree(top):
    """
    Served files: a big file, small ones of all kinds of sizes, and files that must be refused.
    """
    source = random.Random(2)
    os.makedirs(os.path.join(top, 'tree', 'small', 'deeper', 'empty'))
    for i in range(N_SMALL):
        folder = os.path.join(top, 'tree', 'small', 'deeper' if i % 3 == 0 else '')
        size = (0, 1, 1200, 4096, 65536, 70000)[i] if i < 6 else source.randrange(8192)
        with open(os.path.join(folder, 'file %d' % i), 'wb') as stream:
            stream.write(source.randbytes(size))
    with open(os.path.join(top, 'tree', 'big'), 'wb') as stream:
        for _ in range(BIG_BYTES >> 20):
            stream.write(source.randbytes(1 << 20))
    with open(os.path.join(top, 'secret'), 'w') as stream:
        stream.write('not to be seen')
    os.symlink(os.path.join(top, 'secret'), os.path.join(top, 'tree', 'absolute link'))
    os.symlink('../secret', os.path.join(top, 'tree', 'relative link'))
    os.symlink('..', os.path.join(top, 'tree', 'up'))
    os.symlink('small/file 5', os.path.join(top, 'tree', 'inner link'))
    os.mkfifo(os.path.join(top, 'tree', 'fifo'))


class Served(unittest.TestCase):
    """Cases with a fileserver running."""

    name = 'test-files-%d' % os.getpid()

    @classmethod
    def setUpClass(cls):
        cls.top = tempfile.mkdtemp(prefix='ripc-test-')
        make_tree(cls.top)
        cls.tree = os.path.join(cls.top, 'tree')
        cls.server = start(program('fileserver'), cls.tree, '--name', cls.name)

    @classmethod
    def tearDownClass(cls):
        status = stop(cls.server)
        shutil.rmtree(cls.top)
        if status != 0:
            raise AssertionError('fileserver ended with %d' % status)

    def setUp(self):
        self.out = tempfile.mkdtemp(prefix='out-', dir=self.top)

    def get(self, *args, status=0):
        done = run_found('fileget', '--name', self.name, *args, cwd=self.out)
        self.assertEqual(done.returncode, status, done.stderr.decode())
        return done

    def assert_refused(self, path, why):
        done = self.get(path, '-o', 'refused', status=1)
        self.assertIn(why, done.stderr.decode())
        self.assertEqual(os.listdir(self.out), [])

    def test_fileget__big_file(self):
        self.get('big')
        self.assertEqual(digest(os.path.join(self.out, 'big')),
                         digest(os.path.join(self.tree, 'big')))
        self.assertEqual(os.listdir(self.out), ['big'])

    def test_fileget__odd_pieces(self):
        self.get('big', '-o', 'copy', '--piece', '1000003', '--depth', '7')
        self.assertEqual(digest(os.path.join(self.out, 'copy')),
                         digest(os.path.join(self.tree, 'big')))

    def test_fileget__standard_output(self):
        done = self.get('big', '-o', '-', '--piece', '4M', '--depth', '5')
        self.assertEqual(hashlib.sha256(done.stdout).hexdigest(),
                         digest(os.path.join(self.tree, 'big')))

    def test_fileget__into_directory(self):
        self.get('small/deeper/file 3', '-o', '.')
        self.assertEqual(digest(os.path.join(self.out, 'file 3')),
                         digest(os.path.join(self.tree, 'small', 'deeper', 'file 3')))

    def test_fileget__link_within(self):
        self.get('inner link', '-o', 'copy')
        self.assertEqual(digest(os.path.join(self.out, 'copy')),
                         digest(os.path.join(self.tree, 'small', 'file 5')))

    def test_fileget__recursive(self):
        for depth in ('1', '16'):
            self.get('--recursive', 'small', '-o', 'copy' + depth, '--depth', depth)
            self.assertEqual(digests(os.path.join(self.out, 'copy' + depth)),
                             digests(os.path.join(self.tree, 'small')))
            self.assertTrue(os.path.isdir(os.path.join(self.out, 'copy' + depth, 'deeper',
                                                       'empty')))

    def test_fileget__several_clients(self):
        clients = [subprocess.Popen(
            [program('fileget'), '--name', self.name, '-r', 'small', '-o', 'copy%d' % i,
             '--depth', str(1 + 5 * i)], env=ENVIRONMENT, cwd=self.out) for i in range(4)]
        for client in clients:
            self.assertEqual(client.wait(DEADLINE_S), 0)
        for i in range(len(clients)):
            self.assertEqual(digests(os.path.join(self.out, 'copy%d' % i)),
                             digests(os.path.join(self.tree, 'small')))

    def assert_kept(self, path, kind, status, said=''):
        """The destination is unchanged, and no other file was left."""
        before = os.lstat(path)
        done = self.get('small/file 5', '-o', path, status=status)
        self.assertIn(said, done.stderr.decode())
        after = os.lstat(path)
        self.assertTrue(kind(after.st_mode))
        self.assertEqual((before.st_dev, before.st_ino), (after.st_dev, after.st_ino))
        self.assertEqual(os.listdir(os.path.dirname(path)), [os.path.basename(path)])

    def make_folder(self, name):
        folder = os.path.join(self.out, name)
        os.mkdir(folder)
        return folder

    def test_fileget__over_link(self):
        target = os.path.join(self.make_folder('targets'), 'target')
        link = os.path.join(self.make_folder('links'), 'link')
        os.symlink('../targets/target', link)
        self.assert_kept(link, stat.S_ISLNK, 1)  # leads to nothing
        with open(target, 'w') as stream:
            stream.write('older')
        self.assert_kept(link, stat.S_ISLNK, 0)
        self.assertEqual(os.listdir(os.path.dirname(target)), ['target'])
        self.assertEqual(digest(target), digest(os.path.join(self.tree, 'small', 'file 5')))

    def test_fileget__to_named_pipe(self):
        pipe = os.path.join(self.make_folder('pipes'), 'pipe')
        os.mkfifo(pipe)
        reader = subprocess.Popen(['sha256sum', pipe], stdout=subprocess.PIPE)
        self.addCleanup(reader.kill)
        self.get('big', '-o', pipe, '--piece', '1M', '--depth', '5')
        self.assertTrue(stat.S_ISFIFO(os.lstat(pipe).st_mode))
        self.assertEqual(os.listdir(os.path.dirname(pipe)), ['pipe'])
        said, _ = reader.communicate(timeout=DEADLINE_S)
        self.assertEqual(said.decode().split()[0], digest(os.path.join(self.tree, 'big')))

    def test_fileget__over_socket(self):
        path = os.path.join(self.make_folder('sockets'), 'socket')
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path)
            self.assert_kept(path, stat.S_ISSOCK, 1, 'File exists')

    def test_fileget__to_device(self):
        # Nodes of our own, with the numbers of what keeps nothing and of what is always full.
        folder = self.make_folder('devices')
        if os.statvfs(folder).f_flag & os.ST_NODEV:
            self.skipTest('%s is mounted without devices' % folder)
        path = os.path.join(folder, 'node')
        for minor, status, said in ((3, 0, ''), (7, 1, 'No space left')):
            try:
                os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, minor))
            except PermissionError:
                self.skipTest('no device node can be made here')
            self.assert_kept(path, stat.S_ISCHR, status, said)
            os.unlink(path)

    def test_fileget__output_is_blamed(self):
        done = self.get('small/file 5', '-o', 'nowhere/file', status=1)
        self.assertIn('fileget: nowhere/file: No such file', done.stderr.decode())

    def test_fileget__option_is_named(self):
        done = run('fileget', '--id', '5', 'x', '--piece', '64k')
        self.assertEqual(done.returncode, 2)
        self.assertIn('"64k"', done.stderr.decode())
        done = run('fileserver', self.tree, '--id', '5', '--cache', 'much')
        self.assertIn('"much"', done.stderr.decode())

    def test_tools__option_is_named(self):
        for command in (('ripc', 'ping', 'x', '--timeout', '5s'),
                        ('ripc-bench', 'latency', '--count', '5s')):
            done = run(*command)
            self.assertEqual(done.returncode, 2)
            self.assertIn('"5s"', done.stderr.decode())

    def test_fileget__recursive_over_pipe(self):
        folder = self.make_folder('copy')
        os.mkfifo(os.path.join(folder, 'file 1'))
        done = self.get('-r', 'small', '-o', 'copy', status=1)
        self.assertIn('File exists', done.stderr.decode())
        self.assertTrue(stat.S_ISFIFO(os.lstat(os.path.join(folder, 'file 1')).st_mode))
        os.unlink(os.path.join(folder, 'file 1'))
        served = digests(os.path.join(self.tree, 'small'))
        del served['file 1']
        self.assertEqual(digests(folder), served)

    def test_fileget__list(self):
        listed = self.get('--list').stdout.decode().splitlines()
        self.assertEqual({line.split(None, 1)[1]: line.split(None, 1)[0] for line in listed},
                         {'big': str(BIG_BYTES), 'small/': 'directory', 'inner link': '70000'})
        listed = self.get('--list', 'small/deeper').stdout.decode().splitlines()
        self.assertEqual(len(listed), len(os.listdir(os.path.join(self.tree, 'small', 'deeper'))))

    def test_fileget__stats(self):
        done = self.get('-r', 'small', '--discard', '--stats')
        words = dict(word.split('=', 1) for word in done.stderr.decode().split()[1:])
        self.assertEqual(int(words['files']), N_SMALL)
        self.assertTrue(words['path'].startswith('udp'))
        self.assertEqual(os.listdir(self.out), [])

    def test_fileget__refused(self):
        for path in ('../secret', self.top + '/secret', 'small/../../secret', 'absolute link',
                     'relative link', 'up/secret', 'up'):
            self.assert_refused(path, 'refused')
        self.assert_refused('fifo', 'not a regular file')
        self.assert_refused('small', 'not a regular file')
        self.assert_refused('nothing', 'no such file')

    def test_fileget__without_openat2(self):
        for error in ('ENOSYS', 'EPERM'):  # an old kernel; a container's filter
            with self.subTest(error=error):
                self.check_without_openat2(error)

    def check_without_openat2(self, error):
        if not shutil.which('strace'):
            self.skipTest('strace is not installed')
        name = self.name + '-' + error
        server = start('strace', '-f', '-qq', '-o', '/dev/null',
                       '-e', 'inject=openat2:error=' + error,
                       program('fileserver'), self.tree, '--name', name,
                       ASAN_OPTIONS='detect_leaks=0')  # because the program needs ptrace for itself
        try:
            for path, status in (('small/file 5', 0), ('../secret', 1), ('up/secret', 1),
                                 ('/etc/hostname', 1), ('relative link', 1)):
                done = run_found('fileget', '--name', name, path, '-o', 'copy', cwd=self.out)
                self.assertEqual(done.returncode, status, done.stderr.decode())
                if status:
                    self.assertNotIn('does not respond', done.stderr.decode())
        finally:
            # strace ends with what it watches, and blocks signals itself.
            with open('/proc/%d/task/%d/children' % (server.pid, server.pid)) as stream:
                os.kill(int(stream.read().split()[0]), signal.SIGTERM)
            server.wait(DEADLINE_S)
            server.stdout.close()
        self.assertEqual(digest(os.path.join(self.out, 'copy')),
                         digest(os.path.join(self.tree, 'small', 'file 5')))

    def begin(self, name, *args):
        """Starts to fetch the big file into a pipe, and stops reading early."""
        client = subprocess.Popen([program('fileget'), '--name', name, 'big', '-o', '-', '--piece',
                                   '1M', *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  env=ENVIRONMENT)
        return client, client.stdout.read(1 << 20)

    def finish(self, client):
        """Reads the rest. Returns it, what was said on standard error, and the status."""
        out, err = client.communicate(timeout=DEADLINE_S)
        return out, err.decode(), client.returncode

    def test_fileserver__killed_and_restarted(self):
        name = self.name + '-restarted'
        server = start(program('fileserver'), self.tree, '--name', name)
        client, first = self.begin(name, '--timeout', '60000')
        server.kill()
        server.wait()
        server.stdout.close()
        server = start(program('fileserver'), self.tree, '--name', name)
        try:
            rest, said, status = self.finish(client)
        finally:
            stop(server)
        self.assertEqual(status, 0, said)
        self.assertEqual(hashlib.sha256(first + rest).hexdigest(),
                         digest(os.path.join(self.tree, 'big')))

    def test_fileserver__killed(self):
        name = self.name + '-killed'
        server = start(program('fileserver'), self.tree, '--name', name)
        client, _ = self.begin(name, '--timeout', '1000')
        server.kill()
        server.wait()
        server.stdout.close()
        _, said, status = self.finish(client)
        self.assertEqual(status, 1)
        self.assertIn('fileget: ', said)

    def test_fileserver__slow_client(self):
        clients = [self.begin(self.name, '--depth', '8') for _ in range(3)]
        self.get('-r', 'small', '-o', 'copy')
        self.get('big')
        for client, first in clients:
            rest, said, status = self.finish(client)
            self.assertEqual(status, 0, said)
            self.assertEqual(hashlib.sha256(first + rest).hexdigest(),
                             digest(os.path.join(self.tree, 'big')))

    def test_fileget__changed_file(self):
        path = os.path.join(self.tree, 'changing')
        shutil.copy(os.path.join(self.tree, 'big'), path)
        try:
            client = subprocess.Popen(
                [program('fileget'), '--name', self.name, 'changing', '-o', '-', '--piece', '1M'],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT)
            client.stdout.read(1 << 20)
            os.truncate(path, 9 << 20)
            _, said, status = self.finish(client)
        finally:
            os.unlink(path)
        self.assertEqual(status, 1)
        self.assertIn('changed', said)

    def test_fileserver__id_in_use(self):
        done = run('fileserver', self.tree, '--name', self.name)
        self.assertEqual(done.returncode, 1)

    def test_ripc__ls(self):
        service = run('ripc', 'id', self.name).stdout.decode().strip()
        # The client tries for half a second only, and the server may be stopped for as long.
        for _ in range(5):
            done = run('ripc', 'ls', '--json')
            self.assertEqual(done.returncode, 0, done.stderr.decode())
            found = [json.loads(line)['id'] for line in done.stdout.splitlines()]
            table = run('ripc', 'ls').stdout.decode()
            if service in found and service in table:
                break
        self.assertIn(service, found)
        self.assertIn(service, table)

    def test_ripc__ping(self):
        done = run_found('ripc', 'ping', self.name, '-c', '20', '-i', '0', '--json', '--timeout',
                         '20000')
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        answer = json.loads(done.stdout)
        self.assertEqual(answer['answered'], 20)
        self.assertEqual(answer['backend'], 'udp')
        self.assertEqual(answer['others'], '')
        self.assertIn('median', run_found('ripc', 'ping', self.name, '-c', '2').stdout.decode())


class OnOneHost(unittest.TestCase):
    """Cases without restriction: shared memory is what is best there."""

    def fetch(self, name, path, out):
        done = subprocess.run([program('fileget'), '--name', name, os.path.basename(path), '-o',
                               out], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              timeout=DEADLINE_S)
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        self.assertIn('over shm', done.stderr.decode())
        self.assertEqual(digest(out), digest(path))

    def test_fileserver__cache(self):
        # The longest file that the interpreter consists of: nobody has changed it lately.
        with open('/proc/self/maps') as stream:
            mapped = {line.split(None, 5)[5].strip() for line in stream if '/' in line}
        path = max(filter(os.path.isfile, mapped), key=os.path.getsize)
        name = 'test-cache-%d' % os.getpid()
        if os.path.getsize(path) < 2 << 20:
            self.skipTest('%s is too short to be kept' % path)
        server = subprocess.Popen([program('fileserver'), os.path.dirname(path), '--name', name],
                                  stdout=subprocess.PIPE)
        self.assertIn(b'serving', server.stdout.readline())
        try:
            with tempfile.TemporaryDirectory(prefix='ripc-test-') as top:
                for _ in range(10):
                    self.fetch(name, path, os.path.join(top, 'copy'))
        finally:
            server.terminate()
            said = server.stdout.read().decode()
            server.stdout.close()
            self.assertEqual(server.wait(DEADLINE_S), 0)
        self.assertIn('over shm', said)
        self.assertNotIn(' 0.0 MB from memory', said)


    def test_all__no_network_in_common(self):
        why = 'udp: the partner does not have this backend; shm: left out by configuration'
        with tempfile.TemporaryDirectory(prefix='ripc-test-') as top:
            name = 'test-apart-%d' % os.getpid()
            server = start(program('fileserver'), top, '--name', name, RIPC_BACKENDS='shm')
            try:
                done = run_found('ripc', 'ping', name, '-c', '1')
                self.assertEqual(done.returncode, 1)
                self.assertIn('not used: ' + why, done.stdout.decode())
                self.assertIn('no network leads to it', done.stderr.decode())
                done = run_found('ripc', 'ping', name, '-c', '1', '--json')
                self.assertEqual(json.loads(done.stdout)['others'], why)
                # Long before it would take the server for silent.
                done = run_found('fileget', '--name', name, 'x', '--timeout', '900000')
                self.assertEqual(done.returncode, 1)
                self.assertIn(why, done.stderr.decode())
            finally:
                stop(server)

    def test_fileget__network_gone(self):
        # A server that comes again where no network leads is not waited for.
        with tempfile.TemporaryDirectory(prefix='ripc-test-') as top:
            name = 'test-moved-%d' % os.getpid()
            with open(os.path.join(top, 'big'), 'wb') as stream:
                stream.truncate(BIG_BYTES)
            server = start(program('fileserver'), top, '--name', name)
            client = subprocess.Popen(
                [program('fileget'), '--name', name, 'big', '-o', '-', '--piece', '1M',
                 '--timeout', '900000'], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                env=ENVIRONMENT)
            client.stdout.read(1 << 20)
            server.kill()
            server.wait()
            server.stdout.close()
            server = start(program('fileserver'), top, '--name', name, RIPC_BACKENDS='shm')
            try:
                _, said = client.communicate(timeout=DEADLINE_S)
            finally:
                client.kill()
                stop(server)
            self.assertEqual(client.returncode, 1)
            self.assertIn('no network leads to it', said.decode())


class Alone(unittest.TestCase):
    """Cases without a server."""

    def test_fileget__unknown_service(self):
        done = run('fileget', '--name', 'nobody-%d' % os.getpid(), 'x', '--timeout', '2000')
        self.assertEqual(done.returncode, 1)
        self.assertIn('cannot reach', done.stderr.decode())

    def test_ping__unknown_service(self):
        done = run('ripc', 'ping', 'nobody-%d' % os.getpid())
        self.assertEqual(done.returncode, 1)
        self.assertTrue(done.stderr)

    def test_doctor__json(self):
        done = run('ripc', 'doctor', '--json')
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        findings = json.loads(done.stdout)['findings']
        usable = [f['name'] for f in findings if f.get('usable')]
        self.assertIn('udp', usable)
        self.assertNotIn('shm', usable)  # RIPC_BACKENDS is "udp"
        said = [f['detail'] for f in findings if f['name'] == 'descriptors']
        self.assertRegex(said[0], 'a context takes up to [0-9]+, .*RLIMIT_NOFILE is enough for ')
        self.assertEqual(run('ripc', 'doctor').returncode, 0)

    def test_all__help(self):
        for name in ('ripc', 'ripc-bench', 'pingpong', 'fileserver', 'fileget', 'tcp_files'):
            done = run(name, '--help')
            self.assertEqual(done.returncode, 0, name)
            self.assertIn(b'usage: ' + name.encode(), done.stdout)
        self.assertEqual(run('ripc', '--version').returncode, 0)

    def test_all__usage_errors(self):
        wrong = (
            ('ripc',), ('ripc', 'cure'), ('ripc', 'doctor', 'who'), ('ripc', 'ls', '--timeout'),
            ('ripc', 'ping'), ('ripc', 'ping', '0'), ('ripc', 'ping', 'x', '-c', '-1'),
            ('ripc', 'ping', '99999999999999999999'), ('ripc', 'ping', '0xff00000000000001'),
            ('ripc', 'id'),
            ('ripc-bench',), ('ripc-bench', 'smell'), ('ripc-bench', 'latency', '--size', '0'),
            ('ripc-bench', 'latency', '--size', '1X'), ('ripc-bench', 'bandwidth', '--vs', 'udp'),
            ('ripc-bench', 'latency', '--backend', 'nope'),
            ('ripc-bench', 'latency', '--pin', '0,%d' % (os.sysconf('SC_NPROCESSORS_CONF') + 90)),
            ('ripc-bench', 'latency', '--depth', '2'), ('ripc-bench', 'rate', '--depth', '0'),
            ('ripc-bench', 'rate', '--depth', '1:9'), ('ripc-bench', 'latency', '--size', '9:1:2'),
            ('ripc-bench', 'latency', '--vs', 'pigeon'), ('ripc-bench', 'latency', 'more'),
            ('pingpong', '--sizes', '5-1:1'), ('pingpong', '--id', '0'), ('pingpong', 'x'),
            ('pingpong', '--count', '0'),
            ('fileserver',), ('fileserver', '/tmp'), ('fileserver', '/tmp', '--id', '0'),
            ('fileserver', '--id', '5'), ('fileserver', '/tmp', '--name', ''),
            ('fileserver', '/tmp', '--id', '5', '--cache', 'much'),
            ('fileget', 'x'), ('fileget', '--id', '5'), ('fileget', '--id', 'x', 'y'),
            ('fileget', '--id', '5', 'a', 'b'), ('fileget', '--id', '5', '-r', '-o', '-'),
            ('fileget', '--id', '5', '-l', '-r'), ('fileget', '--id', '5', 'x', '--depth', '0'),
            ('tcp_files',), ('tcp_files', '--serve', '/tmp'),
        )
        for name, *args in wrong:
            done = run(name, *args)
            self.assertEqual(done.returncode, 2, (name, args))
            self.assertIn(b'usage: ', done.stderr)
            self.assertEqual(done.stdout, b'')

    def test_all__wrong_values(self):
        for name, *args in (('ripc', 'ping', 'x', '-c', 'much'),
                            ('ripc-bench', 'latency', '--size', 'much'),
                            ('pingpong', '--count', 'much'),
                            ('fileserver', '/tmp', '--id', '5', '--cache', 'much'),
                            ('fileget', '--id', '5', 'x', '--depth', 'much')):
            said = run(name, *args).stderr
            self.assertIn(b'"much" is not a valid value of this option', said, name)

    def test_hello__greets(self):
        # In a network namespace of its own, as the name "hello" may be taken here.
        script = ('ip link set lo up; "$0" & for i in 1 2 3 4 5 6 7 8 9 10; do '
                  '"$1" Ann && break; done; kill $!')
        apart = ['unshare', '--net'] + ['--map-root-user'] * (os.geteuid() != 0)
        command = apart + ['sh', '-c', script, program('hello_server'), program('hello_client')]
        if subprocess.run(apart + ['ip', 'link'], stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL).returncode:
            self.skipTest('no network namespace can be made here')
        done = subprocess.run(command, stdout=subprocess.PIPE, env=ENVIRONMENT, timeout=DEADLINE_S)
        self.assertEqual(done.stdout, b'Hello, Ann!\n')

    def test_servers__end_by_a_signal(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            process = start(program('pingpong'), '--serve')
            process.send_signal(number)
            process.stdout.close()
            self.assertEqual(process.wait(DEADLINE_S), 0)
            process = subprocess.Popen((program('hello_server'),), env=ENVIRONMENT,
                                       stderr=subprocess.PIPE)
            signal_when_handled(process, number)
            self.assertEqual(process.wait(DEADLINE_S), 0, process.stderr.read())
            process.stderr.close()

    def test_pingpong__stopped(self):
        for kind in ('--short', '--call'):
            process = subprocess.Popen((program('pingpong'), '--count', '100000000', '--sizes',
                                        '50', kind), env=ENVIRONMENT, stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE)
            signal_when_handled(process, signal.SIGINT)
            self.assertEqual(process.communicate(timeout=DEADLINE_S)[1], b'')
            self.assertEqual(process.returncode, 130)

    def test_pingpong__few(self):
        done = run('pingpong', '--sizes', '1,50,1400,100000', '--count', '20')
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        rows = [line.split() for line in done.stdout.decode().splitlines()]
        for kind in ('long', 'call'):
            self.assertEqual([row[1] for row in rows if row[0] == kind],
                             ['1', '50', '1400', '100000'])
        done = run('pingpong', '--sizes', '50', '--count', '20', '--call', '--short')
        self.assertEqual([line.split()[0] for line in done.stdout.decode().splitlines()[1:3]],
                         ['short', 'call'])

    def bench(self, *args):
        done = run('ripc-bench', args[0], '--pairs', '2', '--json', *args[1:])
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        for line in lines:
            self.assertEqual(line['ripc']['wrong'], 0)
            if 'peer' not in line:
                continue
            self.assertEqual(line['peer']['wrong'], 0)
            ratio = line['ratio']
            self.assertGreater(ratio['least'], 0)
            for less, more in (('least', 'low'), ('low', 'median'), ('median', 'high'),
                               ('high', 'most')):
                self.assertLessEqual(ratio[less], ratio[more])
        return [(line['size'], line.get('vs', '')) for line in lines]

    def test_bench__latency(self):
        done = self.bench('latency', '--size', '3,50,100000', '--count', '20', '--vs', 'tcp')
        self.assertEqual(done, [(3, 'tcp'), (50, 'tcp'), (100000, 'tcp')])
        done = self.bench('latency', '--size', '50', '--count', '20', '--spin', '50')
        self.assertEqual(done, [(50, 'tcp'), (50, 'udp')])

    def test_bench__bandwidth(self):
        done = self.bench('bandwidth', '--size', '1,64K,8M', '--count', '3')
        self.assertEqual(done, [(1, 'tcp'), (65536, 'tcp'), (8 << 20, 'tcp')])
        done = self.bench('bandwidth', '--size', '8M', '--count', '3', '--vs', 'memcpy')
        self.assertEqual(done, [(8 << 20, 'memcpy')])

    def test_bench__other_tests(self):
        for test, options, peers in (
                ('idle-gap', ('--gap', '0,100', '--count', '20'), ['tcp', 'udp'] * 2),
                ('segmentation', ('--size', '8500:9000:250', '--count', '5'), [''] * 3),
                ('saturation', ('--rate', '2000', '--count', '200'), ['tcp', 'udp']),
                ('bandwidth', ('--size', '64K', '--depth', '4', '--count', '20'), ['tcp']),
                ('oneway', ('--size', '1M', '--count', '3'),
                 ['ripc-return', 'ripc-window', 'ripc-give', 'memcpy']),
                ('rate', ('--depth', '1,16', '--count', '500'), ['tcp', 'udp'] * 2),
                ('threads', ('--threads', '2', '--count', '500'), ['tcp']),
                ('incast', ('--senders', '3', '--count', '500'), ['tcp']),
                ('cpu', ('--size', '64', '--count', '20'), ['tcp', 'udp']),
                ('partners', ('--partners', '20', '--count', '100'), ['']),
                ('resolve', ('--vs', 'ripc-again', '--count', '20'), ['ripc-again'])):
            self.assertEqual([vs for _, vs in self.bench(test, *options)], peers, test)

    def skip_without(self, *peers):
        """The name of a library that may be missing."""
        listed = {line.split()[0] for line in run('ripc-bench', '--help').stdout.decode()
                  .split('\nPeers:\n')[1].splitlines()}
        if not listed & set(peers):
            self.skipTest('ripc-bench was built without ' + ' and '.join(peers))

    def bench_other_library(self, *peers):
        """Small runs of every kind beside its peers."""
        self.skip_without(*peers)
        peers = list(peers)
        vs = ('--vs', ','.join(peers))
        for test, *options in (('latency', '--size', '3,100000', '--count', '20'),
                               ('latency', '--size', '64', '--count', '20', '--spin', '50',
                                '--untouched'),
                               ('bandwidth', '--size', '1M', '--count', '3'),
                               ('bandwidth', '--size', '64K', '--depth', '4', '--count', '20'),
                               ('rate', '--depth', '16', '--count', '100'),
                               ('incast', '--senders', '3', '--count', '100')):
            done = [vs for _, vs in self.bench(test, *options, *vs)]
            self.assertEqual(done, peers * (len(done) // len(peers)), (test, options))

    def test_bench__zmq(self):
        self.bench_other_library('zmq', 'zmq-ipc')

    def test_bench__nng(self):
        self.bench_other_library('nng', 'nng-ipc')

    def test_bench__ucx(self):
        self.bench_other_library('ucx', 'ucx-tcp')

    def test_bench__ucx_one(self):
        """Its messages overwrite one another, so nobody may look at them."""
        self.skip_without('ucx-one')
        options = ('--size', '64K', '--depth', '4', '--count', '20', '--vs', 'ucx-one')
        done = self.bench('bandwidth', '--untouched', *options)
        self.assertEqual(done, [(65536, 'ucx-one')])
        done = run('ripc-bench', 'bandwidth', '--pairs', '1', *options)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b'ucx-one, 65536 bytes: opening a link: this system or device cannot '
                      b'do that', done.stderr)
        self.assertIn(b'overwrite each other: only with --untouched', done.stderr)
        self.assertEqual(run('ripc-bench', 'latency', '--untouched', '--vs', 'ucx-one').returncode,
                         2)

    def test_bench__libfabric(self):
        self.bench_other_library('fi-tcp', 'fi-shm')

    def test_bench__keeps_gap_and_rate(self):
        """Nobody begins early: two runs last at least as long as their gaps, or rate, ask."""
        for peer in ('unix', 'tcp', 'udp'):
            began = time.monotonic()
            self.bench('idle-gap', '--gap', '20000', '--vs', peer, '--count', '30', '--pairs', '1')
            self.assertGreaterEqual(time.monotonic() - began, 2 * 30 * 0.02, peer)
        for peer in ('tcp', 'udp'):
            began = time.monotonic()
            self.bench('saturation', '--rate', '50', '--vs', peer, '--count', '30', '--pairs', '1')
            self.assertGreaterEqual(time.monotonic() - began, 2 * 30 / 50, peer)

    def test_bench__cpu_is_what_the_kernel_says(self):
        """
        The cost of all messages: the processor time of all processes together, but for the first
        message.
        """
        count, keys = 20000, ('client_user', 'client_system', 'server_user', 'server_system')
        before = os.times()
        done = run('ripc-bench', 'cpu', '--size', '64', '--vs', 'tcp', '--pairs', '1', '--count',
                   str(count), '--json')
        after = os.times()
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        used_s = (after.children_user + after.children_system - before.children_user -
                  before.children_system)
        line = json.loads(done.stdout)
        messages = count + count // 10 + 1
        told_s = sum(line[who]['cpu_us'][key] for who in ('ripc', 'peer') for key in keys
                     ) * messages / 1e6
        self.assertLessEqual(told_s, used_s + 0.1)
        self.assertGreaterEqual(told_s, used_s / 2)
        for who in ('ripc', 'peer'):
            for end in ('client', 'server'):
                self.assertGreater(sum(line[who]['cpu_us'][f'{end}_{mode}']
                                       for mode in ('user', 'system')), 0, (who, end))

    def test_bench__out(self):
        with tempfile.TemporaryDirectory() as top:
            self.bench('latency', '--size', '50', '--count', '1000', '--vs', 'udp',
                       '--out', top + '/x')
            with open(top + '/x.jsonl', encoding='utf-8') as stream:
                first, second = map(json.loads, stream)
            self.assertGreater(first['machine']['processors'], 0)
            self.assertEqual((second['size'], second['ripc']['n']), (50, 2000))
            self.assertIn('p90', second['ripc'])
            self.assertNotIn('p9999', second['ripc'])  # too few samples
            with open(top + '/x.csv', encoding='utf-8') as stream:
                rows = list(csv.DictReader(line for line in stream if line[0] != '#'))
            self.assertEqual([row['peer'] for row in rows], ['ripc', 'udp'])
            self.assertEqual({row['n'] for row in rows}, {'2000'})
            with open(top + '/x-latency-ripc-50-0.hgrm', encoding='utf-8') as stream:
                lines = [line.split() for line in stream if line[:1] != '#' and line.strip()]
            shares = [float(line[1]) for line in lines[1:]]
            self.assertEqual(shares, sorted(shares))
            self.assertEqual((shares[-1], lines[-1][2]), (1.0, '2000'))
        self.assertEqual(run('ripc-bench', 'latency', '--out', '/nowhere/x').returncode, 1)

    def test_bench__joined(self):
        name = 'bench-%d' % os.getpid()
        server = start(program('ripc-bench'), '--server', '--id', name)
        try:
            self.bench('latency', '--to', name, '--size', '50', '--count', '20')
            self.bench('bandwidth', '--to', name, '--size', '64K', '--count', '3')
            self.bench('latency', '--to', name, '--size', '500', '--count', '20', '--untouched')
            self.bench('rate', '--to', name, '--depth', '8', '--count', '500', '--vs', 'none')
        finally:
            server.terminate()
            server.wait(DEADLINE_S)
            server.stdout.close()


if __name__ == '__main__':
    unittest.main(verbosity=2)
