# SPDX-License-Identifier: BSD-3-Clause
"""Partners on other hosts are killed; or somebody only says so."""
import signal
import socket
import statistics
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
    """The next message ends by the hint and the ECHOs after it, long before peer_timeout_ms."""
    with netlab.Lab() as lab:
        _, _, server, client = sender(lab)
        check(message(client)['outcome'] == 2, 'the first message was not delivered')
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
        # The quoted packet is of a pair that is not known here; a wrong token of a known one is in
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


PERIOD_S = 1 / 3   # between two deaths
OTHER_USER = 64001
NO_ICMP = 'icmp type destination-unreachable'
NO_ICMP6 = 'icmpv6 type destination-unreachable'
# A notice comes after 1.5 s at most. By silence, or by ICMP once a second, it takes up to 10 s; a
# machine that is busy with other tests is given the rest.
MOST_S = 5


def lives(host, *arguments, before=(), **env):
    return host.start(*before, netlab.program('lives'), *arguments, RIPC_BACKENDS='udp', **env)


def hold(host, contexts=1, services=1, **options):
    """A process that holds private IDs; returns it and the IDs."""
    process, ids = lives(host, 'hold', contexts, services, **options), []
    while (line := process.line()) != 'ready':
        ids.append(line)
    return process, ids


def watch(host, ids):
    process = lives(host, 'watch')
    process.popen.stdin.write('\n'.join(ids) + '\n\n')
    process.popen.stdin.flush()
    process.line('there')
    return process


def kill_each(watcher, holders, period_s=PERIOD_S):
    """Kills one holder after the other. Returns how long each notice took, sorted."""
    killed_at = {}
    for process, ids in holders:
        process.popen.kill()
        killed_at.update({name: time.monotonic() for name in ids})
        time.sleep(period_s)
    took = []
    for _ in range(len(killed_at)):
        said = watcher.json()
        check(said['gone'] in killed_at, f'{said["gone"]} was not killed')
        took.append(said['at_us'] / 1e6 - killed_at.pop(said['gone']))
    return sorted(took)


def figures(took):
    return f'median {statistics.median(took):.2f} s, most {took[-1]:.2f} s'


def many_deaths(drop, six=False):
    """20 of 21 processes of a host die, three a second."""
    with netlab.Lab() as lab:
        a, b = lab.host('a'), lab.host('b')
        device, _ = lab.link(a, b, ipv4=not six, ipv6=six)
        if drop:
            a.drop(device, drop)
        holders = [hold(b) for _ in range(21)]
        watcher = watch(a, [name for _, ids in holders for name in ids])
        took = kill_each(watcher, holders[:20])
        check(took[-1] < MOST_S, f'{figures(took)}: by silence')
        return figures(took)


def icmp_limited():
    return many_deaths(None)


def icmp_dropped():
    return many_deaths(NO_ICMP)


def icmp_dropped_ipv6():
    """The host of a silent partner is asked over IPv6."""
    return many_deaths(NO_ICMP6, True)


def stopped_of_another_user():
    """No process of its host can see the name of one that is stopped: nothing is said of it."""
    with netlab.Lab() as lab:
        a, b = lab.host('a'), lab.host('b')
        lab.link(a, b, ipv6=False)
        probe = b.start('setpriv', '--reuid', OTHER_USER, 'test', '-x', netlab.program('lives'))
        if probe.popen.wait() != 0:
            return 'skipped: other users cannot run what was built here'
        stopped, ids = hold(b, before=('setpriv', '--reuid', OTHER_USER))
        others = [hold(b) for _ in range(3)]
        watcher = watch(a, ids + others[0][1])
        stopped.popen.send_signal(signal.SIGSTOP)
        time.sleep(4)
        others[0][0].popen.kill()
        check(watcher.json()['gone'] in others[0][1], 'the stopped one is said to be gone')
        stopped.popen.send_signal(signal.SIGCONT)
        stopped.popen.kill()
        check(watcher.json()['gone'] in ids, 'not told')


def watched_services():
    """1,000 services on 4 hosts are watched, and 20 processes die; a quarter of all without --full.

    In processes of 25 contexts with two services each, so that there are 500 contexts.
    """
    per_host = 5 if netlab.FULL else 2
    with netlab.Lab() as lab:
        switch, a = lab.bridge(), lab.host('a')
        device, _ = lab.attach(a, switch, 1)
        hosts = [lab.host(f'b{i}') for i in range(4)]
        for i, host in enumerate(hosts):
            lab.attach(host, switch, 2 + i)
        a.drop(device, NO_ICMP)
        holders = [hold(host, 25, 2) for host in hosts for _ in range(per_host)]
        holders += [hold(host) for host in hosts for _ in range(5)]
        watcher = watch(a, [name for _, ids in holders for name in ids])
        before, cpu, began = traffic(a, device), cpu_us(watcher), time.monotonic()
        time.sleep(10)
        passed = time.monotonic() - began
        sent, received = (round((now - then) / passed / 1000) for now, then in
                          zip(traffic(a, device), before))
        share = (cpu_us(watcher) - cpu) / passed / 1e4
        took = kill_each(watcher, holders[4 * per_host:])
        check(took[-1] < MOST_S, f'{figures(took)}: by silence')
        took_all = kill_each(watcher, holders[:1])
        check(took_all[-1] < MOST_S, f'{figures(took_all)}: by silence')
        return (f'{len(holders)} processes: {figures(took)}; 50 services at once: '
                f'{figures(took_all)}; at rest {sent} kB/s out, {received} kB/s in, '
                f'{share:.1f} % of a processor')


def traffic(host, device):
    return [int(host.run('cat', f'/sys/class/net/{device}/statistics/{way}_bytes'))
            for way in ('tx', 'rx')]


def cpu_us(process):
    return netlab.processor_us(netlab.descendants(process.popen.pid))


if __name__ == '__main__':
    netlab.main([killed, forged, icmp_limited, icmp_dropped, icmp_dropped_ipv6,
                 stopped_of_another_user, watched_services])
