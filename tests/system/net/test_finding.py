# SPDX-License-Identifier: BSD-3-Clause
"""Discovery: multicast, static peers, several services and processes on a host."""
import json
import os
import re
import select
import shutil
import signal
import sys
import time

import netlab
from netlab import check
from xfer import SERVICE, finish, serve, send, transfer

SETTLE_S = 12


GROUP6 = 'ff15::f269:7063'


def pair(lab, **more):
    a, b = lab.host('a'), lab.host('b')
    lab.link(a, b, **more)
    return a, b


def block_multicast(*hosts):
    for host in hosts:
        host.nft('add table inet lab\n'
                 'add chain inet lab out { type filter hook output priority 0; }\n'
                 'add rule inet lab out ip daddr 224.0.0.0/4 counter drop\n'
                 f'add rule inet lab out ip6 daddr {GROUP6} counter drop\n')


def multicast():
    with netlab.Lab() as lab:
        a, b = pair(lab)
        return transfer(a, b, '1M')


def multicast_without_a_route():
    """No default route: multicast goes out by the interface, not by the routing table."""
    with netlab.Lab() as lab:
        a, b = pair(lab)
        for host in (a, b):
            host.ip('route', 'del', 'default')
        return transfer(a, b, '1M')


def one_of_many_interfaces():
    """A socket may join groups on 20 interfaces: services are found by the 25th, 30th and 50th, too."""
    with netlab.Lab() as lab:
        many, silent = lab.host('m'), lab.host('s')
        ends, devices = [], ['lo']
        for i in range(1, 51):
            end = lab.host(f'e{i}') if i in (25, 30, 50) else silent
            devices.append(lab.link(many, end, ipv6=False)[0])
            ends += [end] if end is not silent else []
        for i, end in enumerate(ends, SERVICE + 1):
            finish(send(end, '1M'), serve(many))
            finish(send(many, '1M', '--to', i), serve(end, '--id', i))
        # Each datagram is heard once: one socket has joined on each interface.
        server = serve(many)
        for device in devices:
            joined = many.run('ip', 'maddress', 'show', 'dev', device)
            check(re.search(r'239\.255\.76\.82$', joined, re.M), f'joined otherwise: {joined}')
        server.end()


def more_interfaces_than_are_used():
    """The log and "ripc doctor" name the first interface that is left out."""
    with netlab.Lab() as lab:
        host = lab.host('m')
        host.run('ip', '-batch', '-', stdin=''.join(
            f'link add name a{i} type veth peer name b{i}\n'
            f'link set a{i} up\nlink set b{i} up\n'
            f'address add 10.97.{i}.1/24 dev a{i}\naddress add 10.98.{i}.1/24 dev b{i}\n'
            for i in range(1, 66)))
        # lo is one of the 128; of the two ends of a link the kernel lists either one first.
        names = '[ab]64 and later (interfaces|ones) are not used'
        said = host.start(os.path.join(netlab.PROGRAMS, '../../../tools/ripc'), 'doctor')
        text = said.popen.stdout.read()
        check(re.search(names, text) and ' more' in text, text)
        server = serve(host)
        server.end()
        check(any(re.search(names, line) for line in server.lines), server.lines)
        host.run('sysctl', '-q', '-w', 'net.ipv4.igmp_max_memberships=2')
        server = serve(host)
        server.end()
        check(any('igmp_max_memberships' in line for line in server.lines), server.lines)


def peers_without_multicast():
    with netlab.Lab() as lab:
        a, b = pair(lab)
        block_multicast(a, b)
        server = serve(b)
        return finish(send(a, '1M', RIPC_PEERS=f'10.99.77.77,{b.addresses[4]}'), server)


def registers_with_few_datagrams():
    """Five to the network, of which none comes back; by lo those not said a moment before."""
    return few_datagrams(4) + ', ' + few_datagrams(4, 6) + ', ' + few_datagrams(6)


def few_datagrams(*families):
    """The same over each family that the host has; none over IPv6 by lo."""
    with netlab.Lab() as lab:
        a, _ = pair(lab, ipv4=4 in families, ipv6=6 in families)
        rules = ('add table inet lab\n'
                 'add chain inet lab out { type filter hook output priority 0; }\n'
                 'add chain inet lab in { type filter hook input priority 0; }\n')
        for family, group in ((4, 'ip daddr 224.0.0.0/4'), (6, 'ip6 daddr ff00::/8')):
            for name, rule in (('lo', 'out oifname "lo"'), ('net', 'out oifname != "lo"'),
                               ('back', 'in iifname != "lo"')):
                rules += (f'add counter inet lab {name}{family}\nadd rule inet lab {rule} '
                          f'{group} udp dport 15511 counter name {name}{family}\n')
        a.nft(rules)

        def counted(name):
            said = a.run('nft', 'list', 'counter', 'inet', 'lab', name).split()
            return int(said[said.index('packets') + 1])

        server = serve(a)
        netlab.wait_for(lambda: all(counted(f'net{family}') >= 5 for family in families),
                        'three queries and two notices')
        counts = {name + family: counted(name + family) for name in ('net', 'back', 'lo')
                  for family in '46'}
        wanted = {'back4': 0, 'back6': 0, 'lo6': 0} | {f'net{family}': 5 if family in families else 0
                                                      for family in (4, 6)}
        # Two by lo, unless it had to wait for its turn.
        check(counts | wanted == counts and 2 <= counts['lo4'] <= 5, f'{families}: {counts}')
        server.end()
        return f'{families}: {counts["lo4"]} by lo'


def names_mean(host, addresses):
    """Sets the addresses of the name "pods" on a host; `ip netns exec` shows /etc/netns there."""
    directory = f'/etc/netns/{host.name}'
    os.makedirs(directory, exist_ok=True)
    with open(f'{directory}/resolv.conf', 'w', encoding='ascii') as conf:
        conf.write('nameserver 127.0.0.1\n')  # which refuses at once
    # Written in place: a process that runs sees the file that it was started with.
    with open(f'{directory}/hosts', 'w', encoding='ascii') as hosts:
        hosts.write('127.0.0.1 localhost\n' + ''.join(f'{at} pods\n' for at in addresses))
    return directory


def peers_that_change():
    """A name in RIPC_PEERS that nobody has, then one host, then another one has."""
    with netlab.Lab() as lab:
        a, b, c = (lab.host(label) for label in 'abc')
        switch = lab.bridge()
        for end, host in enumerate((a, b, c), 1):
            lab.attach(host, switch, end)
        block_multicast(a, b, c)
        directory = names_mean(a, [])
        try:
            asker = a.start(netlab.program('store'), 'one', RIPC_PEERS='pods,127.0.0.1',
                            RIPC_OPTIONS='resolver.names_s=1')
            asker.json()

            def finds(service):
                asker.popen.stdin.write(f'resolve {service} 200\n')
                asker.popen.stdin.flush()
                return asker.json()['status'] == 0

            first, second = serve(b, '--id', 100), serve(c, '--id', 101)
            check(not finds(100), 'found before anybody could know where')
            names_mean(a, [b.addresses[4]])
            netlab.wait_for(lambda: finds(100), 'a name that means somebody now')
            check(not finds(101), 'found where no name leads')
            names_mean(a, [c.addresses[4]])
            netlab.wait_for(lambda: finds(101), 'a name that means another one now')
            for process in (asker, first, second):
                process.end()
        finally:
            shutil.rmtree(directory)


def neither():
    """Multicast blocked and no peers: an error within the deadline."""
    with netlab.Lab() as lab:
        a, b = pair(lab)
        block_multicast(a, b)
        serve(b)
        client = send(a, '1M')
        check(client.popen.wait() == 1, 'the service was found nevertheless')
        said = client.popen.stdout.read()
        check('no service has that ID' in said, f'said: {said}')


def two_services_of_one_process():
    with netlab.Lab() as lab:
        a, b = pair(lab)
        server = serve(b, '--id', SERVICE + 1)
        one = send(a, '2M')
        two = a.start(netlab.program('xfer'), 'send', '--to', SERVICE + 1, '--bytes', '3M')
        one.end(), two.end()
        received = server.end()
        check(received['longs'] == 2 and received['wrong'] == 0, f'{received}')
        places = {entry['to']: entry['received'] for entry in server.all('received')}
        check(places == {SERVICE: 2 << 20, SERVICE + 1: 3 << 20}, f'arrived at {places}')


def two_processes_of_one_host(**env):
    """A unicast query reaches one of them, which answers for the host."""
    with netlab.Lab() as lab:
        a, b = pair(lab)
        if env:
            block_multicast(a, b)
            env['RIPC_PEERS'] = b.addresses[4]
        program = netlab.program('xfer')
        servers = [b.start(program, 'serve', '--id', 100 + i) for i in range(4)]
        for server in servers:
            server.line('ready')
        clients = [a.start(program, 'send', '--to', 100 + i, '--bytes', '1M', **env)
                   for i in range(4)]
        for client in clients:
            client.end()
        for server in servers:
            received = server.end()
            check(received['longs'] == 1 and received['wrong'] == 0, f'{received}')


def two_processes_by_peers():
    two_processes_of_one_host(RIPC_PEERS='')


def same_id_twice():
    """The second registration of an ID that is alive on another host is refused.

    The first one has 60 ms to object, and may just not have its turn: so five are, of a few more.
    """
    with netlab.Lab() as lab:
        a, b = pair(lab)
        server = serve(b)
        refused = tried = 0
        while refused < 5 and tried < 40:
            second = a.start(netlab.program('xfer'), 'serve', '--id', SERVICE)
            second.popen.stdin.close()  # the process ends at once where it is not refused
            said = second.popen.stdout.read()
            status = second.popen.wait()
            check(status == 0 or status == 1 and 'this service ID is in use' in said,
                  f'exit status {status}: {said}')
            refused, tried = refused + status, tried + 1
        check(refused == 5, f'only {refused} of {tried} were refused')
        server.end()
        return f'{refused} of {tried} refused'


def two_addresses():
    """A host on two networks answers each from the address that was asked."""
    with netlab.Lab() as lab:
        a, b = pair(lab)
        lab.link(a, b)
        block_multicast(a, b)
        server = serve(b)
        clients = [send(a, '1M', RIPC_PEERS=f'10.99.{net}.2') for net in (1, 2)]
        for client in clients:
            client.end()
        received = server.end()
        check(received['longs'] == 2 and received['wrong'] == 0, f'{received}')


def mixed(lab, *families, dad=False):
    """Hosts with these families on one segment."""
    switch, hosts = lab.bridge(), []
    for end, has in enumerate(families, 1):
        host = lab.host('abcdef'[end - 1])
        if dad:
            host.run('sysctl', '-q', '-w', 'net.ipv6.conf.default.accept_dad=1',
                     'net.ipv6.conf.all.accept_dad=1')
        device, port = lab.veth(host, switch)
        switch.ip('link', 'set', port, 'master', 'br')
        lab.address(host, device, 200, end, 4 in has, 6 in has, dad=dad)
        hosts.append(host)
    return hosts


def ipv6_only():
    """Hosts without IPv4 find each other; so do they and hosts with both families."""
    said = []
    for server_has, client_has in (((6,), (6,)), ((6,), (4, 6)), ((4, 6), (6,)), ((4, 6), (4, 6))):
        with netlab.Lab() as lab:
            a, b = mixed(lab, client_has, server_has)
            server = serve(b)
            client = send(a, '1M', '--on-line')
            said.append(client.line('found'))
            client.popen.stdin.write('\n')
            client.popen.stdin.flush()
            client.json()
            client.end()
            received = server.end()
            check(received['longs'] == 1 and received['wrong'] == 0, f'{received}')
    return ', '.join(said)


def asked(host, lookup):
    """Datagrams to the group that leave a host with a lookup, over IPv4 and over IPv6."""
    host.nft('add table inet lab\nadd counter inet lab four\nadd counter inet lab six\n'
             'add chain inet lab out { type filter hook output priority 0; }\n'
             'add rule inet lab out oifname != "lo" ip daddr 239.255.76.82 counter name four\n'
             f'add rule inet lab out oifname != "lo" ip6 daddr {GROUP6} counter name six\n')
    lookup()
    counts = []
    for name in ('four', 'six'):
        said = host.run('nft', 'list', 'counter', 'inet', 'lab', name).split()
        counts.append(int(said[said.index('packets') + 1]))
    host.nft('delete table inet lab\n')
    return counts


def ipv6_datagrams_of_a_lookup():
    """Two hosts with both families send the first query over IPv4, and none over IPv6."""
    def nobody():
        check(send(a, 1).popen.wait() == 1, 'found somebody')

    with netlab.Lab() as lab:
        a, b, c = mixed(lab, (4, 6), (4, 6), (6,))
        none = asked(a, nobody)
        check(0 < none[1] < none[0], f'of a lookup of nobody: {none}')
        server = serve(b)
        # Many, as an answer may take longer than 20 ms on a busy machine.
        found = asked(a, lambda: [send(a, 1).end() for _ in range(20)])
        check(found[1] < 20, f'of 20 lookups: {found}')
        check(server.end()['longs'] == 20, 'not delivered')
        server = serve(c)
        six = asked(a, lambda: send(a, 1).end())
        check(0 < six[1] < six[0], f'of a lookup of a service over IPv6 alone: {six}')
        server.end()
        return f'over IPv4 and IPv6: found 20 times {found}, over IPv6 alone {six}, nobody {none}'


ASKER = """
import socket, struct, sys
sys.path[:0] = [{0!r}]
from test_attack_finding import query
sock = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
sock.settimeout(10)
for service in range(100, 104):
    sock.sendto(query(service), ({1!r}, 15511))
    data = sock.recv(2000)
    print(data[1], struct.unpack_from('<Q', data, 48)[0])
"""


def ipv6_two_processes_of_one_host():
    """A unicast query over IPv6 reaches one of them, which answers for the host."""
    with netlab.Lab() as lab:
        a, b = pair(lab, ipv4=False)
        servers = [b.start(netlab.program('xfer'), 'serve', '--id', 100 + i) for i in range(4)]
        for server in servers:
            server.line('ready')
        here = os.path.dirname(os.path.abspath(__file__))
        said = a.run(sys.executable, '-c', ASKER.format(here, b.addresses[6])).split()
        check(said == ['33', '100', '33', '101', '33', '102', '33', '103'], f'answered: {said}')


def ipv6_same_id_twice():
    """A registration over one family meets the holder's over the other."""
    with netlab.Lab() as lab:
        holder, both, six = mixed(lab, (6,), (4, 6), (6,))
        server = serve(holder)
        for host in (both, six):
            came = gives_way(host.start(netlab.program('xfer'), 'serve', '--id', SERVICE))
            check(server.popen.poll() is None, f'the older has ended: {came}')
        server.end()


def ipv6_address_not_checked_yet():
    """An address that the kernel still checks for a duplicate is used when that is done."""
    with netlab.Lab() as lab:
        a, b = mixed(lab, (6,), (6,), dad=True)
        check('tentative' in b.ip('-6', 'address'), 'no address is tentative')
        server = serve(b)
        for host in (a, b):
            netlab.wait_for(lambda host=host: 'tentative' not in host.ip('-6', 'address'), 'no tentative address')
        return finish(send(a, '1M'), server)


def ipv6_is_off():
    """In one host, and in all: the others are found by IPv4, and nobody complains."""
    with netlab.Lab() as lab:
        a, b = mixed(lab, (4, 6), (4,))
        b.run('sysctl', '-q', '-w', 'net.ipv6.conf.all.disable_ipv6=1')
        server = serve(b, RIPC_LOG='info')
        finish(send(a, '1M'), server)
        said = '\n'.join(server.lines)
        check('IPv6' not in said and 'multicast' not in said, said)


def stopped_holder():
    """A service that is stopped for longer than a second is silent, and not nobody."""
    with netlab.Lab() as lab:
        host = lab.host('a')
        server = serve(host)
        os.kill(server.popen.pid, signal.SIGSTOP)
        client = crowd(host, 'clients', 1)
        time.sleep(1.5)
        os.kill(server.popen.pid, signal.SIGCONT)
        found = client.end()
        check(found['nobody'] + found['late'] + found['other'] == 0, f'not delivered: {found}')
        received = server.end()
        check(received['longs'] == 1, f'{received}')


def stopped_holder_by_peers():
    """The same on another host, where another process says that the name is bound."""
    with netlab.Lab() as lab:
        a, b = pair(lab)
        block_multicast(a, b)
        server = serve(b)
        os.kill(server.popen.pid, signal.SIGSTOP)
        # Unicast queries go to one of those that listen, from four ports in turn: among so many
        # not all four lead to the one that is stopped.
        others = [b.start(netlab.program('xfer'), 'serve', '--id', 100 + i) for i in range(10)]
        for other in others:
            other.line('ready')
        client = crowd(a, 'clients', 1, RIPC_PEERS=b.addresses[4])
        time.sleep(1.5)
        os.kill(server.popen.pid, signal.SIGCONT)
        found = client.end()
        check(found['nobody'] + found['late'] + found['other'] == 0, f'not delivered: {found}')
        received = server.end()
        check(received['longs'] == 1, f'{received}')


def two_holders_after_a_stop():
    """
    A service that registers while the owner is stopped yields when the owner goes on: messages
    reach the older.
    """
    with netlab.Lab() as lab:
        host = lab.host('a')
        older = serve(host)
        os.kill(older.popen.pid, signal.SIGSTOP)
        younger = host.start(netlab.program('xfer'), 'serve', '--id', SERVICE)
        younger.line('ready')
        os.kill(older.popen.pid, signal.SIGCONT)
        younger.line('yields')
        # Datagrams, each of which one service refuses, or which are for the other.
        client = send(host, '100K', '--pieces', 10)
        result = finish(client, older, 10)
        check(younger.popen.poll() is None, 'the younger has ended')
        received = younger.end()
        check(received['longs'] == 0, f'the younger got something: {received}')
        return result


def gives_way(younger):
    """Waits until the younger of two holders is refused, or is told to yield."""
    for line in younger.popen.stdout:
        younger.lines.append(line.rstrip('\n'))
        if line.startswith('yields'):
            return 'told'
    said, status = '\n'.join(younger.lines), younger.popen.wait()
    check(status == 1 and 'this service ID is in use' in said, f'exit status {status}: {said}')
    return 'refused'


def two_holders_over(rtt_ms, by_peers):
    """The results of the younger, and of the older."""
    with netlab.Lab() as lab:
        a, b = lab.host('a'), lab.host('b')
        lab.relay(a, b, netlab.program('relay'), '--delay-us', 500 * rtt_ms)
        if by_peers:
            block_multicast(a, b)
        peers = {host: {'RIPC_PEERS': other.addresses[4]} if by_peers else {}
                 for host, other in ((a, b), (b, a))}
        older = serve(a, **peers[a])
        younger = b.start(netlab.program('xfer'), 'serve', '--id', SERVICE, **peers[b])
        came = gives_way(younger)
        check(older.popen.poll() is None, 'the older has ended')
        older.end()
        check(not any(line.startswith('yields') for line in older.lines), 'the older yields')
        return f'{rtt_ms} ms: {came}'


def two_holders_far_apart():
    """A registration hears answers that take longer than it waits for them."""
    return ', '.join(two_holders_over(rtt_ms, rtt_ms == 200) for rtt_ms in (50, 100, 200, 400))


def two_holders_after_a_split():
    """The owners learn of each other, though no program queries them."""
    with netlab.Lab() as lab:
        a, b = lab.host('a'), lab.host('b')
        device, _ = lab.link(a, b)
        a.drop(device, 'meta protocol { ip, ip6 }')
        older = serve(a)
        b.nft('add table inet lab\n'
              'add chain inet lab out { type filter hook output priority 0; }\n'
              'add rule inet lab out oifname != "lo" drop\n')
        younger = serve(b)
        a.pass_all(device)
        b.nft('delete table inet lab')
        began = time.monotonic()
        heard, _, _ = select.select([younger.popen.stdout], [], [], 25)
        check(heard, 'the younger is not told')
        younger.line('yields')
        took = time.monotonic() - began
        check(older.popen.poll() is None, 'the older has ended')
        return f'told after {took:.1f} s'


def registers_again(rtt_ms, wanted):
    """
    A service that has got its notice registers its ID again, which the older has given up, or
    another one.
    """
    with netlab.Lab() as lab:
        a, b = lab.host('a'), lab.host('b')
        lab.relay(a, b, netlab.program('relay'), '--delay-us', 500 * rtt_ms)
        a.nft('add table inet lab\n'
              'add chain inet lab out { type filter hook output priority 0; }\n'
              'add rule inet lab out oifname != "lo" drop\n')
        older, younger = (host.start(netlab.program('store'), 'one') for host in (a, b))

        def do(process, *words):
            process.popen.stdin.write(' '.join(str(word) for word in words) + '\n')
            process.popen.stdin.flush()
            return json.loads(process.line('{"did": "' + words[0]))['status']

        for process in (older, younger):
            process.json()
            check(do(process, 'open', SERVICE) == 0, 'the service was not registered')
        a.nft('delete table inet lab')
        younger.line('{"notice": -98')
        began = time.monotonic()
        if wanted == SERVICE:
            do(older, 'close', SERVICE)
            check(do(younger, 'close', SERVICE) == 0, 'the service was not closed')
        status = do(younger, 'open', wanted)
        check(status == 0, f'{rtt_ms} ms: not registered again: {status}')
        return f'{rtt_ms} ms: {time.monotonic() - began:.2f} s'


def registers_again_after_a_notice():
    return ', '.join(registers_again(rtt_ms, wanted) for rtt_ms in (50, 100, 200, 400)
                     for wanted in (SERVICE, SERVICE + 1))


def split_among(lab, n_hosts, n_contexts, parted_s, splits_first):
    """Two holders among many contexts on some hosts; how long the younger waits for its notice.

    splits_first: all have begun on the two sides of the parted network.
    """
    switch = lab.bridge()
    hosts = [lab.host('abcd'[i]) for i in range(n_hosts)]
    devices = [lab.attach(host, switch, end)[0] for end, host in enumerate(hosts, 1)]

    def part(is_parted):
        for i, (host, device) in enumerate(zip(hosts, devices)):
            if not is_parted:
                host.pass_all(device)
                continue
            others = hosts[1 - i % 2::2]
            host.drop(device, *(f'{word} saddr {{ {", ".join(other.addresses[family] for other in others)} }}'
                                for family, word in ((4, 'ip'), (6, 'ip6'))))

    if splits_first:
        part(True)
    each = n_contexts // n_hosts
    holders = [host.start(netlab.program('lives'), 'hold', each, 1, 10000 + i * each)
               for i, host in enumerate(hosts)]
    for holder in holders:
        holder.line('ready')
    time.sleep(SETTLE_S)  # the first digests are over, and more than that of the rest
    if not splits_first:
        part(True)
    older, younger = serve(hosts[0]), serve(hosts[1])
    time.sleep(parted_s)
    part(False)
    began = time.monotonic()
    heard, _, _ = select.select([younger.popen.stdout], [], [], 100)
    check(heard, 'the younger is not told')
    younger.line('yields')
    took = time.monotonic() - began
    check(older.popen.poll() is None, 'the older has ended')
    for process in holders + [younger, older]:
        process.popen.stdin.close()
    return took


def two_holders_among_many():
    """Hundreds of contexts, each of which names its registrations once a minute as a rule."""
    cases = ((4, 200, 30, False),)
    if netlab.FULL:
        cases += tuple((n_hosts, n, parted_s, first) for n_hosts, n in ((2, 50), (4, 200))
                       for parted_s, first in ((60, False), (60, True), (180, False)))
    said = []
    for n_hosts, n_contexts, parted_s, first in cases:
        with netlab.Lab() as lab:
            took = split_among(lab, n_hosts, n_contexts, parted_s, first)
        said.append(f'{n_contexts} on {n_hosts} parted for {parted_s} s{", at first" if first else ""}: '
                    f'{took:.1f} s')
        check(took < 20, f'told late: {said}')  # otherwise the lookup takes the rest of a minute
    return ', '.join(said)


def crowd(host, what, n, **env):
    return host.start(netlab.program('crowd'), what, n, SERVICE, **env)


def crowd_at_once():
    """Many clients that start at once find one idle server, all of them."""
    n = 500 if netlab.FULL else 100
    with netlab.Lab() as lab:
        host = lab.host('a')
        server = serve(host)
        found = crowd(host, 'clients', n).end()
        check(found['nobody'] == 0, f'told that there is nobody: {found}')
        check(found['other'] == 0 and found['late'] <= n // 20, f'{found}')
        received = server.end()
        check(received['longs'] >= n - found['late'], f'{found}, {received}')
        return f'{n} clients: median {found["median_ms"]} ms, at most {found["max_ms"]}'


def crowd_registers():
    """Many services register at once."""
    n = 500 if netlab.FULL else 100
    with netlab.Lab() as lab:
        found = crowd(lab.host('a'), 'services', n).end()
        check(found['nobody'] + found['late'] + found['other'] == 0, f'{found}')
        return f'{n} services: median {found["median_ms"]} ms, at most {found["max_ms"]}'


if __name__ == '__main__':
    netlab.main([multicast, multicast_without_a_route, one_of_many_interfaces,
                 more_interfaces_than_are_used, peers_without_multicast,
                 registers_with_few_datagrams, peers_that_change, neither,
                 two_services_of_one_process, two_processes_of_one_host, two_processes_by_peers,
                 same_id_twice, two_addresses, ipv6_only, ipv6_datagrams_of_a_lookup,
                 ipv6_two_processes_of_one_host, ipv6_same_id_twice, ipv6_address_not_checked_yet, ipv6_is_off, stopped_holder,
                 stopped_holder_by_peers,
                 two_holders_after_a_stop, two_holders_far_apart, two_holders_after_a_split,
                 registers_again_after_a_notice, two_holders_among_many, crowd_at_once, crowd_registers], 'nft')
