# SPDX-License-Identifier: BSD-3-Clause
"""Attacks on how services find each other, by a host with an address of its own."""
import os
import socket
import struct
import subprocess
import sys
import time

import netlab
from netlab import check
from xfer import SERVICE, finish, send, serve

PORT, GROUP, GROUP6 = 15511, '239.255.76.82', 'ff15::f269:7063'
QUERY, RECORD = 32, 33
QUERY_LEN = 1100
SECONDS = 3
TABLE = []


def crc32c(data):
    if not TABLE:
        for byte in range(256):
            for _ in range(8):
                byte = byte >> 1 ^ (0x82f63b78 if byte & 1 else 0)
            TABLE.append(byte)
    crc = 0xffffffff
    for byte in data:
        crc = crc >> 8 ^ TABLE[(crc ^ byte) & 0xff]
    return crc ^ 0xffffffff


def packet(kind, nonce, asker, service, more=b''):
    """A resolver packet by docs/protocol.md."""
    rest = struct.pack('<QQQ16sQ', nonce, asker, 0, bytes(16), service) + more
    head = struct.pack('<BBBB', 2, kind, 0, 0)
    return head + struct.pack('<I', crc32c(head + bytes(4) + rest)) + rest


def query(service):
    length = 56
    return packet(QUERY, int.from_bytes(os.urandom(8), 'little') | 1, 4711, service,
                  bytes(QUERY_LEN - length))


def notice(service):
    """An older registration of a service, of which nobody has heard."""
    random = int.from_bytes(os.urandom(6), 'little')
    return packet(RECORD, 0, random, service,
                  struct.pack('<QQQQBBB4s', random | 1, 1000, 1, random, 1, 1, 4, b'\1\0\1\1'))


def udp_to(address):
    return socket.socket(socket.AF_INET6 if ':' in address else socket.AF_INET, socket.SOCK_DGRAM)


def forge(what, to, *arguments):
    """In a host's namespace: sends, counts what comes back. Says so as JSON."""
    if what == 'notices':
        ids = [SERVICE + i for i in range(16)]
        packets = [notice(ids[i % 16]) for i in range(300)]
    elif what == 'queries':
        packets = [query(0) for _ in range(600)]
    else:
        return names(*arguments)
    sock = udp_to(to)
    sock.setblocking(False)
    sent, got, n_got = 0, 0, 0
    end = time.monotonic() + SECONDS
    for number, data in enumerate(packets):
        sent += sock.sendto(data, (to, PORT))
        time.sleep(max(0, end - time.monotonic()) / (len(packets) - number))
        try:
            while True:
                got += len(sock.recv(2000))
                n_got += 1
        except BlockingIOError:
            pass
    print(f'{{"sent": {sent}, "got": {got}, "answers": {n_got}}}', flush=True)
    return 0


def names(service):
    """Binds all names of root's service that can be foreseen, as another user."""
    os.setuid(12345)
    socks = []
    for number in range(8):
        socks.append(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
        socks[-1].bind(f'\0ripc/0/{int(service):016x}/{number:x}')
    print('bound', flush=True)
    sys.stdin.read()
    return 0


def forger(host, *arguments):
    return host.start(sys.executable, os.path.abspath(__file__), '--forge', *arguments)


def count_multicast(host):
    host.nft('add table inet lab\n'
             'add counter inet lab out\n'
             'add chain inet lab count { type filter hook output priority 0; }\n'
             f'add rule inet lab count ip daddr {GROUP} counter name "out"\n'
             f'add rule inet lab count ip6 daddr {GROUP6} counter name "out"\n')


def multicast_bytes(host):
    said = host.run('nft', 'list', 'counter', 'inet', 'lab', 'out').split()
    return int(said[said.index('bytes') + 1])


def pair(lab, families=(4, 6)):
    a, b, c = lab.host('a'), lab.host('b'), lab.host('c')
    switch = lab.bridge()
    for end, host in enumerate((a, b, c), 1):
        lab.attach(host, switch, end, families=families)
    return a, b, c


def forged_notices(family=4, families=(4, 6)):
    """Notices of registrations that are none make a host ask the group little."""
    with netlab.Lab() as lab:
        a, b, c = pair(lab, families)
        ids = [part for i in range(1, 16) for part in ('--id', SERVICE + i)]
        server = serve(b, *ids)
        time.sleep(0.2)  # its own announcements
        count_multicast(b)
        said = forger(c, 'notices', b.addresses[family]).end()
        out = multicast_bytes(b)
        result = finish(send(a, '1M'), server)
        check(out > 0, 'no attack: nothing was asked')
        check(out <= 60000 * SECONDS, f'{out} bytes to the group in {SECONDS} s')
        check(out <= 1.5 * said['sent'], f'{out} bytes to the group for {said["sent"]}')
        return f'{said["sent"]} bytes in, {out} to the group; {result}'


def forged_notices_ipv4():
    return forged_notices(4, (4,))


def forged_notices_ipv6():
    """Over IPv6, to a host with both families, and to one without IPv4."""
    return forged_notices(6) + '; IPv6 alone: ' + forged_notices(6, (6,))


def asked_for_all(family=4):
    """A host that asks for all IDs gets no private ones, and less than half of a processor."""
    with netlab.Lab() as lab:
        _, b, c = pair(lab)
        server = serve(b)
        others = [b.start(netlab.program('xfer'), 'send', '--to', SERVICE, '--bytes', 1, '--on-line')
                  for _ in range(2)]
        for other in others:
            other.line('found')
        def used():
            with open(f'/proc/{server.popen.pid}/stat', encoding='ascii') as stat:
                return sum(int(field) for field in stat.read().split()[13:15])
        before = used()
        said = forger(c, 'queries', b.addresses[family]).end()
        share = (used() - before) / os.sysconf('SC_CLK_TCK') / SECONDS
        check(said['got'] <= 1.5 * said['sent'], f'{said}')
        listed = subprocess.run(['ip', 'netns', 'exec', c.name, sys.executable,
                                 os.path.abspath(__file__), '--listed', b.addresses[family]],
                                check=True, stdout=subprocess.PIPE, text=True).stdout.split()
        check(listed == [str(SERVICE)], f'told: {listed}')
        check(share < 0.5, f'{share:.2f} of a processor')
        return f'{said}, {100 * share:.0f} % of a processor'


def asked_for_all_ipv6():
    return asked_for_all(6)


def listed_ids(to):
    sock = udp_to(to)
    sock.settimeout(0.3)
    found = set()
    for _ in range(20):
        sock.sendto(query(0), (to, PORT))
        try:
            while True:
                data = sock.recv(2000)
                if data[1] == RECORD:
                    found.add(struct.unpack_from('<Q', data, 48)[0])
        except socket.timeout:
            pass
    print(' '.join(str(service) for service in found))
    return 0


def names_taken():
    """Another user who holds all eight names keeps nobody from registering, or from finding."""
    with netlab.Lab() as lab:
        host = lab.host('a')
        thief = forger(host, 'names', '-', SERVICE)
        thief.line('bound')
        server = serve(host)
        return finish(send(host, '1M'), server)


if __name__ == '__main__':
    if '--forge' in sys.argv:
        sys.exit(forge(*sys.argv[2:]))
    if '--listed' in sys.argv:
        sys.exit(listed_ids(sys.argv[2]))
    netlab.main([forged_notices, forged_notices_ipv4, forged_notices_ipv6, asked_for_all,
                 asked_for_all_ipv6, names_taken], 'nft')
