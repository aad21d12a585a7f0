# SPDX-License-Identifier: BSD-3-Clause
"""Sealed datagrams, handshakes, capabilities and marks, written from docs/protocol.md and
docs/security.md alone, the sources unread, on the package cryptography. Errors according to the
text raise Malformed."""
import hashlib
import hmac
import struct
from types import SimpleNamespace as Bag

from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from protocol import Malformed, want

MAGIC = 0x92
INIT, REPLY, PROOF, DATA, UNKNOWN = range(1, 6)
CHACHA, AES = 1, 2
BE, SEND = 1, 2
MAC = 16
HEADER = struct.Struct('<BBHI')
INIT_PART, REPLY_PART = struct.Struct('<QQQ'), struct.Struct('<II')
SAID, ANSWERED = struct.Struct('<QBB6sQ'), struct.Struct('<IBBBBQQ')
CAPABILITY = struct.Struct('<BB6sQQ32s')
CAPABILITY_BYTES, CAPABILITIES = 120, 8
NAME = b'Noise_IKpsk2_25519_ChaChaPoly_SHA256'
WINDOW = 1024
INIT_BYTES, PROOF_BYTES = 1128, 752


def hmac_sha256(key, data):
    return hmac.new(key, data, hashlib.sha256).digest()


def public_of(private):
    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)


def authority_of(private):
    return Ed25519PrivateKey.from_private_bytes(private).public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)


def exchange(private, public):
    try:
        return X25519PrivateKey.from_private_bytes(private).exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError as wrong:
        raise Malformed('a key that yields zero') from wrong


class Keys:
    """The contents of a directory of keys."""

    def __init__(self, private, secret, authority=None, capabilities=()):
        self.private, self.public, self.authority = private, public_of(private), authority
        self.capabilities = list(capabilities)
        self.psk = hmac_sha256(secret, b'ripc psk 1')
        self.handshakes = hmac_sha256(secret, b'ripc handshakes 1')
        self.records = hmac_sha256(secret, b'ripc records 1')


# ---- Noise (revision 34, sections 5 and 9)


class Noise:
    """IKpsk2 between two; the names are those of the specification."""

    def __init__(self, prologue, responder):
        self.ck = self.h = hashlib.sha256(NAME).digest() if len(NAME) > 32 else NAME.ljust(32, b'\0')
        self.k, self.n, self.rs, self.re, self.e = None, 0, responder, None, None
        self.mix_hash(prologue)
        self.mix_hash(responder)

    def mix_hash(self, data):
        self.h = hashlib.sha256(self.h + data).digest()

    def hkdf(self, material, n):
        temporary, outputs = hmac_sha256(self.ck, material), [b'']
        for i in range(n):
            outputs.append(hmac_sha256(temporary, outputs[-1] + bytes([i + 1])))
        return outputs[1:]

    def mix_key(self, material):
        (self.ck, self.k), self.n = self.hkdf(material, 2), 0

    def mix_key_and_hash(self, material):
        self.ck, extra, self.k = self.hkdf(material, 3)
        self.n = 0
        self.mix_hash(extra)

    def mix_ephemeral(self, public):
        self.mix_hash(public)
        self.mix_key(public)  # section 9.2

    def encrypt(self, plain):
        cipher = ChaCha20Poly1305(self.k).encrypt(struct.pack('<IQ', 0, self.n), plain, self.h)
        self.n += 1
        self.mix_hash(cipher)
        return cipher

    def decrypt(self, cipher):
        try:
            plain = ChaCha20Poly1305(self.k).decrypt(struct.pack('<IQ', 0, self.n), cipher, self.h)
        except InvalidTag as wrong:
            raise Malformed('forged') from wrong
        self.n += 1
        self.mix_hash(cipher)
        return plain

    def write_first(self, private, ephemeral, payload):
        self.e = ephemeral
        self.mix_ephemeral(public_of(ephemeral))
        self.mix_key(exchange(ephemeral, self.rs))
        static = self.encrypt(public_of(private))
        self.mix_key(exchange(private, self.rs))
        return public_of(ephemeral) + static + self.encrypt(payload)

    def read_first(self, private, message):
        want(len(message) >= 96, 'short')
        self.re = message[:32]
        self.mix_ephemeral(self.re)
        self.mix_key(exchange(private, self.re))
        self.rs = self.decrypt(message[32:80])
        self.mix_key(exchange(private, self.rs))
        return self.decrypt(message[80:])

    def write_second(self, ephemeral, psk, payload):
        self.mix_ephemeral(public_of(ephemeral))
        self.mix_key(exchange(ephemeral, self.re))
        self.mix_key(exchange(ephemeral, self.rs))
        self.mix_key_and_hash(psk)
        return public_of(ephemeral) + self.encrypt(payload)

    def read_second(self, private, psk, message):
        want(len(message) >= 48, 'short')
        self.re = message[:32]
        self.mix_ephemeral(self.re)
        self.mix_key(exchange(self.e, self.re))
        self.mix_key(exchange(private, self.re))
        self.mix_key_and_hash(psk)
        return self.decrypt(message[32:])

    def split(self):
        """The keys: the initiator's, the responder's."""
        return self.hkdf(b'', 2)


# ---- capabilities


def read_capability(data):
    version, what, zero, id, until, holder = CAPABILITY.unpack_from(data)
    want(len(data) == CAPABILITY_BYTES and version == 1 and 1 <= what <= 3 and not any(zero), 'capability')
    return Bag(what=what, id=id, until=until, holder=holder, signature=data[56:])


def sign_capability(authority, what, id, until, holder):
    signed = CAPABILITY.pack(1, what, bytes(6), id, until, holder)
    return signed + Ed25519PrivateKey.from_private_bytes(authority).sign(b'ripc capability 1' + signed)


def is_signed(authority, data):
    try:
        Ed25519PublicKey.from_public_bytes(authority).verify(data[56:], b'ripc capability 1' + data[:56])
    except InvalidSignature:
        return False
    return True


def capabilities_of(data, n):
    want(n <= CAPABILITIES and len(data) == n * CAPABILITY_BYTES, 'capabilities')
    return [data[at:at + CAPABILITY_BYTES] for at in range(0, len(data), CAPABILITY_BYTES)]


def private_id(public, low):
    """The private ID of a key with these lower 24 bits."""
    begins, = struct.unpack_from('<Q', hashlib.sha256(b'ripc private 1' + public).digest())
    return begins & ~(1 << 63 | 0xffffff) | low & 0xffffff


# ---- handshakes


def finish(keys, data):
    return data + hmac_sha256(keys.handshakes, data)[:MAC]


def opened(keys, data, kind):
    """The part between the header and the MAC, and the index."""
    want(len(data) >= HEADER.size + MAC, 'short')
    magic, is_kind, zero, index = HEADER.unpack_from(data)
    want(magic == MAGIC and is_kind == kind and not zero and index, 'header')
    want(hmac.compare_digest(finish(keys, data[:-MAC]), data), 'mac')
    return data[HEADER.size:-MAC], index


def prologue(init):
    return b'ripc handshake 2' + init[:32]


def write_init(keys, responder, ephemeral, index, context, to_context, proof, stamp, aes, reset):
    """INIT, and the handshake that it begins."""
    header = HEADER.pack(MAGIC, INIT, 0, index) + INIT_PART.pack(context, to_context, proof)
    noise = Noise(prologue(header), responder)
    said = SAID.pack(stamp, aes, len(keys.capabilities), bytes(6), reset) + b''.join(keys.capabilities)
    said = said.ljust(SAID.size + CAPABILITIES * CAPABILITY_BYTES, b'\0')
    return finish(keys, header + noise.write_first(keys.private, ephemeral, said)), noise


def read_init(keys, data):
    want(len(data) == INIT_BYTES, 'length')
    part, index = opened(keys, data, INIT)
    context, to_context, proof = INIT_PART.unpack_from(part)
    noise = Noise(prologue(data), keys.public)
    payload = noise.read_first(keys.private, part[INIT_PART.size:])
    stamp, aes, n, zero, reset = SAID.unpack_from(payload)
    shown, rest = payload[SAID.size:][:n * CAPABILITY_BYTES], payload[SAID.size + n * CAPABILITY_BYTES:]
    want(aes <= 1 and not any(zero) and not any(rest), 'payload')
    return Bag(index=index, context=context, to_context=to_context, proof=proof, noise=noise, public=noise.rs, stamp=stamp,
               aes=aes, reset=reset, mac=data[-MAC:], capabilities=capabilities_of(shown, n))


def write_reply(keys, init, ephemeral, own_index, cipher, refused, context, reset):
    """REPLY to an INIT that was read, and the keys."""
    shown = [] if refused else keys.capabilities
    payload = ANSWERED.pack(own_index, cipher, refused, len(shown), 0, context, reset) + b''.join(shown)
    header = HEADER.pack(MAGIC, REPLY, 0, init.index) + REPLY_PART.pack(own_index, 0)
    return finish(keys, header + init.noise.write_second(ephemeral, keys.psk, payload)), init.noise.split()


def read_reply(keys, noise, data):
    part, index = opened(keys, data, REPLY)
    want(len(part) >= REPLY_PART.size, 'short')
    own_index, zero = REPLY_PART.unpack_from(part)
    payload = noise.read_second(keys.private, keys.psk, part[REPLY_PART.size:])
    want(not zero and len(payload) >= ANSWERED.size, 'short')
    again, cipher, refused, n, zero, context, reset = ANSWERED.unpack_from(payload)
    want(again == own_index and own_index and cipher in (CHACHA, AES) and refused <= 1 and not zero, 'payload')
    return Bag(index=index, own_index=own_index, cipher=cipher, refused=refused, context=context, reset=reset, split=noise.split(),
               capabilities=capabilities_of(payload[ANSWERED.size:], n))


def write_proof(keys, init, proof):
    made = HEADER.pack(MAGIC, PROOF, 0, init.index) + struct.pack('<QQ', init.context, proof) + init.mac
    return finish(keys, made.ljust(PROOF_BYTES - MAC, b'\0'))


def read_proof(keys, data):
    part, index = opened(keys, data, PROOF)
    want(len(data) == PROOF_BYTES and not any(part[32:]), 'length')
    return Bag(index=index, mac=part[16:32], **dict(zip(('context', 'proof'), struct.unpack('<QQ', part[:16]))))


def write_unknown(keys, index, counter, reset):
    return finish(keys, HEADER.pack(MAGIC, UNKNOWN, 0, index) + struct.pack('<QQ', counter, reset))


def read_unknown(keys, data):
    part, index = opened(keys, data, UNKNOWN)
    want(len(part) == 16, 'length')
    return Bag(index=index, **dict(zip(('counter', 'reset'), struct.unpack('<QQ', part))))


# ---- sessions


class Session:
    def __init__(self, cipher, split, initiator, index, their_index):
        ours, theirs = split if initiator else reversed(split)
        self.cipher, self.index, self.their_index = cipher, index, their_index
        self.sealing, self.unsealing = (AESGCM(key[:16]) if cipher == AES else ChaCha20Poly1305(key)
                                        for key in (ours, theirs))
        self.counter, self.came, self.top = 0, set(), -1

    def nonce(self, counter):
        return bytes(4) + counter.to_bytes(8, 'big' if self.cipher == AES else 'little')

    def seal(self, plain, counter=None):
        if counter is None:
            counter, self.counter = self.counter, self.counter + 1
        header = HEADER.pack(MAGIC, DATA, 0, self.their_index) + struct.pack('<Q', counter)
        return header + self.sealing.encrypt(self.nonce(counter), plain, header)

    def unseal(self, data):
        want(len(data) >= 32, 'short')
        magic, kind, zero, index = HEADER.unpack_from(data)
        want(magic == MAGIC and kind == DATA and not zero and index == self.index, 'header')
        counter, = struct.unpack_from('<Q', data, 8)
        want(counter not in self.came and counter > self.top - WINDOW, 'replayed')
        try:
            plain = self.unsealing.decrypt(self.nonce(counter), data[16:], data[:16])
        except InvalidTag as wrong:
            raise Malformed('forged') from wrong
        self.came.add(counter)
        self.top = max(self.top, counter)
        return plain


# ---- the resolver's datagrams


def mark(keys, data):
    return data + hmac_sha256(keys.records, data)[:MAC]


def unmark(keys, data):
    want(len(data) > MAC and hmac.compare_digest(mark(keys, data[:-MAC]), data), 'mark')
    return data[:-MAC]


def address(blob, keys, context):
    """The part of a record behind the backend's number plus 128."""
    return blob + keys.public + struct.pack('<Q', context)
