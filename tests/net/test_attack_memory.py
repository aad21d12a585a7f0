# SPDX-License-Identifier: BSD-3-Clause
"""Attacks on what all share: credit and memory."""
import time

import netlab
from forger import CLIENT, OTHER, SERVICE, Context, Figures, Forger, Honest, flood, main, sink, three
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


ATTACKS = {name: value for name, value in list(globals().items()) if name.startswith('forge_')}
if __name__ == '__main__':
    main([dead_announcements], ATTACKS)
