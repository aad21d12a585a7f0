# SPDX-License-Identifier: BSD-3-Clause
"""Packet sizes: a small MTU, a jumbo one, and paths on which large packets vanish unsaid."""
import netlab
from netlab import check
from xfer import SERVICE, transfer, serve, send, finish


def with_mtu(mtu, size='50M'):
    with netlab.Lab() as lab:
        a, b = lab.host('a'), lab.host('b')
        lab.link(a, b, mtu=mtu)
        return transfer(a, b, '200M' if netlab.FULL else size)


def mtu_1280():
    return with_mtu(1280)


def mtu_9000():
    return with_mtu(9000)


def mtu_65535():
    return with_mtu(65535)


def vanishing(lab, limit=1300):
    """Two hosts between which packets longer than limit vanish, and nobody says so."""
    a, b = lab.host('a'), lab.host('b')
    device_a, device_b = lab.link(a, b, segment=True)
    for host, device in ((a, device_a), (b, device_b)):
        host.drop(device, f'meta l4proto udp meta length > {limit}')
    return a, b


def black_hole():
    with netlab.Lab() as lab:
        a, b = vanishing(lab)
        result = transfer(a, b, '200M' if netlab.FULL else '20M')
        check(result.sent['stats']['datagram_size_fallbacks'] == 1, 'no smaller size was chosen')
        return result


def black_hole_one_datagram():
    """A message that fits one large datagram, and would be repeated as such."""
    with netlab.Lab() as lab:
        a, b = vanishing(lab)
        return transfer(a, b, 1380, '--timeout-ms', 10000)


def black_hole_begins():
    """Large packets begin to vanish in mid-transfer."""
    with netlab.Lab() as lab:
        a, b = lab.host('a'), lab.host('b')
        device_a, device_b = lab.link(a, b, segment=True)
        b.rate(device_b, 1000)
        a.rate(device_a, 400)

        def begin():
            for host, device in ((a, device_a), (b, device_b)):
                host.drop(device, 'meta l4proto udp meta length > 1300')

        return transfer(a, b, '40M', during=begin)


def mtu_shrinks():
    """The route's MTU becomes smaller in mid-transfer, and the kernel says so."""
    with netlab.Lab() as lab:
        a, b = lab.host('a'), lab.host('b')
        device_a, device_b = lab.link(a, b)
        a.rate(device_a, 400)

        def shrink():
            a.ip('link', 'set', device_a, 'mtu', 1300)
            b.ip('link', 'set', device_b, 'mtu', 1300)

        return transfer(a, b, '40M', during=shrink)


def router_says_too_big():
    """A router in between has a smaller MTU than both ends and answers "fragmentation needed"."""
    with netlab.Lab() as lab:
        a, router, b = lab.host('a'), lab.host('r'), lab.host('b')
        lab.link(a, router)
        address_a, near = a.addresses[4], router.addresses[4]
        lab.link(router, b, mtu=1300)
        address_b, far = b.addresses[4], router.addresses[4]
        router.run('sysctl', '-q', '-w', 'net.ipv4.ip_forward=1')
        a.ip('route', 'replace', 'default', 'via', near)
        b.ip('route', 'replace', 'default', 'via', far)
        server = serve(b, RIPC_PEERS=address_a)
        client = send(a, '20M', RIPC_PEERS=address_b)
        return finish(client, server)


if __name__ == '__main__':
    netlab.main([mtu_1280, mtu_9000, mtu_65535, black_hole, black_hole_one_datagram,
                 black_hole_begins, mtu_shrinks, router_says_too_big], 'nft', 'ethtool', 'tc')
