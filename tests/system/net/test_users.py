# SPDX-License-Identifier: BSD-3-Clause
"""Two users of one host: what keeps them from sharing memory is told, and nobody waits for it."""
import os
import shutil

import netlab
from netlab import check
from xfer import SERVICE

SERVER, CLIENT = 64001, 64002
GROUP, OTHER_GROUP = 64100, 64101
REMEDY = "shm: another user's process (as of ripc_open()): set shm.uids or shm.gids on both sides"


def as_user(user, *command, group=None):
    """group: a supplementary one."""
    groups = ('--groups', group) if group else ('--clear-groups',)
    return ('setpriv', '--reuid', user, '--regid', user, *groups, *command)


def tool():
    return os.path.join(netlab.PROGRAMS, '..', '..', '..', 'tools', 'ripc')


def host_of_users(lab):
    host = lab.host('a')
    host.ip('route', 'add', '224.0.0.0/4', 'dev', 'lo')
    probe = host.start(*as_user(CLIENT, 'test', '-x', tool()))
    if probe.popen.wait() != 0:
        netlab.skip('other users cannot run what was built here')
    return host


def start(host, serving, group=None, **env):
    server = host.start(*as_user(SERVER, netlab.program('xfer'), 'serve', '--id', SERVICE,
                                 group=group),
                        RIPC_INTERFACES='lo', RIPC_OPTIONS=serving, **env)
    server.line('ready')
    return server


def ping(host, asking, status=0, group=None, **env):
    """
    The lines of its output. A service that learned of the end only by a timeout would lose the
    first pings of these.
    """
    client = host.start(*as_user(CLIENT, tool(), 'ping', SERVICE, '-c', 3, '-i', 1, '--timeout',
                                 2000, group=group),
                        RIPC_INTERFACES='lo', RIPC_OPTIONS=asking, **env)
    said = client.popen.stdout.read()
    check(client.popen.wait() == status, said)
    return said


def pings_by_udp(serving, asking):
    with netlab.Lab() as lab:
        host = host_of_users(lab)
        server = start(host, serving)
        said = ping(host, asking)
        check('3 sent, 3 answered' in said and 'path: udp' in said and REMEDY in said, said)
        check('unknown' not in said, said)
        sent = host.start(*as_user(CLIENT, netlab.program('xfer'), 'send', '--to', SERVICE,
                                   '--bytes', '3M'), RIPC_INTERFACES='lo', RIPC_OPTIONS=asking)
        sent.end()
        check(server.end()['wrong'] == 0, 'bytes are wrong')


def nobody_admits():
    pings_by_udp(None, None)


def server_admits():
    pings_by_udp('shm.uids=any', None)


def client_admits():
    pings_by_udp(None, 'shm.uids=any')


def both_admit():
    with netlab.Lab() as lab:
        host = host_of_users(lab)
        start(host, f'shm.uids={CLIENT}')
        said = ping(host, f'shm.uids={SERVER}')
        check('3 sent, 3 answered' in said and 'path: shm' in said, said)


def groups_admit(serving, asking, expected, server_group=GROUP, client_group=GROUP):
    with netlab.Lab() as lab:
        host = host_of_users(lab)
        start(host, serving, server_group)
        said = ping(host, asking, group=client_group)
        check('3 sent, 3 answered' in said and f'path: {expected}' in said, said)
        check((REMEDY in said) == (expected == 'udp'), said)


def both_in_the_group():
    groups_admit(f'shm.gids={GROUP}', f'shm.gids={OTHER_GROUP}:{GROUP}', 'shm')


def group_by_name():
    """The first group of the file with a number of its own."""
    with open('/etc/group', encoding='utf-8') as file:
        name, _, number = [line.split(':')[:3] for line in file if line.split(':')[2] > '0'][0]
    groups_admit(f'shm.gids={name}', f'shm.gids={name}', 'shm', number, number)


def group_on_one_side():
    groups_admit(f'shm.gids={GROUP}', None, 'udp')
    groups_admit(None, f'shm.gids={GROUP}', 'udp')


def client_in_another_group():
    groups_admit(f'shm.gids={GROUP}', f'shm.gids={GROUP}', 'udp', client_group=OTHER_GROUP)


def server_in_another_group():
    """The process pretends to be a server of that group: clients share no memory with it."""
    groups_admit('shm.uids=any', f'shm.gids={GROUP}', 'udp', server_group=OTHER_GROUP)


def not_found():
    """Neither multicast nor peers: a user's local names say who has it."""
    with netlab.Lab() as lab:
        host = host_of_users(lab)
        host.nft('add table ip lab\n'
                 'add chain ip lab out { type filter hook output priority 0; }\n'
                 'add rule ip lab out ip daddr 224.0.0.0/4 counter drop\n')
        start(host, None)
        said = ping(host, None, status=1)
        check(f'another user (uid {SERVER})' in said, said)


def name_is_taken():
    """"ripc doctor" says whose process has bound a local name of ours."""
    with netlab.Lab() as lab:
        host = host_of_users(lab)
        name = f'ripc/{CLIENT:x}/{SERVICE:016x}/0'
        script = ('import socket, sys\n'
                  's = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)\n'
                  f's.bind("\\0{name}")\n'
                  'print("ready", flush=True)\n'
                  'sys.stdin.read()\n')
        for user, told in ((SERVER, True), (CLIENT, False)):
            taker = host.start(*as_user(user, '/usr/bin/python3', '-c', script))
            taker.line('ready')
            doctor = host.start(*as_user(CLIENT, tool(), 'doctor'), RIPC_INTERFACES='lo')
            said = doctor.popen.stdout.read()
            doctor.popen.wait()
            check((f'(uid {SERVER})' in said and f'@{name}' in said) == told, said)
            taker.end()


def few_descriptors():
    """Each ping is answered, also if one end has no descriptor left for shared memory."""
    with netlab.Lab() as lab:
        host = host_of_users(lab)
        start(host, None)
        for limit in range(25, 31):
            client = host.start(*as_user(SERVER, 'prlimit', f'--nofile={limit}', tool(), 'ping', SERVICE, '-c', 3, '-i', 1),
                                RIPC_INTERFACES='lo')
            said = client.popen.stdout.read()
            check(client.popen.wait() == 0 and '3 sent, 3 answered' in said, f'{limit} descriptors: {said}')


if __name__ == '__main__':
    if not shutil.which('setpriv'):
        netlab.skip('there is no program "setpriv"')
    netlab.main([nobody_admits, server_admits, client_admits, both_admit,
                 both_in_the_group, group_by_name, group_on_one_side, client_in_another_group,
                 server_in_another_group, not_found, name_is_taken,
                 few_descriptors], 'nft')
