# SPDX-License-Identifier: BSD-3-Clause
"""sealed_peer.py and libripc, both with keys, on two hosts: handshakes from either end, every kind of message.

usage: test_sealed.py interop-partner
"""
import os
import subprocess
import sys
import tempfile
import time

import protocol as w
import test_interop as bare
from test_interop import DELIVERED, HERE, OURS, THEIRS, THERE, cut

try:
    import sealed as s
    import sealed_peer
except ImportError as absent:
    print(f'skipped: {absent} (apt-get install python3-cryptography)')
    sys.exit(bare.SKIP)

SECRET, AUTHORITY = os.urandom(32), os.urandom(32)


def write_keys(folder, private, authority=False, capabilities=()):
    files = {'private': private.hex(), 'secret': SECRET.hex()}
    if authority:
        files['authority'] = s.authority_of(AUTHORITY).hex()
        files['capabilities'] = '\n'.join(each.hex() for each in capabilities)
    for name, text in files.items():
        with open(os.path.join(folder, name), 'w', encoding='ascii',
                  opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
            file.write(text + '\n')


def member(test):
    only, = test.peer.udp.members.values()
    return only


def unmarked(test):
    """A query without a mark is answered without one; nobody takes the answer."""
    peer, nonce = test.peer, 4711
    peer.asking.sock.sendto(w.write_resolver(w.QUERY, nonce, peer.context, THEIRS), (THERE, bare.peers.PORT))
    test.wait(lambda: peer.asking.refused, 'no answer')
    record = w.decode_resolver(peer.asking.refused[-1])
    assert (record.type, record.id, record.nonce) == (w.RECORD, THEIRS, nonce)
    peer.asking.sock.sendto(s.mark(peer.keys, w.write_resolver(w.QUERY, nonce, peer.context, THEIRS))[:-1] + b'?',
                            (THERE, bare.peers.PORT))
    test.pause()
    assert all(len(data) < 700 and data == peer.asking.refused[0][:len(data)] or w.decode_resolver(data)
               for data in peer.asking.refused)


def contact(test):
    """INIT without a proof is answered PROOF; with it REPLY, and the empty DATA lets the first packets come."""
    peer = test.peer
    test.partner = peer.meet(peer.ask(THEIRS)[0])
    member(test).proof = 0
    peer.short(test.partner, cut(9))
    test.came('short', 9)
    assert [data[1] for data in peer.udp.seen[:2]] == [s.PROOF, s.REPLY]
    assert [data[1] for data in peer.udp.sent[:3]] == [s.INIT, s.INIT, s.DATA]
    shown = [s.read_capability(each) for each in member(test).shown]
    assert not peer.keys.authority or shown and all(each.holder == member(test).public for each in shown)


def replays(test):
    """Sent datagrams are sent again, and altered: without effect."""
    peer = test.peer
    data = [each for each in peer.udp.sent if each[1] == s.DATA][-20:]
    test.pause()
    at = len(peer.log)
    for each in data:
        for again in (each, each[:-1], each[:20] + bytes([each[20] ^ 4]) + each[21:], each + b'\0',
                      each[:8] + bytes([each[8] ^ 64]) + each[9:]):
            peer.udp.throw(again, member(test).where)
    test.pause()
    came = [w.NAMES[p.type] for p in peer.said(at)]
    assert not test.lines and not came, came
    peer.short(test.partner, cut(8))
    test.came('short', 8)


def new_keys(test):
    """A handshake amid a session: the old one still unseals, the new one seals."""
    peer, before = test.peer, member(test).session
    peer.udp.begin(member(test))
    test.wait(lambda: member(test).session is not before, 'no new session')
    for session in (before, member(test).session):
        member(test).session, test.partner.shorts = session, test.partner.shorts + 1
        peer.short(test.partner, cut(12), num=test.partner.shorts)
        test.came('short', 12)


def unknown(test):
    """A session that this end has lost: UNKNOWN leads to a handshake, and nothing is lost."""
    peer, at = test.peer, len(test.peer.udp.seen)
    peer.udp.forget()
    test.long(700)
    test.message('long', 700)
    assert test.completion() == (DELIVERED, 0)
    assert any(data[1] == s.INIT for data in peer.udp.seen[at:])


def begun_there(test):
    """The program begins the handshakes: one with a context that has ended, as REPLY says; one with the next context at
    that address, by PROOF."""
    peer = test.peer
    peer.renew()
    peer.group.sendto(peer.record(), (bare.peers.GROUP, bare.peers.PORT))
    test.pause()  # otherwise the message may go to the context that has ended
    peer.udp.answers, at = ['proof'], len(peer.udp.seen)
    test.long(900)
    test.message('long', 900)
    assert test.completion() == (DELIVERED, 0)
    kinds = [data[1] for data in peer.udp.seen[at:]]
    assert kinds.count(s.INIT) >= 2 and s.DATA in kinds
    test.partner = peer.partners[test.partner.incarnation]


STEPS = (bare.registration, bare.queries, unmarked, contact, bare.shorts_there, bare.longs_there, bare.gaps_there,
         bare.lends_there, bare.calls_there, bare.ordered_there, bare.cancels_there, bare.shorts_back, bare.longs_back,
         bare.gaps_back, bare.lends_back, bare.calls_back, bare.ordered_back, bare.echoes, replays, new_keys, unknown, begun_there, bare.goodbye_there)
FEW_STEPS = (bare.registration, contact, bare.shorts_there, bare.longs_there, bare.shorts_back, bare.longs_back, replays,
             new_keys, unknown, begun_there)


def refused(test):
    """Our capability has expired: REPLY says so, and no session follows."""
    peer = test.peer
    test.expect('ready 0')
    test.partner = peer.meet(peer.ask(THEIRS)[0])
    peer.short(test.partner, cut(9))
    test.wait(lambda: getattr(member(test), 'refused', 0), 'not refused')
    assert not member(test).session and not member(test).shown
    test.pause()
    assert not test.lines


def run(program, host, aes, authority, valid=True, steps=STEPS):
    ours, theirs = os.urandom(32), os.urandom(32)
    until = int(time.time()) + (1000 if valid else -1000)
    be = s.sign_capability(AUTHORITY, s.BE, OURS, until, s.public_of(ours))
    send = s.sign_capability(AUTHORITY, s.SEND, THEIRS, until, s.public_of(ours))
    both = s.sign_capability(AUTHORITY, s.BE | s.SEND, 0, int(time.time()) + 1000, s.public_of(theirs))
    keys = s.Keys(ours, SECRET, s.authority_of(AUTHORITY) if authority else None, [be, send] if authority else [])
    with tempfile.TemporaryDirectory(prefix='ripc-keys-') as folder:
        write_keys(folder, theirs, authority, [both])
        peer = sealed_peer.SealedPeer('interop.peer', HERE, keys, aes)
        test = bare.Test(program, host.enter(), peer=peer, RIPC_KEYS=folder)
        bare.run(test, steps)
        wrong = [each for each in peer.udp.wrong if each[0] != 'replayed']
        assert not wrong, f'malformed by the text: {wrong[:3]}'
        print(f'{len(peer.udp.seen)} datagrams opened, {len(peer.udp.sent)} made: '
              f'{"AES-128-GCM" if aes else "ChaCha20-Poly1305"}, {"an" if authority else "no"} authority', flush=True)


def main():
    if '--inside' not in sys.argv:
        if os.geteuid() != 0:
            print('skipped: network namespaces need root')
            sys.exit(bare.SKIP)
        sys.exit(subprocess.run(['unshare', '-n', sys.executable, *sys.argv, '--inside'], check=False).returncode)
    bare.must('ip', 'link', 'set', 'lo', 'up')
    host = bare.Host()
    try:
        run(sys.argv[1], host, 0, False)
        run(sys.argv[1], host, 1, True, steps=FEW_STEPS)
        run(sys.argv[1], host, 1, True, False, (refused,))
    finally:
        host.close()


if __name__ == '__main__':
    main()
