# SPDX-License-Identifier: BSD-3-Clause
"""
The statements of docs/deploy.md hold: its unit, its sandbox, and which restriction costs which
network.
"""
import ctypes
import os
import re
import shutil
import subprocess
import sys
import tempfile

import netlab
from netlab import check
from xfer import SERVICE

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', '..')
SERVER, CLIENT, GROUP = 64001, 64002, 64100
FAMILIES = {'AF_UNIX': 1, 'AF_INET': 2, 'AF_INET6': 10, 'AF_NETLINK': 16}
# seccomp(2), bpf(2)
LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06
KILL, ALLOW, ERRNO = 0x80000000, 0x7fff0000, 0x00050000
NUMBER_AT, FIRST_ARGUMENT_AT = 0, 16
EAFNOSUPPORT = 97
PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, SECCOMP_MODE_FILTER = 22, 38, 2


# ---- what the page says ----

def page():
    with open(os.path.join(ROOT, 'docs/deploy.md'), encoding='utf-8') as file:
        return file.read()


def block(kind, beginning):
    """The block of code of this kind whose text begins so."""
    found = [text for text in re.findall(f'```{kind}\n(.*?)```', page(), re.DOTALL)
             if text.startswith(beginning)]
    check(len(found) == 1, f'docs/deploy.md: {len(found)} blocks of {kind} begin with {beginning}')
    return found[0]


def unit():
    """The unit's settings by name; the last one counts."""
    return dict(line.split('=', 1) for line in block('ini', '[Unit]').split('\n') if '=' in line)


def command(beginning):
    """A command of the page, without the program that it runs."""
    words = block('sh', beginning).replace('\\\n', ' ').split()
    check(words[-1] == 'greeter', f'docs/deploy.md: the command ends with {words[-1]}')
    return words[:-1]


# ---- what the unit's filters let pass ----

class Code(ctypes.Structure):
    _fields_ = [('code', ctypes.c_ushort), ('yes', ctypes.c_ubyte), ('no', ctypes.c_ubyte),
                ('k', ctypes.c_uint)]


class Filter(ctypes.Structure):
    _fields_ = [('len', ctypes.c_ushort), ('codes', ctypes.POINTER(Code))]


def calls_of(group):
    """All system calls of a set of systemd."""
    said = netlab.run('systemd-analyze', 'syscall-filter', group)
    names = re.findall(r'^    ([@a-z0-9_-]+)$', said, re.MULTILINE)
    return {call for name in names
            for call in (calls_of(name) if name.startswith('@') else [name])}


def numbers_of(calls):
    defined = netlab.run('cc', '-E', '-dM', '-include', 'sys/syscall.h', '-x', 'c', '/dev/null')
    known = dict(re.findall(r'#define __NR_(\w+) (\d+)', defined))
    return {call: int(known[call]) for call in calls if call in known}


def confine(families, numbers, program):
    """Runs a program that is killed at any other system call, and gets no other socket."""
    codes = [(LOAD, 0, 0, NUMBER_AT)]
    for call, number in numbers.items():
        if call != 'socket':
            codes += [(EQUAL, 0, 1, number), (RETURN, 0, 0, ALLOW)]
    # The last one: what follows is for socket() alone.
    codes += [(EQUAL, 1, 0, numbers['socket']), (RETURN, 0, 0, KILL),
              (LOAD, 0, 0, FIRST_ARGUMENT_AT)]
    for family in families:
        codes += [(EQUAL, 0, 1, FAMILIES[family]), (RETURN, 0, 0, ALLOW)]
    codes += [(RETURN, 0, 0, ERRNO | EAFNOSUPPORT)]
    code = (Code * len(codes))(*codes)
    if netlab.LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or \
            netlab.LIBC.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER,
                              ctypes.byref(Filter(len(codes), code))):
        sys.exit(f'no filter: {os.strerror(ctypes.get_errno())}')
    os.execvp(program[0], program)


def confined(families, calls):
    """The command that runs what follows it so."""
    numbers = ','.join(f'{call}={number}' for call, number in numbers_of(calls).items())
    return (sys.executable, os.path.abspath(__file__), '--confine', ','.join(families), numbers)


def unit_confined(families=None):
    return confined(families or unit()['RestrictAddressFamilies'].split(),
                    calls_of(unit()['SystemCallFilter']))


# ---- a server, and a client that says by which network it reached it ----

def as_user(user, group=None):
    groups = ('--groups', group) if group else ('--clear-groups',)
    return ('setpriv', '--reuid', user, '--regid', user, *groups)


def tool():
    return os.path.join(netlab.PROGRAMS, '..', '..', '..', 'tools', 'ripc')


def reached(server_by, client_by, server_host=None, **env):
    """The output of the client. *_by: the command that runs the program."""
    # The sanitizers' search for leaks is no part of what is deployed.
    env = {'RIPC_INTERFACES': 'lo', 'ASAN_OPTIONS': 'detect_leaks=0', **env}
    with netlab.Lab() as lab:
        host = lab.host('a')
        host.ip('route', 'add', '224.0.0.0/4', 'dev', 'lo')
        probe = host.start(*as_user(CLIENT), 'test', '-x', tool())
        if probe.popen.wait() != 0:
            netlab.skip('other users cannot run what was built here')
        other = lab.host('b') if server_host else host
        server = other.start(*server_by, netlab.program('xfer'), 'serve', '--id', SERVICE, **env)
        server.line('ready')
        client = host.start(*client_by, tool(), 'ping', SERVICE, '-c', 3, '-i', 1, '--timeout',
                            2000, **env)
        said = client.popen.stdout.read()
        client.popen.wait()
        return said


def expect(path, *arguments, **env):
    said = reached(*arguments, **env)
    check('3 sent, 3 answered' in said and f'path: {path}' in said, said)


def group_env():
    """The unit's environment, with a number for the group: the test makes no group."""
    words = unit()['Environment'].split()
    env = dict(word.split('=', 1) for word in words)
    group = unit()['SupplementaryGroups']
    check(env['RIPC_OPTIONS'] == f'shm.gids={group}', 'the unit names another group')
    return {**env, 'RIPC_OPTIONS': f'shm.gids={GROUP}'}


def needs(program):
    """A case is left out without this program; the others run."""
    def decorate(case):
        def run():
            if shutil.which(program):
                return case()
            return f'skipped: there is no program "{program}"'
        run.__name__ = case.__name__
        return run
    return decorate


# ---- cases ----

@needs('systemd-analyze')
def unit_is_sound():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'greeter.service')
        with open(path, 'w', encoding='utf-8') as file:
            file.write(block('ini', '[Unit]').replace('/usr/local/bin/greeter', '/bin/true'))
        done = subprocess.run(['systemd-analyze', 'verify', '--man=no', path],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              check=False)
    about = [line for line in done.stdout.split('\n') if 'greeter' in line]
    check(done.returncode == 0 and not about, done.stdout)


@needs('systemd-analyze')
def unit_shares_memory():
    """Two users in one group, under the unit's filters: all calls are in the set."""
    within = unit_confined()
    expect('shm', [*as_user(SERVER, GROUP), *within], [*as_user(CLIENT, GROUP), *within],
           **group_env())


@needs('systemd-analyze')
def unit_by_udp():
    within = unit_confined()
    expect('udp', [*as_user(SERVER, GROUP), *within], [*as_user(CLIENT), *within], **group_env())


@needs('systemd-analyze')
def one_user_by_unix_sockets_alone():
    within = unit_confined(['AF_UNIX'])
    expect('shm', [*as_user(SERVER), *within], [*as_user(SERVER), *within],
           RIPC_BACKENDS='shm', RIPC_OPTIONS='resolver.sources=local')


@needs('systemd-analyze')
def other_user_without_netlink():
    within = unit_confined(['AF_UNIX', 'AF_INET', 'AF_INET6'])
    said = reached([*as_user(SERVER, GROUP)], [*as_user(CLIENT, GROUP), *within], **group_env())
    check('3 sent' not in said and 'another user' in said, said)


@needs('systemd-analyze')
def filters_confine():
    """The filter of these tests does refuse: what is not in its list kills."""
    with netlab.Lab() as lab:
        host = lab.host('a')
        for left_out, kills in ((set(), False), ({'getcwd'}, True)):
            within = confined(['AF_UNIX'], calls_of('@system-service') - left_out)
            status = host.start(*within, '/bin/pwd', '-P').popen.wait()
            check(status < 0 if kills else status == 0, f'without {left_out}: status {status}')


def bwrap():
    words = command('bwrap')
    # Programs built here may be below /tmp.
    words[words.index('/tmp') - 1:words.index('/tmp') + 1] = []
    return words


@needs('bwrap')
def sandboxes_share_memory():
    within = bwrap()
    expect('shm', within, within)
    expect('shm', [], within)
    expect('shm', [*as_user(SERVER), *within], [*as_user(SERVER), *within])
    expect('shm', [*within, *as_user(SERVER, GROUP)], [*within, *as_user(CLIENT, GROUP)],
           **group_env())


@needs('bwrap')
def sandboxes_of_two_users():
    """A user namespace each: no number of the other one, so no shared memory."""
    within = bwrap()
    expect('udp', [*as_user(SERVER, GROUP), *within], [*as_user(CLIENT, GROUP), *within],
           **group_env())


@needs('bwrap')
def sandbox_without_network():
    within = bwrap()
    said = reached([*within, '--unshare-net'], within)
    check('3 sent' not in said and 'service not found' in said, said)


def namespaces_that_do_not_matter():
    apart = ['unshare', '--pid', '--fork', '--kill-child', '--mount-proc', '--ipc', '--uts',
             '--cgroup']
    expect('shm', apart, apart)


def another_network_namespace():
    said = reached([], [], server_host=True)
    check('3 sent' not in said and 'in another network namespace of this host' in said, said)


def proc_without_sys():
    """systemd's ProcSubset=pid."""
    hidden = ['unshare', '--mount', 'sh', '-c',
              'mount -t proc -o subset=pid proc /proc && exec "$@"', 'sh']
    expect('udp', hidden, [])


def setpriv_of_the_page():
    words = command('setpriv')
    check(words[words.index('--groups') + 1] == str(GROUP), 'another group')
    expect('shm', words, [*as_user(CLIENT, GROUP), 'env', f'RIPC_OPTIONS=shm.gids={GROUP}'])


if __name__ == '__main__':
    if sys.argv[1] == '--confine':
        confine(sys.argv[2].split(','), {word.split('=')[0]: int(word.split('=')[1])
                                         for word in sys.argv[3].split(',')}, sys.argv[4:])
    netlab.main([unit_is_sound, unit_shares_memory, unit_by_udp, one_user_by_unix_sockets_alone,
                 other_user_without_netlink, filters_confine, sandboxes_share_memory,
                 sandboxes_of_two_users, sandbox_without_network, namespaces_that_do_not_matter,
                 another_network_namespace, proc_without_sys, setpriv_of_the_page],
                'setpriv', 'unshare')
