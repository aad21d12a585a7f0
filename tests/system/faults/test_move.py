# SPDX-License-Identifier: BSD-3-Clause
"""A service moves between two hosts under a stream of numbered messages.

It drains and closes at the one and opens at the other. No number arrives twice, none that was
reported as delivered is missing, and the stream stands still for at most two seconds: each time
when the big counts are asked for, else half of the times.
"""
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '../net'))
import netlab
from netlab import check

SERVICE = 4711
GAP_MS = 2000       # half of the moves take no longer: the machine may be busy with other things
GAP_MOST_MS = 12000
KEYS = os.environ.get('RIPC_KEYS')  # of the programs; without: open


class Stream:
    """The sender's report of each message."""

    def __init__(self, lines):
        said = [line.split(' ')[1:] for line in lines if line.startswith('sent ')]
        self.status = {int(number): int(status) for number, status, _, _ in said}
        self.delivered_ms = [int(ms) for _, status, _, ms in said if status == '0']

    def gaps_ms(self, moves):
        """The longest, of as many as there were moves."""
        gaps = (b - a for a, b in zip(self.delivered_ms, self.delivered_ms[1:]))
        return sorted(gaps, reverse=True)[:moves]


def tell(process, word, answer):
    try:
        process.popen.stdin.write(word + '\n')
        process.popen.stdin.flush()
    except BrokenPipeError:
        pass  # the process has ended, and line() reports how
    process.line(answer)


def judge(stream, places, moves):
    numbers = [int(line.split(' ')[1]) for place in places for line in place.lines
               if line.startswith('got ')]
    check(len(numbers) == len(set(numbers)), 'a number was received twice')
    received = set(numbers)
    missing = [n for n, status in stream.status.items() if status == 0 and n not in received]
    check(not missing, f'reported as delivered, but received by nobody: {missing[:5]}')
    unknown = sum(1 for status in stream.status.values() if status != 0)
    gaps = stream.gaps_ms(moves)
    most = GAP_MS if netlab.FULL else GAP_MOST_MS
    check(gaps[len(gaps) // 2] <= GAP_MS and gaps[0] <= most,
          f'the stream stood still for {gaps} ms')
    return f'{len(stream.status)} sends, {unknown} not reported as delivered, ' \
           f'longest gap {gaps[0]} ms'


def start(host, *arguments):
    return host.start(os.path.join(netlab.PROGRAMS, 'faults-move'), *arguments, RIPC_KEYS=KEYS)


def moves(lab, hosts, times):
    """The last host sends; the service goes to and fro between the others."""
    places = [start(host, 'place', SERVICE) for host in hosts[:2]]
    for place in places:
        place.line('ready')
    tell(places[0], 'enter', 'entered')
    sender = start(hosts[2], 'send', SERVICE)
    sender.line('ready')
    for i in range(times):
        time.sleep(1)
        tell(places[i % 2], 'leave', 'left')
        tell(places[(i + 1) % 2], 'enter', 'entered')
    time.sleep(1)
    sender.end()
    tell(places[times % 2], 'leave', 'left')
    for place in places:
        place.end()
    return judge(Stream(sender.lines), places, times)


def between_hosts():
    with netlab.Lab() as lab:
        switch = lab.bridge()
        hosts = [lab.host(label) for label in 'pqs']
        for end, host in enumerate(hosts, 1):
            lab.attach(host, switch, end)
        return moves(lab, hosts, 20 if netlab.FULL else 4)


def to_and_from_the_senders_own_host():
    with netlab.Lab() as lab:
        a, b = lab.host('a'), lab.host('b')
        lab.link(a, b)
        return moves(lab, [a, b, a], 20 if netlab.FULL else 4)


def between_processes_of_one_host():
    with netlab.Lab() as lab:
        host = lab.host('h')
        return moves(lab, [host, host, host], 20 if netlab.FULL else 4)


def with_a_lost_tenth():
    with netlab.Lab() as lab:
        switch = lab.bridge()
        hosts = [lab.host(label) for label in 'pqs']
        for end, host in enumerate(hosts, 1):
            device, _ = lab.attach(host, switch, end, segment=True)
            host.lose(device, 10)
        return moves(lab, hosts, 10 if netlab.FULL else 3)


netlab.main([between_hosts, to_and_from_the_senders_own_host, between_processes_of_one_host,
             with_a_lost_tenth], 'nft', 'ethtool')
