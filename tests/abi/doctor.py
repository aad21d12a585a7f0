#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
"ripc doctor" finds fault with the environment where a program could not open a context, says what
is wrong, and says it in JSON, too. usage: doctor.py RIPC [--without-keys]
"""
import json
import os
import resource
import subprocess
import sys

TOOL = sys.argv[1]
HAS_KEYS = '--without-keys' not in sys.argv

# Settings, and the words that the report must contain; an empty list of words: no fault.
CASES = [
    ({}, []),
    ({'RIPC_OPTIONS': 'udp.gso=maybe'}, ['udp.gso', 'maybe', 'on or off']),
    ({'RIPC_OPTIONS': 'udp.port=abc'}, ['udp.port', 'abc', 'from 0 to 65535']),
    ({'RIPC_OPTIONS': 'udp.prot=5,resolver.ttl=999'},
     ['udp.prot', 'udp.port', 'resolver.ttl', 'from 0 to 255']),
    ({'RIPC_OPTIONS': 'foo.bar=1'}, ['foo.bar']),
    ({'RIPC_OPTIONS': 'resolver.port=abc'}, ['resolver.port', 'abc']),
    ({'RIPC_OPTIONS': 'resolver.group=10.0.0.1'}, ['resolver.group', '10.0.0.1']),
    ({'RIPC_OPTIONS': 'resolver.group6=ff02::1'}, ['resolver.group6', 'ff02::1']),
    ({'RIPC_OPTIONS': 'shm.uids=joe'}, ['shm.uids', 'joe', '/etc/passwd']),
    ({'RIPC_OPTIONS': 'shm.gids=any'}, ['shm.gids', 'any', '/etc/group']),
    ({'RIPC_OPTIONS': 'nonsense'}, ['nonsense']),
    ({'RIPC_BACKENDS': 'nope'}, ['nope', 'shm, ', 'udp']),
    ({'RIPC_PEERS': '127.0.0.1:0'}, ['127.0.0.1:0']),
    ({'RIPC_LOG': 'verbose'}, ['verbose', 'debug']),
    ({'RIPC_KEYS': '/nowhere'}, ['keys: ', '/nowhere' if HAS_KEYS else 'libssl-dev']),
    ({'RIPC_KEYS': ''}, ['RIPC_KEYS is empty']),
]

# A limit, and what the findings before the environment must name then.
LIMITS = [
    (resource.RLIMIT_FSIZE, 0, ['memfd_create', 'RLIMIT_FSIZE', 'usable']),
]


def doctor(settings, *arguments):
    kept = {k: v for k, v in os.environ.items() if not k.startswith('RIPC_')}
    return subprocess.run([TOOL, 'doctor', *arguments], env={**kept, **settings},
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          universal_newlines=True, timeout=60)


def wrongs(settings, words):
    """The faults of the report with these settings, in words."""
    ran = doctor(settings)
    # The environment's own section repeats what is set.
    said = ran.stdout.split('\nenvironment\n')[0]
    if ran.returncode != (1 if words else 0):
        yield f'exit status {ran.returncode}'
    for word in words:
        if word not in said:
            yield f'does not say "{word}":\n{ran.stdout}{ran.stderr}'
    if 'resolver' in settings.get('RIPC_OPTIONS', '') and 'correct RIPC_PEERS' in said:
        yield f'blames RIPC_PEERS:\n{said}'
    ran = doctor(settings, '--json')
    findings = json.loads(ran.stdout)['findings']
    refused = [f for f in findings if f['kind'] == 'configuration' or f.get('usable') is False]
    if words and not any(words[0] in f['detail'] and f['remedy'] for f in refused):
        yield f'no finding of the JSON says "{words[0]}": {refused}'
    if not words and any(f['kind'] == 'configuration' for f in findings):
        yield f'finds fault with what is right: {refused}'


def limited(resource_of, limit, words):
    """Missing parts of the report of a process with this limit, in words."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith('RIPC_')}
    ran = subprocess.run([TOOL, 'doctor'], env=kept, stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, universal_newlines=True, timeout=60,
                         preexec_fn=lambda: resource.setrlimit(resource_of, (limit, limit)))
    said = ran.stdout.split('\nenvironment\n')[0]
    for word in words:
        if word not in said:
            yield f'does not say "{word}":\n{ran.stdout}{ran.stderr}'


def main():
    n_wrong = 0
    for limit in LIMITS:
        for wrong in limited(*limit):
            print(f'{limit}: {wrong}')
            n_wrong += 1
    for settings, words in CASES:
        for wrong in wrongs(settings, words):
            print(f'{settings}: {wrong}')
            n_wrong += 1
    print(f'{len(CASES)} environments, {n_wrong} faults')
    return 1 if n_wrong else 0


if __name__ == '__main__':
    sys.exit(main())
