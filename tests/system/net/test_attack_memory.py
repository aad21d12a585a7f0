# SPDX-License-Identifier: BSD-3-Clause
"""Attacks on what all share: credit, memory, and the time of a program."""
import os
import re
import time

import netlab
from forger import CLIENT, OTHER, SERVICE, Context, Figures, Forger, Honest, draw, draw_id, flood, main, \
    sink, three
from netlab import check

MIB = 1 << 20


def forge_dead(victim, service, count):
    """Announces messages, from a context each, of which nothing ever comes."""
    contexts = []
    for _ in range(int(count)):
        context = Context()
        context.find(victim, int(service))
        contexts.append((context, context.announce(1, 50 * MIB, b'f' * 300)))
    flood([context for context, _ in contexts], contexts[:1] + contexts, 1000)


def dead_announcements():
    """Four announcements of which nothing comes do not keep others from being granted."""
    with netlab.Lab() as lab:
        a, b, c = three(lab)
        Honest(b, SERVICE), Honest(b, OTHER)
        client, figures = Honest(a, CLIENT), Figures()
        client.send(SERVICE, MIB), client.send(OTHER, MIB)
        forger = Forger(c, 'forge_dead', b.addresses[4], SERVICE, 4).ready()
        forger.tell('real')
        time.sleep(0.05)
        for _ in range(8 if netlab.FULL else 3):
            figures.without.append(client.send(OTHER, MIB, 400))
            figures.under.append(client.send(SERVICE, MIB, 400))
        said = forger.tell('end')
        check(said['n'] == 4, f'no attack: {said}')
        figures.check()
        return f'{said["sent"]} bytes in; 1 MiB longs: {figures}'


def forge_announcements(victim, service):
    """2,048 announcements of 128 KiB each."""
    contexts = [Context() for _ in range(32)]
    for context in contexts:
        context.find(victim, int(service))
        context.send(context.announce(1, 8, b'forged!!'))
    packets = [(context, context.announce(number, 128 << 10, unasked=0))
               for number in range(2, 66) for context in contexts]
    flood(contexts, packets[:1] + packets, 2000)


def announced_memory():
    """A message that is only announced takes no memory, and is no burden to others."""
    with netlab.Lab() as lab:
        a, b, c = three(lab)
        victim, _, _ = Honest(b, SERVICE), Honest(b, OTHER), sink(b)
        client, figures = Honest(a, CLIENT), Figures()
        client.send(SERVICE, MIB, 100), client.send(OTHER, MIB)
        forger = Forger(c, 'forge_announcements', b.addresses[4], SERVICE).ready()
        before, most = victim.resident(), 0
        for _ in range(20 if netlab.FULL else 8):
            said = figures.windows(client, forger, MIB, 1)
            most = max(most, victim.resident() - before)
        check(said['n'] > 1000, f'no attack: {said}')
        check(most <= 32 * MIB, f'{most >> 20} MiB of memory for {said["n"]} announcements')
        figures.check()
        return f'{said["n"]} packets, {most >> 20} MiB; 1 MiB longs: {figures}'


# ---- S9: a program whose client takes no answer ---------------------------------------------

def forge_queries(victim, service):
    """Asks from ever new services, each of which takes no answer."""
    context = Context()
    context.find(victim, int(service))

    def packets():
        while True:
            yield context, context.announce(1, 50, b'f' * 50, src=draw(), hello=context.hello(
                service=draw_id(), token=draw()))
    flood([context], packets(), 50)


def no_answer_taken():
    """pingpong serves others though some take no answer."""
    with netlab.Lab() as lab:
        a, b, c = three(lab)
        pingpong = os.path.join(netlab.PROGRAMS, '..', '..', '..', 'examples', 'pingpong')
        b.start(pingpong, '--serve', '--id', SERVICE).line('pingpong: serving')
        forger = Forger(c, 'forge_queries', b.addresses[4], SERVICE).ready()
        said = {}
        for aim in ('rest', 'real'):
            forger.tell(aim)
            time.sleep(0.2)
            client = a.start(pingpong, '--id', SERVICE, '--long', '--sizes', 50, '--count', 500)
            text = client.popen.communicate()[0]
            row = re.search(r'^long +50 +([\d.]+) +([\d.]+) +(\d+)$', text, re.M)
            check(row and row[3] == '0', f'{forger.tell("rest")["n"]} queries; pingpong: {text}')
            said[aim] = f'median {row[1]}, p99 {row[2]} us'
        sent = forger.tell('rest')['n']
        check(sent > 0, 'no attack')
        return f'without: {said["rest"]}; with {sent} queries: {said["real"]}'


ATTACKS = {name: value for name, value in list(globals().items()) if name.startswith('forge_')}
if __name__ == '__main__':
    main([dead_announcements, announced_memory, no_answer_taken], ATTACKS)
