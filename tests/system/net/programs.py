# SPDX-License-Identifier: BSD-3-Clause
"""Runs the programs that come with the library, for the tests of them."""
import os
import signal
import subprocess
import sys
import time

BUILD = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 else os.getcwd()
ENVIRONMENT = dict(os.environ, RIPC_BACKENDS='udp')
DEADLINE_S = 120  # far beyond what any command here takes: a hang, not slowness, exceeds it
FOLDERS = {'ripc': 'tools', 'ripc-bench': 'bench', 'tcp_files': 'bench/compare', 'net-asker': 'tests/system/net'}


def program(name):
    return os.path.join(BUILD, FOLDERS.get(name, 'examples'), name)


def run(name, *args, env=None, **kwargs):
    """Runs a program to its end. Returns a CompletedProcess with bytes."""
    if 'input' not in kwargs:
        kwargs['stdin'] = subprocess.DEVNULL
    return subprocess.run([program(name), *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          env=env or ENVIRONMENT, timeout=DEADLINE_S, **kwargs)


def run_found(name, *args, **kwargs):
    """Runs again what has found nobody: who is stopped for a second is taken not to be there."""
    for _ in range(10):
        began = time.monotonic()
        done = run(name, *args, **kwargs)
        # Sooner it has not looked.
        if b'no service has that ID' not in done.stderr or time.monotonic() - began < 0.9:
            break
    return done


def start(*command, env=None, **environment):
    """Starts a server and waits until it says that it serves."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE,
                               env=dict(env or ENVIRONMENT, **environment))
    line = process.stdout.readline()
    if b'serving' not in line:
        process.kill()
        raise RuntimeError('%s did not start: %r' % (command[0], line))
    return process


def handles(pid, number):
    """Has the process a handler for that signal?"""
    try:
        with open('/proc/%d/status' % pid) as status:
            caught = [line.split()[1] for line in status if line.startswith('SigCgt:')]
    except OSError:
        return False
    return bool(caught) and int(caught[0], 16) >> number - 1 & 1 == 1


def signal_when_handled(process, number):
    """Before a process has its handler the signal would kill it."""
    while process.poll() is None and not handles(process.pid, number):
        time.sleep(0.01)
    process.send_signal(number)


def stop(process):
    process.send_signal(signal.SIGTERM)
    process.wait(DEADLINE_S)
    process.stdout.close()
    return process.returncode
