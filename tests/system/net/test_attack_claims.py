# SPDX-License-Identifier: BSD-3-Clause
"""Attacks on who is whom: claims, tokens, and places for partners."""
import copy
import itertools
import socket
import struct
import time
from types import SimpleNamespace

import netlab
from forger import CLIENT, OTHER, SERVICE, Context, Figures, Forger, Honest, amplification, draw, \
    draw_id, flood, main, order, p, say, sink, three
from netlab import check
from test_attack_finding import count_multicast, multicast_bytes


# ---- S1: the name of another ----------------------------------------------------------------

def claimant(victim, service, of, name):
    """A context that says what another one says of itself, and has proven its own address."""
    forged = Context()
    known = forged.find(of, int(name))
    forged.id, forged.src, forged.context = int(name), known.incarnation, known.context
    forged.find(victim, int(service))
    return forged


def forge_claim(victim, service, of, name):
    """Says hello in the name of another, takes all that comes, and says that it has it."""
    forged = claimant(victim, service, of, name)
    hello = forged.answered(forged.short(), p.HELLO_ONLY)
    token = hello.hello[0] if hello and hello.hello else 0
    say(ready=True)
    taken = 0
    while not order(False):
        got = forged.receive(0.02)
        if not got:
            continue
        token = got.hello[0] if got.hello else token
        if got.type == p.ANNOUNCE:
            taken += 1
            forged.send(forged.done(got.number, token))
    say(taken=taken)


def forge_beside(victim, service, of, name):
    """Says hello in the name of another again and again, with its incarnation or any other."""
    forged = claimant(victim, service, of, name)
    liars = [(forged.src, draw())] + [(draw(), draw()) for _ in range(7)]

    def packets():
        for number in range(1, 1 << 32):
            for src, token in liars:
                yield forged, forged.short(number, src=src, hello=forged.hello(token=token))
    flood([forged], packets(), 2000)


def forge_reflected(a_host, a_service, b_host, b_service):
    """Says hello to each of two in the other one's name, and gives each the token that the other one gave."""
    ends = [claimant(a_host, a_service, b_host, b_service), claimant(b_host, b_service, a_host, a_service)]
    tokens = [draw(), draw()]
    for _ in range(2):
        for end, forged in enumerate(ends):
            hello = forged.packet(p.HELLO_ONLY, hello=forged.hello(token=tokens[1 - end]))
            tokens[end] = forged.answered(hello, p.HELLO_ONLY).hello[0]
        for end, forged in enumerate(ends):
            forged.send(forged.packet(p.HELLO_ONLY, token=tokens[end], hello=forged.hello(token=tokens[1 - end])))
    say(ready=True)
    taken, number = 0, 0
    while not order(False):
        number += 1
        for forged, token in zip(ends, tokens):
            forged.send(forged.short(number, token=token))
            while (got := forged.receive(0.005)):
                if got.type == p.ANNOUNCE:
                    taken += 1
                    forged.send(forged.done(got.number, token))
                elif got.type == p.ECHO:
                    forged.send(forged.packet(p.ECHO_REPLY, 0, got.body, token=token))
    say(taken=taken, shorts=number)


def came_to(owners, told):
    """How many honest messages have come; what was told delivered may be counted a little later."""
    end = time.monotonic() + 20
    while (came := sum(owner.count()['honest'] for owner in owners)) < told and time.monotonic() < end:
        time.sleep(0.01)
    return came


def reflected_tokens(family=4, families=(4, 6)):
    """A peer that passes the token of one as its own to the other has no effect, either."""
    with netlab.Lab() as lab:
        a, b, c = three(lab, families)
        ends = [Honest(a, CLIENT), Honest(b, SERVICE)]
        forger = Forger(c, 'forge_reflected', a.addresses[family], CLIENT, b.addresses[family],
                        SERVICE, family=family).ready()
        wait = time.monotonic() + 20
        while min(end.count()['forged'] for end in ends) == 0 and time.monotonic() < wait:
            time.sleep(0.01)
        said = [end.send(to, 100, 300) for _ in range(3) for end, to in zip(ends, (SERVICE, CLIENT))]
        told = sum(each['n'] - each['failed'] for each in said)
        taken = forger.tell('end')['taken']
        came, counts = came_to(ends, told), [end.count() for end in ends]
        check(all(count['forged'] for count in counts), f'no attack: {counts}')
        check(taken == 0, f'{taken} messages went to who has only claimed an ID, {told} told delivered')
        check(told == came and not any(each['failed'] for each in said), f'{said}, {came} came')
        check(not any(count['forged_resolved'] for count in counts), f'forged, and told as resolved: {counts}')
        return f'{told} delivered, none to the forger'


def claimed_before(family=4, families=(4, 6)):
    """The first claimant of an identity gets no message to the owner."""
    with netlab.Lab() as lab:
        a, b, c = three(lab, families)
        names = range(CLIENT, CLIENT + (12 if netlab.FULL else 4))
        owners = [Honest(a, name) for name in names]
        victim = Honest(b, SERVICE)
        forgers = [Forger(c, 'forge_claim', b.addresses[family], SERVICE, a.addresses[family], name,
                          family=family).ready() for name in names]
        wait = time.monotonic() + 20
        while victim.count()['forged'] < len(names) and time.monotonic() < wait:
            time.sleep(0.01)
        told = sum(1 - victim.send(name)['failed'] for name in names)
        count, taken = victim.count(), sum(forger.tell('end')['taken'] for forger in forgers)
        came = came_to(owners, told)
        check(count['forged'] == len(names), f'no attack: {count}')
        check(taken == 0, f'{taken} of {len(names)} messages went to who has only claimed an ID')
        check(told == came == len(names), f'{told} told delivered, {came} came, of {len(names)}')
        check(count['forged_resolved'] == 0, f'forged, and told as resolved: {count}')
        return f'{told} of {len(names)} delivered, none to the forger'


def claimed_beside(family=4, families=(4, 6)):
    """Beside the true one no message in its name looks as if it were its."""
    with netlab.Lab() as lab:
        a, b, c = three(lab, families)
        victim, other, _ = Honest(b, SERVICE), Honest(b, OTHER), sink(b)
        client = Honest(a, CLIENT)
        client.send(SERVICE)
        victim.send(CLIENT)
        forger = Forger(c, 'forge_beside', b.addresses[family], SERVICE, a.addresses[family], CLIENT,
                        family=family).ready()
        figures = Figures()
        said = figures.windows(client, forger)
        came, told = client.count()['honest'], victim.send(CLIENT, 100, 200)
        count = victim.count()
        check(count['forged'] > 0, f'no attack: {count}')
        check(count['forged_resolved'] == 0, f'forged, and told as resolved: {count}')
        came = came_to([client], came + told['n']) - came
        check(told['failed'] == 0 and came == told['n'], f'told delivered: {told}, came: {came}')
        check(other.count()['forged'] == 0, 'the wrong service was attacked')
        check(amplification(said) <= 1.5, f'{said}')
        figures.check()
        return f'{said["n"]} forged, {count["forged"]} told, none as resolved; {figures}'


# ---- S3: tokens -----------------------------------------------------------------------------

PLACES, IP_PKTINFO = 65536, 8
RIGHT_IN = 100         # one guess in so many is right
TOKENS, SLOT_BITS = 300, 8  # bits of a running number that vary as if they were drawn


def forge_tokens(victim, service):
    """How many bits of a token vary; then wrong ones from another address, and now and then a right one."""
    partner, guesser = Context(), Context()
    partner.find(victim, int(service))
    tokens = []
    for _ in range(TOKENS):
        partner.src, partner.token = draw(), draw()
        tokens.append(partner.answered(partner.short(1, b'hello'), p.HELLO_ONLY).hello[0])
    bits = sum(TOKENS / 4 <= sum(token >> bit & 1 for token in tokens) <= TOKENS * 3 / 4 for bit in range(64))
    guesser.to, guesser.victim = partner.to, partner.victim
    guesser.socket.close()
    guesser.socket = Context('10.99.200.30').socket
    wrong = [guesser.short(1, token=draw(), src=partner.src) for _ in range(RIGHT_IN - 1)]

    def packets():
        number = 1
        while True:
            yield from ((guesser, data) for data in wrong)
            number += 1
            yield guesser, guesser.short(number, token=tokens[-1], src=partner.src)
    flood([guesser], packets(), 30000, lambda: say(bits=bits))


def guessed_tokens():
    """A token has 48 random bits, and few of many guesses are looked at."""
    with netlab.Lab() as lab:
        a, b, c = three(lab)
        c.ip('address', 'add', '10.99.200.30/24', 'dev', next(iter(devices(c))))
        victim, _, _ = Honest(b, SERVICE), Honest(b, OTHER), sink(b)
        client = Honest(a, CLIENT)
        client.send(SERVICE)
        forger = Forger(c, 'forge_tokens', b.addresses[4], SERVICE).ready()
        figures, began = Figures(), time.monotonic()
        figures.windows(client, forger)
        said = forger.tell('end')
        bits = forger.process.json()['bits']
        wait, looked_at = time.monotonic() + 0.3, 0
        while time.monotonic() < wait:
            looked_at = victim.count()['forged'] * RIGHT_IN
        seconds = time.monotonic() - began
        bits -= SLOT_BITS
        check(said['n'] > 1000 and looked_at > 0, f'no attack: {said}, {looked_at} looked at')
        check(bits >= 48, f'{bits} bits of a token vary')
        check(looked_at <= 2000 * (1 + seconds), f'{looked_at} of {said["n"]} guesses were looked at')
        check(amplification(said) <= 1.5, f'{said}')
        figures.check()
        return f'{bits} bits vary; {said["n"]} guesses in {seconds:.1f} s, some {looked_at} looked at; {figures}'


# ---- S5: places -----------------------------------------------------------------------------

def forge_crowd(victim, service, *addresses):
    """Incarnations at each of some addresses, each with a message to remember."""
    contexts = [Context(address) for address in addresses]

    def claims(context, n):
        context.find(victim, int(service))  # for a proof that is not old yet
        return [(context, context.short(src=draw(), hello=context.hello(service=draw_id())))
                for _ in range(n)]
    packets = [claim for context in contexts[:3] for claim in claims(context, PLACES // 4)]
    later = (claim for context in contexts[3:] for claim in claims(context, PLACES // 64))
    flood(contexts, itertools.chain(packets, later), 20000)


def newcomers(hosts):
    """The incarnations that are heard, of one on each host, and how long that took."""
    clients = [Honest(host) for host in hosts]
    return [client.send(SERVICE) for client in clients]


def crowded(lab, n_addresses):
    a, b, c = three(lab)
    device, switch = next(iter(devices(c))), lab.hosts[3]
    addresses = [f'10.99.200.{100 + i}' for i in range(n_addresses)]
    for address in addresses:
        c.ip('address', 'add', f'{address}/24', 'dev', device)
    others = [lab.host('d') for _ in range(8)]
    for end, host in enumerate(others, 4):
        lab.attach(host, switch, end)
    victim, _, _ = Honest(b, SERVICE), Honest(b, OTHER), sink(b)
    client, figures = Honest(a, CLIENT), Figures()
    client.send(SERVICE), client.send(OTHER)
    forger = Forger(c, 'forge_crowd', b.addresses[4], SERVICE, *addresses).ready()
    count_multicast(b)
    before, said, began = -1, {'n': 0}, time.monotonic()
    while said['n'] > before:
        before = said['n']
        said = figures.windows(client, forger, n=1)
    out, seconds = multicast_bytes(b), time.monotonic() - began
    came = newcomers(others)
    refused = sum(each['failed'] for each in came)
    worst = max(each['max_us'] for each in came) / 1000
    count = victim.count()
    check(refused == 0, f'{refused} of {len(came)} newcomers were refused')
    check(count['forged'] > PLACES // 2, f'no attack: {count}')
    check(amplification(said) <= 1.5, f'{said}')
    check(out <= 60000 * (1 + seconds), f'{out} bytes to the group in {seconds:.1f} s')
    figures.check()
    return f'{said["n"]} claims, {count["forged"]} of them heard; {out} bytes to the group, {amplification(said):.2f} ' \
        f'times as much back; newcomers within {worst:.0f} ms; {figures}'


def crowd_of_three():
    """Three addresses that claim all they can refuse no newcomer, and no old partner waits."""
    with netlab.Lab() as lab:
        return crowded(lab, 3)


def crowd_of_twenty():
    """Twenty attackers do not, either."""
    with netlab.Lab() as lab:
        return crowded(lab, 20)


# ---- S9: what a claim costs -----------------------------------------------------------------

class From:
    """A socket's sending end at any address of its host."""

    def __init__(self, sock, address):
        self.sock, self.recv, self.setblocking = sock, sock.recv, sock.setblocking
        self.control = [(socket.IPPROTO_IP, IP_PKTINFO, struct.pack(
            '=I4s4s', 0, socket.inet_aton(address), bytes(4)))]

    def sendto(self, data, to):
        return self.sock.sendmsg([data], self.control, 0, to)


def proofs(first, contexts):
    """The tokens that RETRY gives to each incarnation of one socket: by the token of its hello."""
    by_token = {context.token: context for context in contexts}
    for at in range(0, len(contexts), 40):
        for context in contexts[at:at + 40]:
            context.socket.sendto(context.short(hello=context.hello(proof=0)), context.to)
        while (look := first.receive(0.01, p.RETRY)):
            by_token[look.token].victim = SimpleNamespace(
                **{**vars(first.victim), 'proof': look.value})
    return [context for context in contexts if context.victim is not first.victim]


def forge_addresses(victim, service, count, of_one):
    """Claims one incarnation, or each its own, from many addresses."""
    first, contexts = Context(), []
    first.find(victim, int(service))
    for number in range(int(count)):
        context = copy.copy(first)
        context.socket = From(first.socket, f'10.98.{number // 250}.{number % 250 + 1}')
        context.context, context.token = draw(), draw()
        context.src = first.src if int(of_one) else draw()
        context.id = first.id if int(of_one) else draw_id()
        contexts.append(context)
    contexts = proofs(first, contexts)
    packets = [(context, context.short()) for context in contexts]
    flood(contexts, packets[:1] + packets, 4000, lambda: say(proven=len(contexts)))


def send_all(forger):
    """The forger sends between two orders, as long as it has packets: returns when it has no more."""
    sent, said = -1, forger.tell('real')
    while said['n'] > sent:
        sent = said['n']
        time.sleep(0.3)
        said = forger.tell('real')


def claimed_from_everywhere():
    """One incarnation that is claimed from 4,000 addresses costs no more than 4,000 that are."""
    with netlab.Lab() as lab:
        a, b, c = three(lab)
        c.ip('route', 'add', 'local', '10.98.0.0/16', 'dev', 'lo')
        b.ip('route', 'add', '10.98.0.0/16', 'via', c.addresses[4])
        us = []
        for of_one in (0, 1):
            victim = Honest(b, SERVICE + of_one)
            forger = Forger(c, 'forge_addresses', b.addresses[4], SERVICE + of_one, 4000, of_one)
            forger.ready()
            before = victim.seconds()
            send_all(forger)
            said = forger.tell('end')
            time.sleep(0.1)
            proven = forger.process.json()['proven']
            check(proven > 3000 and said['n'] > 3000, f'no attack: {proven} proven, {said}')
            us.append((victim.seconds() - before) / said['n'] * 1e6)
        check(us[1] <= 40 or us[1] <= 3 * us[0], f'a claim costs {us[1]:.0f} us, another {us[0]:.0f}')
        return f'{proven} addresses; a claim costs {us[1]:.0f} us, and {us[0]:.0f} of an incarnation of its own'


def forge_bare(victim, service):
    """A packet without hello: does the proof in RETRY serve its sender?"""
    context = Context()
    context.find(victim, int(service))
    retry = context.answered(context.short(token=draw() >> 1), p.RETRY)
    say(ready=True)
    order(True)
    answer = None
    if retry:
        context.victim.proof = retry.value
        hello = context.packet(p.HELLO_ONLY, hello=context.hello(context=draw()))
        answer = context.answered(hello, p.HELLO_ONLY)
    say(retry=bool(retry), answer=bool(answer))


def proof_without_hello(family=4, families=(4, 6)):
    """RETRY to a packet without hello bears a proof with which its sender can say hello."""
    with netlab.Lab() as lab:
        _, b, c = three(lab, families)
        Honest(b, SERVICE)
        said = Forger(c, 'forge_bare', b.addresses[family], SERVICE, family=family).ready().tell('go')
        check(not said['retry'] or said['answer'], 'the proof is useless')
        check(said['retry'], 'no answer')
        return ''


def over_ipv6(case):
    """The forger sends over IPv6, where the others have found each other over IPv4, and without IPv4."""
    return f'both families: {case(6)}; IPv6 alone: {case(6, (6,))}'


def reflected_tokens_ipv6():
    return over_ipv6(reflected_tokens)


def claimed_before_ipv6():
    return over_ipv6(claimed_before)


def claimed_beside_ipv6():
    return over_ipv6(claimed_beside)


def proof_without_hello_ipv6():
    return over_ipv6(proof_without_hello)


def devices(host):
    for line in host.ip('-o', 'link').splitlines():
        name = line.split(': ')[1].split('@')[0]
        if name != 'lo':
            yield name


ATTACKS = {name: value for name, value in list(globals().items()) if name.startswith('forge_')}
if __name__ == '__main__':
    main([claimed_before, reflected_tokens, claimed_beside, guessed_tokens, crowd_of_three, crowd_of_twenty,
          claimed_from_everywhere, proof_without_hello, claimed_before_ipv6, reflected_tokens_ipv6,
          claimed_beside_ipv6, proof_without_hello_ipv6], ATTACKS, 'nft')
