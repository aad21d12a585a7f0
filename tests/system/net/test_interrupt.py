# SPDX-License-Identifier: BSD-3-Clause
"""A network that fails in mid-transfer and comes back, or whose addresses change."""
import time

import netlab
from netlab import check
from xfer import transfer

MBIT = 200  # slow enough for a transfer to be in its middle


def pair(lab):
    a, b = lab.host('a'), lab.host('b')
    device_a, device_b = lab.link(a, b)
    a.rate(device_a, MBIT)
    b.rate(device_b, MBIT)
    return a, b, device_a, device_b


def in_the_middle(host, device):
    """Waits until some megabytes have passed."""
    def passed():
        return int(host.run('cat', f'/sys/class/net/{device}/statistics/tx_bytes')) > 5 << 20

    netlab.wait_for(passed, 'the transfer has not begun')


def silence(seconds, *arguments):
    with netlab.Lab() as lab:
        a, b, device_a, device_b = pair(lab)

        def black_hole():
            in_the_middle(a, device_a)
            for host, device in ((a, device_a), (b, device_b)):
                host.drop(device, 'meta l4proto udp')
            time.sleep(seconds)
            for host, device in ((a, device_a), (b, device_b)):
                host.pass_all(device)

        return transfer(a, b, '200M' if netlab.FULL else '30M', *arguments, during=black_hole)


def black_hole_1_s():
    return silence(1)


def black_hole_5_s():
    """Longer than a partner may be silent by default, so both ends allow more."""
    return silence(5, '--peer-timeout-ms', 15000)


def link_goes_down():
    """The interface goes down for a second: the kernel refuses to send meanwhile."""
    with netlab.Lab() as lab:
        a, b, device_a, _ = pair(lab)

        def down():
            in_the_middle(a, device_a)
            a.ip('link', 'set', device_a, 'down')
            time.sleep(1)
            a.ip('link', 'set', device_a, 'up')
            a.ip('route', 'replace', 'default', 'dev', device_a)

        return transfer(a, b, '30M', during=down)


def address_changes(of_sender):
    with netlab.Lab() as lab:
        a, b, device_a, device_b = pair(lab)
        host, device = (a, device_a) if of_sender else (b, device_b)

        def change():
            in_the_middle(a, device_a)
            old = f'{host.addresses[4]}/24'
            lab.address(host, device, 1, 77, ipv6=False)
            host.ip('address', 'del', old, 'dev', device)
            host.ip('route', 'replace', 'default', 'dev', device)

        return transfer(a, b, '30M', during=change)


def sender_moves():
    return address_changes(of_sender=True)


def receiver_moves():
    return address_changes(of_sender=False)


def nobody_is_there():
    """An unknown service is an error within the deadline."""
    with netlab.Lab() as lab:
        a, b = lab.host('a'), lab.host('b')
        lab.link(a, b)
        client = a.start(netlab.program('xfer'), 'send', '--to', 99, '--bytes', 100)
        status = client.popen.wait()
        check(status == 1, f'exit status {status}')
        said = client.popen.stdout.read()
        check('no service has that ID' in said, f'said: {said}')
        return said.strip()


if __name__ == '__main__':
    netlab.main([black_hole_1_s, black_hole_5_s, link_goes_down, sender_moves, receiver_moves,
                 nobody_is_there], 'nft', 'tc')
