# SPDX-License-Identifier: BSD-3-Clause
"""Groups on one host and on many, on a bad network, while members die or are stopped."""
import os
import signal
import statistics
import time

import netlab
from netlab import check

NAME = 'news'
NEAR, FAR = 20, 8   # members on the sender's host; on hosts of their own
BEHIND = 3          # members behind a network that loses packets
PATIENCE_MS = 2000  # after which a silent member is given up
BYTES = 10_000_000


def member(host, **env):
    process = host.start(netlab.program('group'), 'join', NAME, **env)
    process.line('ready')
    return process


def sender(host, *arguments, **env):
    return host.start(netlab.program('group'), 'send', NAME, *arguments, **env)


def send_long(process):
    """Lets one long message go; returns what its sender was told."""
    process.popen.stdin.write('go\n')
    process.popen.stdin.flush()
    return process.json()


def check_told(told, members):
    """The messages received by the members match the sender's results."""
    heard = [process.end() for process in members]
    check(all(entry['twice'] == 0 and entry['foreign'] == 0 for entry in heard), f'twice: {heard}')
    least = sum(entry['delivered'] for entry in told)
    most = least + sum(entry['unknown'] for entry in told)
    came = sum(entry['longs'] for entry in heard)
    check(least <= came <= most, f'told {least} to {most}, came {came}')
    return heard


def wide():
    """Members on the sender's host, and one on each of many others."""
    with netlab.Lab() as lab:
        switch, hub = lab.bridge(), lab.host('hub')
        others = [lab.host(f'h{number}') for number in range(FAR)]
        for end, host in enumerate([hub, *others], 1):
            lab.attach(host, switch, end)
        members = [member(hub) for _ in range(NEAR)] + [member(host) for host in others]
        client = sender(hub, '--members', NEAR + FAR, '--shorts', 200, '--longs', 3,
                        '--bytes', BYTES, '--timeout', 60000)
        found = client.json()
        check(found['found'] == NEAR + FAR, f'not all were found: {found}')
        shorts = client.json()
        check(shorts['refused'] == 0, f'{shorts}')
        told = [send_long(client) for _ in range(3)]
        check(all(entry['delivered'] == NEAR + FAR and entry['status'] == 0 for entry in told),
              f'{told}')
        heard = check_told(told, members)
        client.end()
        came = sum(entry['shorts'] for entry in heard)
        check(came > 200 * (NEAR + FAR) * 9 // 10, f'of {200 * (NEAR + FAR)} shorts came {came}')
        return (f'{NEAR + FAR} members found in {found["found_ms"]} ms; 10 MB to all in '
                f'{told[-1]["ms"]} ms; {came} of {200 * (NEAR + FAR)} shorts')


def lossy():
    """Over a network that loses one packet in twenty each way."""
    with netlab.Lab() as lab:
        a, b = lab.host('a'), lab.host('b')
        relay = lab.relay(a, b, netlab.program('relay'), '--seed', 1, '--drop-ppm', 50000,
                          '--duplicate-ppm', 50000, '--reorder-ppm', 50000)
        members = [member(b) for _ in range(4)]
        client = sender(a, '--members', 4, '--shorts', 1000, '--longs', 3, '--bytes', 200000,
                        '--timeout', 60000)
        found = client.json()
        check(found['found'] == 4, f'not all were found: {found}')
        client.json()
        told = [send_long(client) for _ in range(3)]
        check(all(entry['delivered'] == 4 for entry in told), f'{told}')
        heard = check_told(told, members)
        client.end()
        came = sum(entry['shorts'] for entry in heard)
        check(2800 < came < 4000, f'of 4000 shorts came {came}')
        return f'{came} of 4000 shorts, none twice; found in {found["found_ms"]} ms; {relay.end()}'


def by_unicast():
    """Where no multicast passes: a host names a few of its members to each query."""
    with netlab.Lab() as lab:
        a, b = lab.host('a'), lab.host('b')
        lab.link(a, b)
        members = [member(b) for _ in range(6)]
        client = sender(a, '--members', 6, '--longs', 1, '--timeout', 60000,
                        RIPC_PEERS=b.addresses[4],
                        RIPC_OPTIONS='resolver.sources=local;static')
        found = client.json()
        check(found['found'] == 6, f'not all were found: {found}')
        told = [send_long(client)]
        check_told(told, members)
        client.end()
        return f'6 members of one host found in {found["found_ms"]} ms'


def joined_ms(host, times):
    """Some join, one after the other: the time until each of them gets a message."""
    found = []
    for _ in range(times):
        process = member(host)
        found.append(process.json()['first_us'] / 1000)
        process.end()
        time.sleep(2)  # joining or leaving makes hosts query, and they have a bound for that
    return f'{statistics.median(found):.1f} ms (most {max(found):.0f})'


def joiners():
    """A new member is seen soon, also where packets get lost both ways."""
    times = 50 if netlab.FULL else 3
    with netlab.Lab() as lab:
        switch, hub, other = lab.bridge(), lab.host('hub'), lab.host('other')
        ends = [(host, lab.attach(host, switch, end)[0])
                for end, host in enumerate((hub, other), 1)]
        first = member(hub)
        client = sender(hub, '--members', 1, '--shorts', 1_000_000_000)
        client.json()
        near, far = joined_ms(hub, times), joined_ms(other, times)
        for host, device in ends:
            host.lose(device, 20)
        lossy = joined_ms(other, times)
        client.stop()
        first.end()
        return f'{near} after it joined on this host, {far} elsewhere, {lossy} with 20 % loss'


def others_get_all(told, members):
    """The messages received by the living, but for the messages that the killed one had before."""
    heard = [process.end() for process in members]
    check(all(entry['twice'] == 0 for entry in heard), f'twice: {heard}')
    least = sum(entry['delivered'] for entry in told) - 3
    most = sum(entry['delivered'] + entry['unknown'] for entry in told)
    came = sum(entry['longs'] for entry in heard)
    check(least <= came <= most, f'told {least} to {most}, came {came}')


def died_and_stopped():
    """One member is killed and one is stopped between two messages: neither is waited for long."""
    with netlab.Lab() as lab:
        hub = lab.host('hub')
        members = [member(hub) for _ in range(NEAR)]
        client = sender(hub, '--members', NEAR, '--longs', 100, '--bytes', BYTES, '--leave-slow',
                        '--timeout', 60000)
        check(client.json()['found'] == NEAR, 'not all were found')
        told = [send_long(client) for _ in range(3)]
        os.kill(members[0].popen.pid, signal.SIGKILL)
        os.kill(members[1].popen.pid, signal.SIGSTOP)
        during = [send_long(client) for _ in range(3)]
        check(all(entry['ms'] < 30000 for entry in during), f'waited for: {during}')
        os.kill(members[1].popen.pid, signal.SIGCONT)
        told += during
        while told[-1]['status'] != 0 and len(told) < 100:
            told.append(send_long(client))
        check(told[-1]['delivered'] == NEAR - 1, f'not all are back: {told}')
        members[0].stop()
        others_get_all(told, members[1:])
        client.end()
        return (f'10 MB to {NEAR} in {told[2]["ms"]} ms; beside a dead and a stopped one a send '
                f'ends after {[entry["ms"] for entry in during]} ms')


def took_ms(heard, first, last):
    """The fastest time of these messages to a member in the middle."""
    return statistics.median(min(entry['took_us'][first:last]) for entry in heard) / 1e3


def send_after_rest(client):
    """All sleep before each message, so that what they need for it can be compared."""
    time.sleep(0.2)
    return send_long(client)


def behind_loss():
    """Most members are here, and some behind a network that loses a tenth, while others fail."""
    with netlab.Lab() as lab:
        a, b = lab.host('a'), lab.host('b')
        lab.relay(a, b, netlab.program('relay'), '--seed', 1, '--drop-ppm', 100000)
        near, far = [member(a) for _ in range(NEAR)], [member(b) for _ in range(BEHIND)]
        client = sender(a, '--members', NEAR + BEHIND, '--longs', 100, '--bytes', BYTES,
                        '--timeout', 60000, '--patience', PATIENCE_MS)
        check(client.json()['found'] == NEAR + BEHIND, 'not all were found')
        told = [send_after_rest(client) for _ in range(3)]
        check(all(entry['delivered'] == NEAR + BEHIND and entry['status'] == 0
                  for entry in told), f'{told}')
        stopped, killed = near[1], [near[0], far[0]]
        for process in killed:
            process.popen.kill()
        os.kill(stopped.popen.pid, signal.SIGSTOP)
        told += [send_after_rest(client) for _ in range(2)]
        for entry in told[3:]:
            failed = entry['not_delivered'] + entry['unknown']
            check(entry['delivered'] == NEAR + BEHIND - 3 and 1 <= failed <= 3, f'{told}')
        os.kill(stopped.popen.pid, signal.SIGCONT)
        while told[-1]['status'] != 0 and len(told) < 100:
            told.append(send_long(client))
        check(told[-1]['delivered'] == NEAR + BEHIND - 2, f'not all are back: {told}')
        client.end()
        well, beyond = ([process.end() for process in group if process not in (stopped, *killed)]
                        for group in (near, far))
        heard = [stopped.end(), *well, *beyond]
        check(all(entry['twice'] == 0 for entry in heard), f'twice: {heard}')
        check(all(entry['longs'] == len(told) for entry in well + beyond), f'{told}: {heard}')
        came = sum(entry['longs'] for entry in heard) + 3 * len(killed)
        least = sum(entry['delivered'] for entry in told)
        check(least <= came <= least + sum(entry['unknown'] for entry in told),
              f'{told}: came {came}')
        return (f'10 MB come to one of {NEAR} after {took_ms(well, 1, 3):.1f} ms, to one of '
                f'{BEHIND} behind 10 % loss after {took_ms(beyond, 1, 3):.0f} ms; beside two dead '
                f'and a stopped one after {took_ms(well, 3, 5):.1f} and '
                f'{took_ms(beyond, 3, 5):.0f} ms')


if __name__ == '__main__':
    netlab.main([wide, lossy, by_unicast, joiners, died_and_stopped, behind_loss])
