# SPDX-License-Identifier: BSD-3-Clause
"""Firewalls, other network namespaces and missing files: what is said names the cause and the remedy."""
import os

import netlab
from netlab import check
from test_nat import Peer

NAME, RESOLVER_PORT = 'walled', 15511
# As on a host of its own, where no process of the other one is seen.
ALONE = ('unshare', '--pid', '--fork', '--mount-proc')


def ripc(host, *arguments, status=1, before=(), **env):
    """The output of the tool."""
    tool = os.path.join(netlab.PROGRAMS, '..', '..', '..', 'tools', 'ripc')
    process = host.start(*before, tool, *arguments, **env)
    said = process.popen.stdout.read()
    check(process.popen.wait() == status, f'exit status {process.popen.returncode}: {said}')
    return said


def pair(lab):
    a, b = lab.host('a'), lab.host('b')
    lab.link(a, b, ipv6=False)
    return a, b


def filtered(host, hook, *rules):
    host.nft('add table inet wall\n'
             f'add chain inet wall way {{ type filter hook {hook} priority 0; }}\n' +
             ''.join(f'add rule inet wall way {rule}\n' for rule in rules))


def data_port():
    """A service is found, and what is sent to it is dropped."""
    with netlab.Lab() as lab:
        a, b = pair(lab)
        Peer(b, 'serve', NAME)
        filtered(b, 'input', f'iifname != lo udp dport != {RESOLVER_PORT} drop')
        said = ripc(a, 'ping', NAME, '-c', 1, '--timeout', 500)
        for word in ('found, but no response', b.addresses[4], 'firewall', 'udp.port', str(RESOLVER_PORT)):
            check(word in said, f'"{word}" is missing: {said}')
        check('see "ripc ping"' not in said, f'ping advises ping: {said}')
        client = Peer(a, 'use', NAME)
        # The message is 8 s under way, and the log tells of it.
        check(client.tell('long 1000 10')['status'] < 0, 'delivered')
        log = '\n'.join(client.process.lines)
        check('does not respond over udp: a firewall' in log, f'log: {log}')


def stateful():
    """The client's firewall admits replies alone: responses to multicast are none."""
    with netlab.Lab() as lab:
        a, b = pair(lab)
        Peer(b, 'serve', NAME)
        filtered(a, 'input', 'iifname lo accept', 'ct state established,related accept', 'drop')
        said = ripc(a, 'ping', NAME, '-c', 1, before=ALONE)
        for word in ('service not found', 'RIPC_PEERS', 'firewall', str(RESOLVER_PORT)):
            check(word in said, f'"{word}" is missing: {said}')
        doctor = ripc(a, 'doctor', status=0)
        check('firewall' in doctor and str(RESOLVER_PORT) in doctor, doctor)
        # Both remedies work.
        said = ripc(a, 'ping', NAME, '-c', 1, status=0, RIPC_PEERS=b.addresses[4])
        check('1 sent, 1 answered' in said, said)
        a.nft(f'insert rule inet wall way udp sport {RESOLVER_PORT} accept\n')
        said = ripc(a, 'ping', NAME, '-c', 1, status=0)
        check('1 sent, 1 answered' in said, said)


def another_namespace():
    """No network leads to the namespace of this host in which the service is."""
    with netlab.Lab() as lab:
        a, b = lab.host('a'), lab.host('b')
        server = Peer(b, 'serve', NAME)
        said = ripc(a, 'ping', NAME, '--timeout', 500)
        check('another network namespace of this host' in said, said)
        # ip netns exec becomes the program.
        check(f'nsenter -t {server.process.popen.pid} -n' in said, said)


def missing_keys():
    """A directory that is not there is no service."""
    with netlab.Lab() as lab:
        host = lab.host('a')
        for command in (('ls',), ('ping', NAME)):
            said = ripc(host, *command, RIPC_KEYS='/nowhere/keys')
            check('/nowhere/keys' in said and 'no service has that ID' not in said, said)


def ended():
    """The service ends between two pings."""
    with netlab.Lab() as lab:
        a, b = pair(lab)
        server = Peer(b, 'serve', NAME)
        ping = a.start(os.path.join(netlab.PROGRAMS, '..', '..', '..', 'tools', 'ripc'), 'ping', NAME, '-c', 3,
                       '-i', 1500, RIPC_BACKENDS='udp')
        ping.line('1:')
        server.process.end()
        said = ping.line('3:')
        check('has ended' in said, said)


if __name__ == '__main__':
    netlab.main([data_port, stateful, another_namespace, missing_keys, ended], 'nft')
