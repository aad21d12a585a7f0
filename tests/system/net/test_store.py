# SPDX-License-Identifier: BSD-3-Clause
"""Finding services by a store: what happens when it, its clients, or what is between them fails.

Against real ZooKeeper servers. Each case has its own cluster (a directory of the server), and
most share one server.
"""
import atexit
import os
import signal
import tempfile
import threading
import time

import netlab
import test_group
import zookeeper
from netlab import check, wait_for

SESSION_MS = 1500
EACCES, EADDRINUSE, ENOENT, EHOSTUNREACH, ETIMEDOUT = -13, -98, -2, -113, -110


class One:
    """A process that obeys: tests/system/net/store.c."""

    def __init__(self, world, host, **env):
        self.process = host.start(netlab.program('store'), 'one', **{**world.env, **env})
        self.heard = []
        self.said('did')

    def said(self, key):
        """The next thing it says that has this key."""
        while True:
            entry = self.process.json()
            if key in entry:
                return entry
            self.heard.append(entry)

    def do(self, *words):
        self.tell(*words)
        return self.said('did')['status']

    def tell(self, *words):
        self.process.popen.stdin.write(' '.join(str(word) for word in words) + '\n')
        self.process.popen.stdin.flush()

    def timed(self, *words):
        self.tell(*words)
        entry = self.said('did')
        return entry['status'], entry['ms']

    def notice(self):
        for entry in self.heard:
            if 'notice' in entry:
                return entry['notice']
        return self.said('notice')['notice']

    def signal(self, number):
        # ip netns exec becomes the program.
        os.kill(self.process.popen.pid, number)

    def kill(self):
        self.signal(signal.SIGKILL)
        self.process.popen.wait()


class World:
    """Two hosts and so many with a server, on one switch."""

    def __init__(self, servers=1, **options):
        self.lab = netlab.Lab()
        self.count = servers
        self.options = {'store.session_ms': SESSION_MS, **options}

    def __enter__(self):
        lab = self.lab.__enter__()
        switch = lab.bridge()
        self.a, self.b = lab.host('a'), lab.host('b')
        places = [lab.host(f'z{i}') for i in range(self.count)]
        self.links = {}
        for end, host in enumerate([self.a, self.b, *places], 1):
            self.links[host] = lab.attach(host, switch, end)
        addresses = [place.addresses[4] for place in places]
        members = addresses if self.count > 1 else ()
        self.servers = [zookeeper.Server(place, number, members)
                        for number, place in enumerate(places, 1)]
        self.options['store.servers'] = ';'.join(f'{at}:{zookeeper.PORT}' for at in addresses)
        for server in self.servers:
            server.start()
        for server in self.servers:
            server.ready()
        return self

    def close(self):
        for server in self.servers:
            server.close()
        self.lab.close()

    def __exit__(self, *_):
        self.close()

    @property
    def env(self):
        return {'RIPC_OPTIONS': ','.join(f'{name}={value}' for name, value in self.options.items()),
                'RIPC_LOG': 'warn'}

    def part(self, host):
        """Nothing of the servers reaches this host any more, and nothing of it reaches them."""
        for server in self.servers:
            address = server.host.addresses[4]
            host.nft('add table ip part\n'
                     'add chain ip part out { type filter hook output priority 0; }\n'
                     'add chain ip part in { type filter hook input priority 0; }\n'
                     f'add rule ip part out ip daddr {address} drop\n'
                     f'add rule ip part in ip saddr {address} drop\n')

    def join(self, host):
        host.nft('delete table ip part\n')


class Shared:
    """The world with one server that most cases share, each with a cluster and options of its own."""

    world, clusters = None, 0

    def __init__(self, **options):
        self.options = options

    def __enter__(self):
        if not Shared.world:
            Shared.world = World().__enter__()
            atexit.register(Shared.end)
        Shared.clusters += 1
        world = Shared.world
        world.options.update({'store.session_ms': SESSION_MS, **self.options,
                              'store.cluster': f'case{Shared.clusters}'})
        return world

    @staticmethod
    def end():
        if Shared.world:
            Shared.world.close()
        Shared.world = None

    def __exit__(self, *_):
        lab = Shared.world.lab
        for process in lab.processes:
            process.stop()
        lab.processes.clear()
        for host in (Shared.world.a, Shared.world.b):
            host.nft('add table ip part\ndelete table ip part\n')
        server = Shared.world.servers[0]
        if server.process.poll() is not None:
            server.start().ready()


def multicasts(host):
    lines = host.run('cat', '/proc/net/netstat').split('\n')
    names, values = [line.split() for line in lines if line.startswith('IpExt:')]
    return int(dict(zip(names, values)).get('OutMcastPkts', 0))


def finds():
    """Registered on one host, found from another, listed; nothing goes to everybody."""
    with Shared(**{'store.session_ms': 20000}) as world:
        before = multicasts(world.a) + multicasts(world.b)
        holder, asker = One(world, world.a), One(world, world.b)
        status = holder.do('open', 7)
        check(status == 0, f'the service was not registered: {status} {holder.process.lines}')
        status, ms = asker.timed('resolve', 7, 20000)
        check(status == 0, f'not found: {status}')
        check(asker.do('ping', 7, 20000) == 0, 'not reached')
        status = asker.do('resolve', 8, 20000)
        check(status == ENOENT, f'nobody has 8, said {status}')
        check(asker.do('open', 7) == EADDRINUSE, 'two have it')
        check(asker.do('list', 600) >= 1, 'not listed')
        check(holder.do('close', 7) == 0, 'not closed')
        check(asker.do('open', 7) == 0, 'not free after that')
        check(holder.do('ping', 7, 20000) == 0, 'not reached where it is now')
        check(multicasts(world.a) + multicasts(world.b) == before, 'there were multicasts')
        return f'found in {ms} ms'


def killed_and_started_again():
    """On the same host the kernel proves that the predecessor has ended: nothing expires first."""
    with Shared(**{'store.session_ms': 20000}) as world:
        first = One(world, world.a)
        check(first.do('open', 7) == 0, 'the service was not registered')
        first.kill()
        second = One(world, world.a)
        status, ms = second.timed('open', 7)
        check(status == 0, f'not registered again: {status}')
        check(One(world, world.b).do('ping', 7, 20000) == 0, 'the new one is not found')
        return f'after {ms} ms'


def all_but_one_again(run):
    """run(process) awaits what a crowd says that was started again; one of its IDs is taken."""
    with Shared(**{'store.session_ms': 20000}) as world, tempfile.NamedTemporaryFile() as holders:
        other = One(world, world.b)
        check(other.do('open', 20) == 0, 'not registered')
        for _ in range(3):
            process = world.a.start(netlab.program('store'), 'crowd', 2, 50, 7, holders.name,
                                    **world.env)
            opened = run(process)
            check(opened['opened'] == 99, f'not all but the taken one: {opened}')
            check(all(other.do('ping', number, 20000) == 0 for number in (7, 19, 21, 106)),
                  'not found')
            process.end()  # and its children are killed
        return f'99 after {opened["ms"]} ms'


def many_started_again():
    """A transaction that claims many IDs is refused, as somebody had them: each is claimed."""
    return all_but_one_again(netlab.Process.json)


def many_started_again_slowly():
    """The processes stand still now and then: answers of the store pile up, and timers are late."""
    def run(process):
        over, stops = threading.Event(), []
        thread = threading.Thread(target=stutter, args=(process.popen.pid, over, stops))
        thread.start()
        try:
            return process.json()
        finally:
            over.set()
            thread.join()
            check(stops, 'the processes were never stopped')

    return all_but_one_again(run)


def stutter(parent, over, stops):
    """Stops and continues the children of a process, until it is over; stops gets each of them."""
    while not over.wait(0.003):
        with open(f'/proc/{parent}/task/{parent}/children', encoding='ascii') as file:
            children = [int(child) for child in file.read().split()]
        for number in (signal.SIGSTOP, signal.SIGCONT):
            for child in children:
                os.kill(child, number)
            if children and number == signal.SIGSTOP:
                stops.append(children)
                time.sleep(0.04)


def killed_and_started_elsewhere():
    """On another host nothing proves that: it waits until the session is over."""
    with Shared() as world:
        first, second = One(world, world.a), One(world, world.b)
        check(first.do('open', 7) == 0, 'the service was not registered')
        first.kill()
        status, ms = second.timed('open', 7)
        check(status == 0, f'not registered: {status}')
        return f'after {ms} ms, with a session of {SESSION_MS} ms'


def stopped_beyond_the_session():
    """Nobody took the ID: it is there again. Somebody did: a notice, and the new one keeps it."""
    with Shared() as world:
        holder, other = One(world, world.a), One(world, world.b)
        check(holder.do('open', 7) == 0 and holder.do('open', 8) == 0, 'not registered')
        holder.signal(signal.SIGSTOP)
        check(other.do('open', 7) == 0, 'the ID did not become free')
        holder.signal(signal.SIGCONT)
        check(holder.notice() == EADDRINUSE, 'no notice')
        wait_for(lambda: other.do('ping', 8, 2000) == 0, '8 is not there again')
        check(holder.do('ping', 7, 20000) == 0, 'the new one is not found')


def parted_beyond_the_session():
    with Shared() as world:
        holder, other = One(world, world.a), One(world, world.b)
        check(holder.do('open', 7) == 0 and holder.do('open', 8) == 0, 'not registered')
        check(other.do('ping', 8, 20000) == 0, 'not reached')
        world.part(world.a)
        # As long as the store has it, its holder is asked, and answers.
        wait_for(lambda: other.do('open', 7) == 0, 'the ID did not become free')
        check(other.do('ping', 8, 20000) == 0, 'partners do not go on')
        world.join(world.a)
        check(holder.notice() == EADDRINUSE, 'no notice')
        other_again = One(world, world.b)
        wait_for(lambda: other_again.do('ping', 8, 2000) == 0, '8 is not there again')


def server_restarted():
    """Partners go on, those known before are found; others not, which is no "nobody has it"."""
    with Shared(**{'store.session_ms': 20000}) as world:
        holder, asker = One(world, world.a), One(world, world.b)
        check(holder.do('open', 7) == 0, 'not registered')
        check(asker.do('ping', 7, 20000) == 0, 'not reached')
        world.servers[0].kill()
        check(all(asker.do('ping', 7, 10000) == 0 for _ in range(40)), 'partners do not go on')
        check(asker.do('resolve', 9, 1500) in (EHOSTUNREACH, ETIMEDOUT), 'an unknown service was resolved')
        world.servers[0].start().ready()
        began = time.monotonic()
        wait_for(lambda: asker.do('resolve', 9, 2000) == ENOENT, 'the store is not found again')
        back = time.monotonic() - began
        check(holder.do('open', 9) == 0 and asker.do('resolve', 9, 20000) == 0, 'nothing works')
        check(asker.do('ping', 7, 20000) == 0, '7 is gone')
        return f'found again after {back:.2f} s'


def unreachable_at_open():
    """The context opens; opening a service says that the store is away; then all is well."""
    with Shared() as world:
        world.servers[0].kill()
        one = One(world, world.a)
        status, ms = one.timed('open', 7)
        check(status == EHOSTUNREACH, f'opened with {status}')
        said = world.a.start(world_tool(), 'doctor', **world.env)
        text = said.popen.stdout.read()
        said.popen.wait()
        check('no ZooKeeper server responds' in text, text)
        check('start one' in text and 'connection is not protected' in text, text)
        world.servers[0].start().ready()
        check(one.do('open', 7) == 0, 'not registered when it was there')
        check(One(world, world.b).do('ping', 7, 20000) == 0, 'not found')
        return f'said so after {ms} ms'


def doctor_warns():
    """Warns of a connection that can be altered on its way, not of one within the host."""
    with Shared() as world:
        for env, warns in ((world.env, True),
                           ({'RIPC_OPTIONS': 'store.servers=127.0.0.1:1'}, False)):
            said = world.a.start(world_tool(), 'doctor', **env)
            text = said.popen.stdout.read()
            said.popen.wait()
            check(('ZooKeeper at' in text) == warns, text)
            check(('can end this process' in text and 'docs/security.md' in text) == warns, text)


def world_tool():
    return os.path.join(netlab.PROGRAMS, '..', '..', '..', 'tools', 'ripc')


def leader_killed():
    Shared.end()
    with World(3, **{'store.session_ms': 6000}) as world:
        holder, asker = One(world, world.a), One(world, world.b)
        check(holder.do('open', 7) == 0, 'not registered')
        check(asker.do('ping', 7, 20000) == 0, 'not reached')
        leader = [server for server in world.servers if server.mode() == 'leader']
        check(len(leader) == 1, 'there is not one leader')
        leader[0].kill()
        began = time.monotonic()
        wait_for(lambda: asker.do('resolve', 9, 2000) == ENOENT, 'no other leader is found')
        took = time.monotonic() - began
        check(holder.do('open', 9) == 0 and asker.do('resolve', 9, 20000) == 0, 'nothing works')
        check(asker.do('open', 7) == EADDRINUSE, 'the registration is lost')
        check(not holder.heard, f'heard {holder.heard}')
        return f'answers again after {took:.2f} s'


def crowd(world, processes, services, threads=64, first=1000000):
    """Processes of one host register at once, another host looks all of them up, nobody asks all.

    Returns what both have said; whether all was right is checked.
    """
    total = processes * services
    with tempfile.NamedTemporaryFile() as holders:
        before = multicasts(world.a) + multicasts(world.b)
        registers = world.a.start(netlab.program('store'), 'crowd', processes, services, first,
                                  holders.name, **world.env)
        pids = [server.process.pid for server in world.servers]
        served = netlab.processor_us(pids)
        opened = registers.json()
        opened['server_ms'] = round((netlab.processor_us(pids) - served) / 1e3)
        served = netlab.processor_us(pids)
        check(opened['opened'] == total, f'of {total} {opened}')
        found = world.b.start(netlab.program('store'), 'find', first, total, threads,
                              holders.name, **world.env).end()
        found['server_ms'] = round((netlab.processor_us(pids) - served) / 1e3)
        check(found['found'] == found['right'] == total, f'of {total} {found}')
        check(multicasts(world.a) + multicasts(world.b) == before, 'there were multicasts')
        registers.end()
        return opened, found


def registered_at_once_on_three_nodes():
    """The measurement of bench/store, at a hundredth of its size."""
    Shared.end()
    processes = services = 100 if netlab.FULL else 10
    with World(3, **{'store.session_ms': 6000}) as world:
        opened, found = crowd(world, processes, services)
        return f'{opened["opened"]} opened in {opened["ms"]} ms, found in {found["ms"]} ms'


def refused_by_its_acl():
    with Shared(**{'store.session_ms': 20000}) as world, \
            tempfile.NamedTemporaryFile('w') as auth:
        auth.write('me:secret\n')
        auth.flush()
        options = world.env['RIPC_OPTIONS']
        mine = One(world, world.a, RIPC_OPTIONS=f'{options},store.auth={auth.name}')
        other = One(world, world.b)
        check(mine.do('open', 7) == 0, 'not registered')
        check(other.do('ping', 7, 20000) == 0, 'everybody may look up')
        check(mine.do('close', 7) == 0, 'not closed')
        check(other.do('open', 7) == EACCES, 'registered without the credential')
        check(any('is refused' in line for line in other.process.lines), 'the log does not say it')
        check(mine.do('open', 7) == 0, 'not registered again')


def numbers(counted):
    found = set()
    for run in counted['runs'].split():
        first, last = run.split('-')
        found |= set(range(int(first), int(last) + 1))
    return found


def moved_between_hosts():
    """Messages sent meanwhile arrive at one of the two, and none twice."""
    with Shared(**{'store.session_ms': 20000}) as world:
        old = world.a.start(netlab.program('store'), 'count', 7, **world.env)
        old.line('{"did": "open"')
        new = world.b.start(netlab.program('store'), 'count', 7, **world.env)
        sender = world.b.start(netlab.program('store'), 'stream', 7, **world.env)
        old.line('{"came"')
        before = old.end()
        new.line('{"came"')
        sent = sender.end()
        after = new.end()
        a, b = numbers(before), numbers(after)
        check(len(a) > 10 and len(b) > 10, f'{len(a)} and {len(b)} of {sent} arrived')
        check(not a & b and not before['twice'] and not after['twice'], 'some came twice')
        return f'gap {after["first"] - before["last"]:.0f} ms, {len(a)} and {len(b)} of {sent["sent"]}'


def until_delivered(client, members, what):
    """Sends to the group until it has so many members, and all get it: how long that took, ms."""
    def is_so():
        told = test_group.send_long(client)
        return told['status'] == 0 and told['delivered'] == members

    began = time.monotonic()
    wait_for(is_so, what)
    return round((time.monotonic() - began) * 1e3)


def members_of_a_group():
    """Found on both hosts; who is killed goes with the session, who leaves at once; one joins."""
    with Shared() as world:
        before = multicasts(world.a) + multicasts(world.b)
        env = world.env
        far = [test_group.member(world.a, **env) for _ in range(4)]
        near = [test_group.member(world.b, **env) for _ in range(2)]
        client = test_group.sender(world.b, '--members', 6, '--longs', 10000, '--bytes', 100,
                                   **env)
        found = client.json()
        check(found['found'] == 6, f'not all were found: {found}')
        far[0].popen.kill()
        far[0].popen.wait()
        gone = until_delivered(client, 5, 'the dead one is still there')
        heard = far[1].end()
        check(heard['longs'] > 0 and heard['twice'] == 0, f'{heard}')
        until_delivered(client, 4, 'a member that left is still listed')
        far.append(test_group.member(world.a, **env))
        joined = until_delivered(client, 5, 'a member that joined is not found')
        check(multicasts(world.a) + multicasts(world.b) == before, 'there were multicasts')
        for process in [*far[2:], *near]:
            check(process.end()['twice'] == 0, 'a message came twice')
        return (f'6 found in {found["found_ms"]} ms, the dead one gone after {gone} ms, '
                f'who joins found after {joined} ms')


def members_while_the_server_is_away():
    """Known members stay members, and members that join meanwhile are found afterwards."""
    with Shared(**{'store.session_ms': 20000}) as world:
        members = [test_group.member(world.a, **world.env) for _ in range(2)]
        client = test_group.sender(world.b, '--members', 2, '--longs', 10000, '--bytes', 100,
                                   **world.env)
        check(client.json()['found'] == 2, 'not all were found')
        world.servers[0].kill()
        told = [test_group.send_long(client) for _ in range(20)]
        check(all(entry['delivered'] == 2 for entry in told), f'{told}')
        members.append(test_group.member(world.a, **world.env))
        world.servers[0].start().ready()
        until_delivered(client, 3, 'a member that joined is not found')
        for process in members:
            check(process.end()['twice'] == 0, 'a message came twice')


def another_address(world, host, end):
    """The host gets another address, and loses the one that it had."""
    device, _ = world.links[host]
    old = host.addresses[4]
    host.ip('address', 'add', f'10.99.200.{end}/24', 'dev', device)
    host.ip('address', 'del', f'{old}/24', 'dev', device)
    host.ip('route', 'replace', 'default', 'dev', device)
    host.addresses[4] = f'10.99.200.{end}'


def addresses_that_change():
    """The node says where the holder is, for who asks now, who has asked, and who sends."""
    with Shared(**{'store.session_ms': 20000}) as world:
        home = world.b.addresses[4]
        holder, asker, sender = (One(world, host) for host in (world.b, world.a, world.a))
        check(holder.do('open', 7) == 0, 'the service was not registered')
        check(sender.do('ping', 7, 5000) == 0, 'not reached')
        check(asker.do('resolve', 7, 5000) == 0, 'not found')
        another_address(world, world.b, 77)
        newcomer = One(world, world.a)
        took = []
        for process, what in ((newcomer, 'a new asker'), (asker, 'an earlier asker'),
                              (sender, 'an earlier sender')):
            began = time.monotonic()
            wait_for(lambda: process.do('ping', 7, 300) == 0, f'not reached by {what}')
            took.append(f'{time.monotonic() - began:.1f} s')
        another_address(world, world.b, home.split('.')[-1])
        check(One(world, world.a).do('ping', 7, 20000) == 0, 'not reached where it was before')
        return f'reached after {", ".join(took)}'


def member_whose_address_changes():
    with Shared(**{'store.session_ms': 20000}) as world:
        home = world.b.addresses[4]
        member = test_group.member(world.b, **world.env)
        known, later = (test_group.sender(world.a, '--members', 1, '--longs', 10000, '--bytes', 100,
                                          **world.env) for _ in range(2))
        for client in (known, later):
            check(client.json()['found'] == 1, 'the member was not found')
        check(test_group.send_long(known)['delivered'] == 1, 'the member was not reached')
        another_address(world, world.b, 78)
        for client in (known, later):
            wait_for(lambda: test_group.send_long(client)['delivered'] == 1, 'the member is not reached')
        member.end()
        another_address(world, world.b, home.split('.')[-1])


if __name__ == '__main__':
    if zookeeper.missing():
        netlab.skip(zookeeper.missing())
    netlab.main([finds, killed_and_started_again, many_started_again, many_started_again_slowly,
                 killed_and_started_elsewhere,
                 stopped_beyond_the_session, parted_beyond_the_session, server_restarted,
                 unreachable_at_open, doctor_warns, leader_killed,
                 registered_at_once_on_three_nodes, refused_by_its_acl, moved_between_hosts,
                 addresses_that_change, member_whose_address_changes, members_of_a_group, members_while_the_server_is_away],
                'nft', 'setpriv')
