# SPDX-License-Identifier: BSD-3-Clause
"""A partner on another host is killed; or somebody only says so."""
import signal
import socket
import struct
import time

import netlab
from netlab import check
from xfer import serve, send


def sender(lab):
    a, b = lab.host('a'), lab.host('b')
    lab.link(a, b, ipv6=False)
    server = serve(b, RIPC_BACKENDS='udp')
    client = send(a, 100, '--on-line', '--timeout-ms', 20000, RIPC_BACKENDS='udp')
    client.line('found')
    return a, b, server, client


def message(client):
    client.popen.stdin.write('\n')
    client.popen.stdin.flush()
    return client.json()


def killed():
    """The next message ends by the hint and three questions, long before peer_timeout_ms."""
    with netlab.Lab() as lab:
        _, _, server, client = sender(lab)
        check(message(client)['outcome'] == 2, 'the first was not delivered')
        server.stop()
        began = time.monotonic()
        said = message(client)
        took = time.monotonic() - began
        check(said['outcome'] != 2, f'delivered to the dead: {said}')
        check(took < 8, f'ended after {took:.1f} s: by silence, not by the hint')
        return f'ended after {1000 * took:.0f} ms'


def checksum(data):
    total = sum(struct.unpack(f'!{len(data) // 2}H', data))
    return ~((total >> 16) + (total & 0xffff) + ((total >> 16) + (total & 0xffff) >> 16)) & 0xffff


def ports(host):
    lines = [line for family in ('udp', 'udp6')
             for line in host.run('cat', f'/proc/net/{family}').split('\n')[1:] if line]
    return {int(line.split()[1].split(':')[1], 16) for line in lines}


def told(host):
    """How often the host was told that a destination is unreachable."""
    names, values = [line.split() for line in host.run('cat', '/proc/net/snmp').split('\n')
                     if line.startswith('Icmp:')]
    return int(values[names.index('InDestUnreachs')])


def forged():
    """Port unreachable for each pair of ports of the two, again and again, also while the partner
    is stopped for longer than one that has ended is asked: nothing ends."""
    with netlab.Lab() as lab:
        a, b, server, client = sender(lab)
        pairs = [(p, q) for p in ports(a) for q in ports(b)]
        check(pairs, 'no ports')
        there, here = (socket.inet_aton(host.addresses[4]) for host in (b, a))
        # What is quoted is of a pair that is not known here; a wrong token of a known one is in
        # hint__quotes_a_packet_to_the_partner.
        script = ['import socket', 's = socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)']
        for p, q in pairs:
            inner = struct.pack('!BBHHHBBH4s4sHHHH', 0x45, 0, 128, 1, 0, 64, 17, 0, here, there,
                                p, q, 108, 0)
            inner += struct.pack('<BBHIQQQQ', 2, 1, 0, 0, 1, 2, 3, 4)
            body = struct.pack('!BBHI', 3, 3, 0, 0) + inner
            body = body[:2] + struct.pack('!H', checksum(body)) + body[4:]
            script.append(f's.sendto({body!r}, ({a.addresses[4]!r}, 0))')
        for _ in range(20):
            b.run('python3', '-c', '\n'.join(script))
            check(message(client)['outcome'] == 2, 'not delivered')
        before = told(a)
        server.popen.send_signal(signal.SIGSTOP)
        client.popen.stdin.write('\n')
        client.popen.stdin.flush()
        for _ in range(4):
            time.sleep(0.2)
            b.run('python3', '-c', '\n'.join(script))
        check(told(a) > before, 'none arrived while the partner was stopped')
        server.popen.send_signal(signal.SIGCONT)
        check(client.json()['outcome'] == 2, 'not delivered by one that was stopped')
        n = told(a)
        check(n >= 20, f'{n} of the forged ones arrived')
        return f'{n} forged, nothing ended'


if __name__ == '__main__':
    netlab.main([killed, forged])
