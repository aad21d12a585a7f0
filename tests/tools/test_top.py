# SPDX-License-Identifier: BSD-3-Clause
"""
"ripc top" shows what ripc_stats_get() tells, while processes work, stop and are killed; and shows it to nobody else.
usage: test_top.py BUILD_DIR SOURCE_DIR
"""
import array
import contextlib
import fcntl
import json
import os
import pty
import random
import re
import signal
import socket
import struct
import subprocess
import sys
import termios
import threading
import time

SKIP, PROCESSES, SERVICES, LINES, BASE = 77, 3, 20, 48, 0x7240_0000_0000_0000 + (os.getpid() << 20)
OTHER, NOBODY = 64003, 65534
MAGIC = 0x45474150
GAUGES = {'pool_bytes', 'pool_limit_bytes', 'pool_used_bytes', 'partners', 'partner_bytes', 'services',
          'granted_bytes', 'mapped_held_bytes', 'given_held_bytes', 'calls_open'}


def expect(what, condition, seen=None):
    if not condition:
        sys.exit(f'wrong: {what}: {seen}')
    print(what, flush=True)


def figures(source):
    """The names of struct ripc_stats but size, in their order."""
    with open(os.path.join(source, 'include/ripc/stats.h'), encoding='utf-8') as file:
        text = re.sub(r'/\*.*?\*/', '', file.read(), flags=re.S)
    return [name.strip() for names in re.findall(r'uint64_t ([^;]+);', text) for name in names.split(',')]


class Shown:
    """One process of tests/tools/shown.c."""

    def __init__(self, build, index, user=None):
        prefix = ['setpriv', '--reuid', str(user), '--clear-groups'] if user else []
        self.popen = subprocess.Popen([*prefix, os.path.join(build, 'tests/tools/shown'), str(index), str(PROCESSES),
                                       str(SERVICES), str(BASE)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.popen.stdout.readline() == 'ready\n'
        self.pid = self.popen.pid

    def say(self, word):
        self.popen.stdin.write(word + '\n')
        self.popen.stdin.flush()
        return self.popen.stdout.readline().strip()

    def stats(self, names):
        size, *values = struct.unpack(f'{1 + len(names)}Q', bytes.fromhex(self.say('stats')))
        assert size == 8 * (1 + len(names))
        return dict(zip(names, values))

    def end(self):
        self.popen.stdin.close()
        return self.popen.wait(20)


def top(build, *arguments, user=None, limit=None):
    prefix = ['prlimit', f'--nofile={limit}'] if limit else []
    prefix += ['setpriv', '--reuid', str(user), '--clear-groups'] if user else []
    done = subprocess.run([*prefix, os.path.join(build, 'tools/ripc'), 'top', '--once', *arguments], check=False, timeout=60,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, done.stdout
    return done.stdout


def contexts(build, user=None, limit=None):
    """The shown contexts, by process."""
    return {each['pid']: each for each in map(json.loads, top(build, '--json', user=user, limit=limit).splitlines())}


def check_equal(build, processes, names, are_idle):
    """
    The shown counters lie between those of ripc_stats_get() before and after; where nothing
    happens, they are equal.
    """
    before = [each.stats(names) for each in processes]
    seen = contexts(build)
    after = [each.stats(names) for each in processes]
    exact = 0
    for each, low, high in zip(processes, before, after):
        shown = seen[each.pid]
        assert set(shown['stats']) == set(names), set(shown['stats']) ^ set(names)
        assert {service['id'] for service in shown['services']} == {
            f'0x{BASE + 256 * processes.index(each) + i:016x}' for i in range(SERVICES)}
        for name, value in shown['stats'].items():
            is_free = name in GAUGES and not are_idle
            assert is_free or low[name] <= value <= high[name], f'{name}: {low[name]}, {value}, {high[name]}'
            exact += low[name] == high[name] == value
    total = PROCESSES * len(names)
    expect(f'{exact} of {total} figures are exactly those of ripc_stats_get(), the others between two of them',
           exact == total if are_idle else exact < total)
    return seen


def settle(processes, names):
    """Until nothing happens any more."""
    for _ in range(100):
        before = [each.stats(names) for each in processes]
        time.sleep(0.1)
        if before == [each.stats(names) for each in processes]:
            return
    sys.exit('the processes do not come to rest')


def check_figures(build, processes, names):
    for each in processes:
        each.say('load')
    time.sleep(1)
    check_equal(build, processes, names, False)
    for each in processes:
        each.say('idle')
    settle(processes, names)
    seen = check_equal(build, processes, names, True)
    partners = seen[processes[0].pid]['partners']
    expect('partners have a path', {'shm'} >= {each['network'] for each in partners if each['ready']} and
           any(each['ready'] and each['rtt_us'] for each in partners), partners[:1])
    whole = seen[processes[0].pid]
    expect('256 partners are told, and how many there are', whole['all_partners'] == whole['stats']['partners'] and
           len(partners) == min(256, whole['all_partners']) and any(each['shorts_out'] for each in partners))
    text = top(build)
    expect('people see each process', all(f'{"shown":15} {each.pid:7}' in text for each in processes))
    check_groups(build, processes, seen, text)


def check_groups(build, processes, seen, text):
    group, member = f'0x{0xff << 56 | BASE & 2 ** 56 - 1:016x}', f'0x{BASE:016x}'
    expect('the group of each first service is told', all(
        seen[each.pid]['members'] == [{'service': f'0x{BASE + 256 * i:016x}', 'group': group}] and
        seen[each.pid]['all_members'] == 1 for i, each in enumerate(processes)), seen[processes[0].pid]['members'])
    expect('also to people', re.search(f'^  {member} .*  in {group}$', text, re.M), text)


class Watching:
    """A ripc top that goes on."""

    def __init__(self, build, pid):
        self.popen = subprocess.Popen([os.path.join(build, 'tools/ripc'), 'top', '--json', '--interval', '100'],
                                      stdout=subprocess.PIPE, text=True)
        self.pid, self.last, self.seen_s, self.ends = pid, None, 0, False
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.popen.stdout:
            if self.ends and not line.endswith('\n'):
                return
            shown = json.loads(line)
            if shown['pid'] == self.pid:
                self.last, self.seen_s = shown, time.monotonic()

    def until(self, what, condition):
        end = time.monotonic() + 20
        while not (self.last and condition(self)):
            assert time.monotonic() < end, f'not seen: {what}: {self.last}'
            time.sleep(0.05)
        print(what)

    def end(self):
        self.ends = True
        self.popen.terminate()
        self.popen.wait()


def check_terminal(build, how):
    """On a terminal it shows a screen of its own; a key, or a signal, ends it and brings back the terminal."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(os.path.join(build, 'tools/ripc'), ['ripc', 'top', '--interval', '100'])
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack('HHHH', LINES, 110, 0, 0))
    heard = b''
    while heard.count(b'\033[H\033[J') < 4:
        heard += os.read(terminal, 65536)
    lines = heard.split(b'\033[H\033[J')[-2].decode().splitlines()
    titles = [number for number, line in enumerate(lines) if re.match(r'shown \d+, context', line)]
    expect(f'three contexts share {len(lines)} of {LINES} lines', len(titles) == 3 and len(lines) <= LINES and
           all(sum(bool(re.match('  ' + start, line)) for line in lines) == 3
               for start in ('service ', 'partner ', r'\.\.\. and \d+ services', r'\.\.\. and \d+ partners')),
           lines)
    if how:
        os.kill(pid, how)
    else:
        os.write(terminal, b'q')
    try:
        while chunk := os.read(terminal, 65536):
            heard += chunk
    except OSError:
        pass  # the other end is closed
    status = os.waitpid(pid, 0)[1]
    os.close(terminal)
    expect('a terminal is as before', status == 0 and b'\033[?1049h' in heard and heard.endswith(b'\033[?1049l') and
           b'pool used' in heard, (status, heard[-200:]))


def left_in_shm():
    """Our contexts only: other programs come and go."""
    return {name for name in os.listdir('/dev/shm') if 'ripc' in name}


def check_end(build, processes, names):
    """A process that is stopped, then killed."""
    victim, shm = processes[-1], left_in_shm()
    watching = Watching(build, victim.pid)
    victim.say('load')
    watching.until('rates are told', lambda w: w.last.get('rates', {}).get('short_sent', 0) > 0)
    victim.say('idle')
    os.kill(victim.pid, signal.SIGSTOP)
    watching.until('a stopped process does not answer, and its counters are there',
                   lambda w: not w.last['answers'] and w.last['stats']['short_sent'] > 0)
    os.kill(victim.pid, signal.SIGKILL)
    victim.popen.wait()
    watching.until('a killed process is not shown', lambda w: time.monotonic() - w.seen_s > 1)
    watching.end()
    expect('nothing is left in /dev/shm', left_in_shm() <= shm, left_in_shm() - shm)
    expect('its context is not listed', victim.pid not in contexts(build))
    for each in processes[:-1]:
        expect('an orderly end', each.end() == 0)


def ask_page(context, user):
    """Asks as a user; returns what comes, and whether a descriptor does."""
    script = f'''
import array, os, socket, struct
os.setgroups([]); os.setresuid({user}, {user}, {user})
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.settimeout(10)
try:
    s.connect(b"\\0ripc-life/0/{context[2:]}")
    s.send(struct.pack("<IIQ", {MAGIC}, 1, 0))
    data, ancillary, _, _ = s.recvmsg(100, 1000)
except (ConnectionResetError, BrokenPipeError):
    data, ancillary = b"", []
print(len(data), len(ancillary))
'''
    done = subprocess.run([sys.executable, '-c', script], check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout.strip()


def check_users(build, processes):
    context = contexts(build)[processes[0].pid]['context']
    expect('our page is handed to us', ask_page(context, 0) == '16 1')
    expect('to no other user', ask_page(context, OTHER) == '0 0')
    expect('to user nobody neither', ask_page(context, NOBODY) == '0 0')
    if subprocess.run(['setpriv', '--reuid', str(OTHER), '--clear-groups', 'test', '-x', os.path.join(build, 'tools/ripc')],
                      check=False).returncode:
        print('other users cannot run what was built here: not tried')
        return
    expect('another user sees nothing', not contexts(build, OTHER))
    theirs, unknown = Shown(build, 7, OTHER), Shown(build, 8, NOBODY)
    expect('root sees a user', theirs.pid in contexts(build))
    expect('a user sees itself and nobody else', set(contexts(build, OTHER)) == {theirs.pid})
    expect('the overflow uid is nobody', unknown.pid not in contexts(build) and not contexts(build, NOBODY))
    theirs.end()
    unknown.end()


FAKES = 8000  # kernels list names in various orders: of so many most come before some true one


def fakes_start():
    """Another user binds names of its own as contexts have them."""
    script = f'''
import os, resource, socket
resource.setrlimit(resource.RLIMIT_NOFILE, ({FAKES} + 100, {FAKES} + 100))
os.setgroups([]); os.setresuid({OTHER}, {OTHER}, {OTHER})
fakes = []
for i in range({FAKES}):
    fakes.append(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
    fakes[-1].bind(f"\\0ripc-life/{{os.getuid():x}}/{{i + 1:016x}}".encode())
    fakes[-1].listen()
print("ready", flush=True)
input()
'''
    popen = subprocess.Popen([sys.executable, '-c', script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert popen.stdout.readline() == 'ready\n'
    return popen


def check_fakes(build, processes):
    """Names of another user in any number hide nobody from root, whatever number of descriptors there is."""
    popen = fakes_start()
    late = Shown(build, 7)
    pids = {each.pid for each in (*processes, late)}
    expect(f'{FAKES} names of another user hide nobody', pids <= set(contexts(build)))
    expect('also with few descriptors', pids <= set(contexts(build, limit=250)))
    metrics = subprocess.run([os.path.join(build, 'tools/ripc'), 'metrics'], check=True, stdout=subprocess.PIPE, text=True).stdout
    expect('metrics show all processes', all(f'pid="{pid}"' in metrics for pid in pids))
    late.end()
    popen.communicate('\n')


class Liar:
    """Shows memory of its choice as a context of ours."""

    def __init__(self, dice):
        self.context = dice.getrandbits(64) | 1
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.bind(f'\0ripc-life/{os.getuid():x}/{self.context:016x}'.encode())
        self.socket.listen()
        self.answer, self.memory = b'', None
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                other, _ = self.socket.accept()
            except OSError:
                return
            # the asking process has not waited for so long
            with other, contextlib.suppress(OSError):
                other.recv(100)
                fds = array.array('i', [self.memory] if self.memory is not None else [])
                other.sendmsg([self.answer], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)] if fds else [])


def hostile_page(dice):
    """Bytes of a page, perhaps with a right head; and how the memory is sealed."""
    unit = os.sysconf('SC_PAGESIZE')
    size = dice.choice((0, 1, unit, unit + 40, *5 * (20 * unit,), 2 << 20))
    data = bytearray(dice.randbytes(size))
    if dice.random() < 0.8 and size > unit + 64:
        counts = [dice.choice((0, 20, 256, 256, 256, 257, 2 ** 32 - 1)) for _ in range(4)]
        counts += [dice.choice((0, 20, 64, 64, 64, 64, 65)), dice.getrandbits(32)]
        data[unit:unit + 56] = struct.pack('<IIIIQQIIIIII', MAGIC, dice.choice((1, 1, 1, 1, 1, 2)), 2 * dice.getrandbits(30) +
                                           (dice.random() < 0.1), dice.choice((8, 8, 8, 8, 4)), 0, 0,
                                           *counts)
    return bytes(data), dice.random() < 0.9


def check_liars(build):
    """Any page of a process of our user is printed as JSON, if it may be shown at all."""
    dice, shown = random.Random(24), 0
    liar = Liar(dice)
    for i in range(40):
        data, is_sealed = hostile_page(dice)
        liar.memory = os.memfd_create('liar', os.MFD_ALLOW_SEALING)
        os.write(liar.memory, data)
        if is_sealed:
            fcntl.fcntl(liar.memory, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
        liar.answer = dice.randbytes(dice.choice((1, 16, 16, 16, 16, 17)))
        lines = [each for each in top(build, '--json').splitlines() if f'0x{liar.context:016x}' in each]
        for each in map(json.loads, lines):
            assert is_sealed and len(each['services']) <= 256 and len(each['partners']) <= 256
            assert all(text.isprintable() for partner in each['partners'] for text in (partner['network'], partner['address']))
            shown += 1
        if i % 4 == 0:
            top(build)
        os.close(liar.memory)
    liar.socket.close()
    expect(f'40 pages of a liar, {shown} of which may be', 0 < shown < 40)


def check_troubles(build, source, processes, names, text):
    """Each context tells its losses, and no others. On a loaded machine there are some: a full ring of shorts, say."""
    with open(os.path.join(source, 'tools/look/screen.c'), encoding='utf-8') as file:
        losses = re.findall(r'"(\w+)"', re.search(r'losses\[\] = \{(.*?)\}', file.read(), re.S)[1])
    paragraphs = {int(each[1]): each[2] for each in re.finditer(r'^shown (\d+), context (.*?)(?=^shown |\Z)', text, re.M | re.S)}
    for each in processes:
        line = re.search(r'^  troubles: (.*)$', paragraphs[each.pid], re.M)
        shown = dict(trouble.split() for trouble in line[1].split(', ')) if line else {}
        stats = each.stats(names)
        expect(f'troubles: {shown}', shown == {name: str(stats[name]) for name in losses if stats[name]}, text)


def rates_of(text, processes):
    pids = [str(each.pid) for each in processes]
    rows = [row.split() for row in text.splitlines() if row.split()[1:2] and row.split()[1] in pids]
    return [row[2:8] for row in rows if len(row) == 10]


def check_rates(build, source, processes, names):
    """Two looks have rates, one has none. A context that is too slow to answer one of the looks, as on a loaded
    machine, has no rates either."""
    once = top(build)
    expect('one look has no rates', {cell for row in rates_of(once, processes) for cell in row} == {'-'}, once)
    check_troubles(build, source, processes, names, once)
    for _ in range(20):
        twice = top(build, '--interval', '200')
        rates = rates_of(twice, processes)
        if len(rates) == len(processes) and all('-' not in row for row in rates):
            break
    expect(f'rates: {rates[0]}', len(rates) == len(processes) and all('-' not in row for row in rates), twice)


def main(build, source):
    if os.geteuid() == 0 and '--inside' not in sys.argv:
        # Abstract names are those of a network namespace: nobody else's contexts are there.
        return subprocess.run(['unshare', '-n', sys.executable, *sys.argv, '--inside'], check=False).returncode
    if os.geteuid() == 0:
        subprocess.run(['ip', 'link', 'set', 'lo', 'up'], check=True)
    names = figures(source)
    processes = [Shown(build, i) for i in range(PROCESSES)]
    check_figures(build, processes, names)
    check_rates(build, source, processes, names)
    check_terminal(build, None)
    check_terminal(build, signal.SIGTERM)
    if os.geteuid() == 0:
        check_users(build, processes)
        check_fakes(build, processes)
    else:
        print('not tried without root: other users')
    check_end(build, processes, names)
    check_liars(build)
    return 0


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:3]))
