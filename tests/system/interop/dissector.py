# SPDX-License-Identifier: BSD-3-Clause
"""Runs tools/wireshark/ripc.lua in tshark on datagrams.

The datagrams stand in a capture as if they had gone over the loopback interface.
"""
import csv
import os
import shutil
import struct
import subprocess
import tempfile

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', '..', 'tools', 'wireshark', 'ripc.lua')
LINKTYPE_RAW = 101
# tshark takes a few of the ports that contexts get for another protocol's.
ANY_PORT = ('-o', 'udp.try_heuristic_first:TRUE')
CSV = {'delimiter': '\t', 'quotechar': '"'}


def is_here():
    return shutil.which('tshark') is not None


def call(*arguments):
    """The output of tshark; raises AssertionError where it, or the script, complains."""
    # Where Wireshark keeps its settings is nobody's home: other scripts and settings do not count.
    with tempfile.TemporaryDirectory() as home:
        done = subprocess.run(['tshark', *arguments, '-X', 'lua_script:' + SCRIPT], check=False, timeout=280,
                              env=dict(os.environ, HOME=home, XDG_CONFIG_HOME=home, LC_ALL='C.UTF-8'),
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    said = [line for line in done.stderr.splitlines() if 'could be dangerous' not in line]
    assert done.returncode == 0 and not said, f'{arguments}: {done.returncode}: {said}'
    return done.stdout


def registered():
    """The names of the fields, by the filter name of each."""
    rows = (line.split('\t') for line in call('-G', 'fields').splitlines())
    return {row[2]: row[1] for row in rows if row[0] == 'F' and row[2].startswith('ripc.')}


def write_capture(path, datagrams):
    """Each datagram is a source port, a port, and bytes."""
    with open(path, 'wb') as file:
        file.write(struct.pack('<IHHiIII', 0xa1b2c3d4, 2, 4, 0, 0, 1 << 18, LINKTYPE_RAW))
        for i, (source, to, data) in enumerate(datagrams):
            head = struct.pack('>BBHHHBBHII', 0x45, 0, 28 + len(data), i & 0xffff, 0, 64, 17, 0, 0x7f000001, 0x7f000001)
            packet = head + struct.pack('>HHHH', source, to, 8 + len(data), 0) + data
            file.write(struct.pack('<IIII', i // 1000, i % 1000 * 1000, len(packet), len(packet)) + packet)


def rows(datagrams, fields, checksums=True):
    """For each datagram the values of the fields, as lists of texts, the protocols first."""
    with tempfile.NamedTemporaryFile(suffix='.pcap') as file:
        write_capture(file.name, datagrams)
        text = call('-r', file.name, '-2', *ANY_PORT, '-o', f'ripc.checksums:{str(checksums).upper()}', '-T', 'fields',
                    '-E', 'quote=d', '-E', 'aggregator=|',
                    *[word for field in ('_ws.lua.error', 'frame.protocols', *fields) for word in ('-e', field)])
    lines = [[value.split('|') if value else [] for value in line] for line in csv.reader(text.splitlines(), **CSV)]
    assert len(lines) == len(datagrams), f'{len(lines)} lines for {len(datagrams)} datagrams'
    broken = [(line[0], data.hex()) for line, (_, _, data) in zip(lines, datagrams) if line[0]]
    assert not broken, f'an error in Lua: {broken[0]}'
    return [line[1:] for line in lines]


def whole(datagrams):
    """The full text of the datagrams."""
    with tempfile.NamedTemporaryFile(suffix='.pcap') as file:
        write_capture(file.name, datagrams)
        return call('-r', file.name, '-2', *ANY_PORT, '-T', 'pdml')
