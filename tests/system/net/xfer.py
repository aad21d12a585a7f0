# SPDX-License-Identifier: BSD-3-Clause
"""One transfer between two hosts of a lab by xfer, with every byte checked."""
import netlab
from netlab import check

SERVICE = 4711


class Result:
    """messages: of the sender, in order; sent, received: the last lines of both ends."""

    def __init__(self, messages, sent, received):
        self.messages, self.sent, self.received = messages, sent, received
        self.sent_shorts = {}
        self.seconds = sum(message['seconds'] for message in messages)
        self.bytes = sum(message['sent'] for message in messages)

    def __str__(self):
        if not self.messages:
            return ''
        return f'{self.bytes >> 20} MiB in {self.seconds:.2f} s, {self.bytes / self.seconds / 1e6:.0f} MB/s'


def serve(host, *arguments, **env):
    server = host.start(netlab.program('xfer'), 'serve', '--id', SERVICE, *arguments, **env)
    server.line('ready')
    return server


def send(host, size, *arguments, **env):
    return host.start(netlab.program('xfer'), 'send', '--to', SERVICE, '--bytes', size, *arguments, **env)


def finish(client, server, count=1):
    """Waits for both; each of count messages must have been delivered, once, and be right."""
    sent = client.end()
    messages = client.all('sent')
    received = server.end()
    check(len(messages) == count, f'{len(messages)} of {count} messages ended')
    for message in messages:
        check(message['status'] == 0 and message['outcome'] == 2, f'not delivered: {message}')
    check(received['wrong'] == 0, f'wrong bytes arrived: {received}')
    check(received['longs'] == count, f'{received["longs"]} of {count} arrived')
    check(received['bytes'] == sum(message['sent'] for message in messages) or not count,
          'not as many bytes arrived as were sent')
    result = Result(messages, sent, received)
    result.sent_shorts = next(iter(client.all('shorts')), {})
    return result


def transfer(a, b, size, *arguments, during=None, env=None):
    """Sends messages of size bytes from a to b; during(): what happens meanwhile."""
    env = env or {}
    arguments = [str(argument) for argument in arguments]
    count = int(arguments[arguments.index('--pieces') + 1]) if '--pieces' in arguments else 1
    # Both ends are as patient.
    patience = [] if '--peer-timeout-ms' not in arguments else \
        arguments[arguments.index('--peer-timeout-ms'):][:2]
    server = serve(b, *patience, **env)
    client = send(a, size, *arguments, **env)
    if during:
        client.line('found')
        during()
    return finish(client, server, 0 if '--shorts' in arguments else count)
