#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Compiles the example that stands in README.md, runs it as its text says, once as the server and
once as the client, and compares what it prints; a server that cannot print has to say so.
usage: readme.py SOURCE_ROOT LIBRARY_DIR
"""
import os
import re
import subprocess
import sys
import tempfile


def main():
    root, libraries = map(os.path.abspath, sys.argv[1:])
    with open(os.path.join(root, 'README.md')) as f:
        program = re.search(r'^```c\n(.*?)^```$', f.read(), re.S | re.M).group(1)
    # Two runs of this test at once on one network must not meet.
    program = program.replace('"greeter"', f'"greeter {os.getpid()} {os.uname().nodename}"')
    with tempfile.TemporaryDirectory() as folder:
        source, binary = os.path.join(folder, 'greet.c'), os.path.join(folder, 'greet')
        with open(source, 'w') as f:
            f.write(program)
        subprocess.run(['cc', '-std=c11', '-Wall', '-Wextra', '-pedantic', '-Werror', source,
                        '-I', os.path.join(root, 'include'), '-L', libraries, '-lripc',
                        '-o', binary], check=True)
        environment = dict(os.environ, LD_LIBRARY_PATH=libraries)
        server = subprocess.Popen([binary, 'serve'], env=environment, stdout=subprocess.PIPE)
        try:
            ready = server.stdout.readline().decode()
            client = subprocess.run([binary], env=environment, stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE, timeout=60)
            sys.stderr.write(client.stderr.decode())
            rest = server.communicate(timeout=60)[0].decode()
        finally:
            server.kill()
        with open('/dev/full', 'w') as full:
            mute = subprocess.run([binary, 'serve'], env=environment, stdout=full,
                                  stderr=subprocess.PIPE, timeout=60)
    said = [ready, rest, client.stdout.decode()]
    print(f'server {said[0]!r} {said[1]!r}, client {said[2]!r}, one that cannot write '
          f'{mute.stderr!r}')
    expected = ['ready\n', 'server got: good morning\n', 'client got: good morning\n']
    good = said == expected and client.returncode == server.returncode == 0
    return 0 if good and mute.returncode == 1 and mute.stderr else 1


if __name__ == '__main__':
    sys.exit(main())
