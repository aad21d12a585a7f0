# SPDX-License-Identifier: BSD-3-Clause
"""Long messages arrive whole and byte-exact at any loss, in both directions, one packet at a time."""
import netlab
from netlab import check
from xfer import send, serve, transfer

# With --full 200 MiB at each loss; else what takes about a second.
SIZES = {0: '200M', 1: '100M', 10: '30M', 30: '10M'}


def lossy(percent):
    with netlab.Lab() as lab:
        a, b = lab.host('a'), lab.host('b')
        device_a, device_b = lab.link(a, b, segment=percent > 0)
        a.lose(device_a, percent)
        b.lose(device_b, percent)
        result = transfer(a, b, '200M' if netlab.FULL else SIZES[percent])
        check(result.seconds < 60, f'took {result.seconds:.1f} s')
        return result


def loss_0():
    return lossy(0)


def loss_1():
    return lossy(1)


def loss_10():
    return lossy(10)


def loss_30():
    return lossy(30)


def shorts_are_single_datagrams():
    """Lost messages are lost; the rest arrives once and unaltered."""
    with netlab.Lab() as lab:
        a, b = lab.host('a'), lab.host('b')
        _, device = lab.link(a, b)
        b.lose(device, 10)
        result = transfer(a, b, 896, '--shorts', 5000)
        arrived = result.received['shorts']
        check(result.received['wrong'] == 0, 'a short was altered')
        check(0 < arrived < 5000, f'{arrived} of 5000 arrived at 10 % loss')
        return f'{arrived} of 5000'


def shorts_that_are_too_long():
    """Refused clients get a reason in words."""
    with netlab.Lab() as lab:
        a, b = lab.host('a'), lab.host('b')
        lab.link(a, b)
        serve(b)
        client = send(a, 1 << 20, '--shorts', 10)
        said = client.popen.stdout.read()
        check(client.popen.wait() == 1 and 'too many bytes for a short message' in said, said)


if __name__ == '__main__':
    netlab.main([loss_0, loss_1, loss_10, loss_30, shorts_are_single_datagrams,
                 shorts_that_are_too_long], 'nft', 'ethtool')
