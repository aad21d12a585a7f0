# SPDX-License-Identifier: BSD-3-Clause
"""
Programs with keys, and somebody on the link between them who reads, alters, replays, reorders, drops
and forges packets of every kind: nothing leaves in the open, nothing is lost but what was dropped,
nothing is wrong, and who is refused reads why.
"""
import contextlib
import os
import shutil
import tempfile

import netlab
from netlab import check
from xfer import SERVICE, finish, send, serve, transfer

ATTACKS = ('--reorder-ppm', 100000, '--duplicate-ppm', 50000, '--alter-ppm', 20000, '--drop-ppm',
           10000, '--replay-ppm', 450000, '--forge-ppm', 450000)


def built(*path):
    return os.path.join(netlab.PROGRAMS, '..', '..', *path)


@contextlib.contextmanager
def keys(host, *like):
    """A directory of keys, as a user makes it."""
    top = tempfile.mkdtemp(prefix='ripc-keys-')
    try:
        host.run(built('tools', 'ripc'), 'key', 'new', *like, os.path.join(top, 'keys'))
        yield os.path.join(top, 'keys')
    finally:
        shutil.rmtree(top)


def attacked(size, *arguments):
    """Two hosts with keys, each its own of one deployment."""
    with netlab.Lab() as lab:
        a, b = lab.host('a'), lab.host('b')
        relay = lab.relay(a, b, netlab.program('relay'), '--seed', 1, *ATTACKS)
        with keys(a) as ours, keys(b, '--like', ours) as theirs:
            server = serve(b, RIPC_KEYS=theirs)
            client = send(a, size, *map(str, arguments), RIPC_KEYS=ours)
            result = finish(client, server, 0 if '--shorts' in arguments else 1)
        did = relay.end()
    check(did['open'] == 0, f'packets went in the open: {did}')
    tried = did['altered'] + did['replayed'] + did['forged']
    return result, did, tried


def longs():
    result, did, tried = attacked('1G' if netlab.FULL else '16M')
    stats = [end['stats'] for end in (result.sent, result.received)]
    refused = sum(value for end in stats for name, value in end.items()
                  if name.startswith('drop_'))
    check(tried >= 10000, f'the relay tried nothing: {did}')
    check(refused >= tried / 3, f'{refused} of {tried} were refused')
    return f'{result}; {tried} attacks, {refused} refused'


def shorts():
    result, did, tried = attacked(800, '--shorts', 3000)
    check(result.received['wrong'] == 0, 'a short is wrong')
    check(result.received['shorts'] <= 3000, 'a short came twice')
    # What the relay drops, alters or sends too late is lost.
    check(result.received['shorts'] >= 2000, f'{result.received["shorts"]} of 3000 arrived: {did}')
    return f'{result.received["shorts"]} of 3000 shorts, {tried} attacks'


def files():
    """Two commands of README.md, and one variable."""
    with netlab.Lab() as lab:
        a, b = lab.host('a'), lab.host('b')
        relay = lab.relay(a, b, netlab.program('relay'))
        with keys(a) as ours, tempfile.TemporaryDirectory(prefix='ripc-files-') as top:
            with open(os.path.join(top, 'file'), 'wb') as stream:
                stream.write(os.urandom(1 << 20))
            server = a.start(built('examples', 'fileserver'), top, '--name', 'sealed',
                             RIPC_KEYS=ours)
            server.line('fileserver: serving')
            client = b.start(built('examples', 'fileget'), '--quiet', '--name', 'sealed', 'file',
                             '-o', os.path.join(top, 'copy'), RIPC_KEYS=ours)
            check(client.popen.wait() == 0, client.popen.stdout.read())
            with open(os.path.join(top, 'file'), 'rb') as was, \
                    open(os.path.join(top, 'copy'), 'rb') as came:
                check(was.read() == came.read(), 'the copy is another one')
        did = relay.end()
    check(did['open'] == 0 and did['sealed'] > 700, f'not sealed: {did}')
    return f'{did["sealed"]} sealed datagrams'


def without_keys():
    """Who has none is told so, finds nobody, and sends nothing to who has."""
    with netlab.Lab() as lab:
        a, b = lab.host('a'), lab.host('b')
        relay = lab.relay(a, b, netlab.program('relay'))
        with keys(a) as ours:
            serve(b, RIPC_KEYS=ours)
            client = a.start(built('tools', 'ripc'), 'ping', SERVICE, '-c', 1, '--timeout', 5000)
            said = client.popen.stdout.read()
            check(client.popen.wait() == 1 and 'RIPC_KEYS' in said, said)
        did = relay.end()
    check(did['open'] == 0, f'packets went in the open: {did}')


if __name__ == '__main__':
    netlab.main([longs, shorts, files, without_keys])
