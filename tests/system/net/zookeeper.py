# SPDX-License-Identifier: BSD-3-Clause
"""ZooKeeper servers for tests: plain java processes in hosts of a lab, each in a directory of its own."""
import os
import shutil
import subprocess
import tempfile
import time

import netlab
from netlab import Failure

JAR = '/usr/share/java/zookeeper.jar'
PORT = 2181
COMMAND = ['java', '-Xmx512m', '-XX:+UseSerialGC', '-XX:TieredStopAtLevel=1', '-cp', JAR,
           'org.apache.zookeeper.server.quorum.QuorumPeerMain']
PATIENCE_S = 60
CONFIG = '''tickTime=500
minSessionTimeout=1000
maxClientCnxns=0
admin.enableServer=false
initLimit=20
syncLimit=10
4lw.commands.whitelist=srvr
dataDir={directory}
clientPort={port}
'''


def missing():
    """Why no server can run here; None: it can."""
    if not os.path.exists(JAR):
        return f'there is no {JAR} (scripts/install test, or apt-get install zookeeper)'
    if not shutil.which('java'):
        return 'there is no java'
    return None


class Server:
    """One server in a host; of several, members are their addresses, number counts from 1."""

    def __init__(self, host, number=1, members=()):
        self.host, self.process = host, None
        self.directory = tempfile.mkdtemp(prefix='ripc-zk-')
        with open(f'{self.directory}/zoo.cfg', 'w', encoding='ascii') as config:
            config.write(CONFIG.format(directory=self.directory, port=PORT))
            for other, address in enumerate(members, 1):
                config.write(f'server.{other}={address}:2888:3888\n')
        with open(f'{self.directory}/myid', 'w', encoding='ascii') as myid:
            myid.write(f'{number}\n')
        shutil.chown(self.directory, 'nobody')
        for name in ('zoo.cfg', 'myid'):
            shutil.chown(f'{self.directory}/{name}', 'nobody')

    def start(self):
        # Not the test's own user, and no part of its output.
        command = ['setpriv', '--reuid', 'nobody', '--clear-groups', *COMMAND,
                   f'{self.directory}/zoo.cfg']
        self.process = subprocess.Popen(
            ['ip', 'netns', 'exec', self.host.name, *command], stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=self.directory,
            preexec_fn=netlab.die_with_parent)
        return self

    def mode(self):
        """"leader", "follower", "standalone", or None: it does not serve yet."""
        code = ('import socket,sys\n'
                f's=socket.create_connection(("127.0.0.1",{PORT}),20)\n'
                's.sendall(b"srvr")\nprint(s.makefile().read())')
        done = subprocess.run(['ip', 'netns', 'exec', self.host.name, 'python3', '-c', code],
                              capture_output=True, text=True, check=False)
        modes = [line.split()[1] for line in done.stdout.split('\n') if line.startswith('Mode:')]
        return modes[0] if modes else None

    def ready(self):
        until = time.monotonic() + PATIENCE_S
        while not self.mode():
            if self.process.poll() is not None or time.monotonic() > until:
                raise Failure(f'ZooKeeper does not start in {self.directory}')
            time.sleep(0.1)
        return self

    def kill(self):
        self.process.kill()
        self.process.wait()

    def close(self):
        if self.process and self.process.poll() is None:
            self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)
