# SPDX-License-Identifier: BSD-3-Clause
"""The measurements of bench/report: the commands, and what is said of their pictures."""
from collections import namedtuple

# name: of files; test: ripc-bench's; sizes, values: lists for its options; peers: by kind of
# backend; count, pairs: its options; more: further ones; jumps: why curves jump, where that is
# known; shows: which of the pictures are on the page, by what is added to their names; None: all;
# few: values that suit a slow machine better; None: they are the same; front: the pictures in
# docs/benchmarks.md, as {what is added to their names: of which backends}.
Measurement = namedtuple(
    'Measurement',
    'name test sizes variable values peers count pairs more title not_shown jumps shows few front')

SOCKETS = {'shm': 'unix,tcp', 'net': 'tcp,udp'}
# Other libraries, where ripc-bench has them: those that stay on one host, and those over TCP.
LIBRARIES = {'shm': 'zmq-ipc,nng-ipc,ucx,fi-shm', 'net': 'zmq,nng,ucx-tcp,fi-tcp'}
TCP = {'shm': 'tcp', 'net': 'tcp'}
NONE = {'shm': 'none', 'net': 'none'}
RAW = {'shm': 'shm', 'net': 'udp,tcp'}
ONE_WAYS = dict.fromkeys(('shm', 'net'), 'ripc-return,ripc-window,ripc-give,memcpy')
# Tests in which other libraries take part.
WITH_LIBRARIES = ('latency', 'percentiles', 'bandwidth', 'rate')
# Tests that a peer takes part in where it does in this one, by which ripc-bench names what it can.
KINDS = {'idle-gap': 'latency', 'segmentation': 'latency', 'cpu': 'latency',
         'oneway': 'bandwidth', 'threads': 'rate', 'incast': 'rate'}
UNITS = {'K': 1 << 10, 'M': 1 << 20, 'G': 1 << 30}
# Tests of short messages only, and how long one and libripc's header can be: as long as a datagram
# of verbs, and as a receive buffer of rdmacm.
OF_SHORT = ('rate', 'threads', 'incast')
SHORT_ROOM = {'verbs': 4096, 'rdmacm': 4096}
QUICK_COUNTS = {'idle-gap': 10, 'bandwidth': None, 'oneway': None, 'resolve': 2}
ONE_HOST = ('Client and server are on one host: no network card, no cable and no switch is in '
            'these times. ')

PLACES = ('A socket\'s curve jumps between 3 to 5 us, where the kernel ran both ends on one processor, '
          'and 40 to 90 us, where it ran them on two and each message has to wake one of them. '
          '`--pin 0,0` and `--pin 0,1` show either case alone. ')

DEPTH = ('libripc acknowledges nothing by itself here: the test acknowledges the messages. The '
         'published devices take messages without a system call. ')


def plan(name, test, sizes, peers, title, not_shown, **more):
    return Measurement(name, test, sizes, more.get('variable'), more.get('values'), peers,
                       more.get('count'), more.get('pairs', 3), more.get('options', []), title,
                       not_shown, more.get('jumps', ''), more.get('shows'), more.get('few'),
                       more.get('front', {}))


PLAN = [
    plan('pingpong', 'latency', '50,200,500,800,1100,1400', SOCKETS,
         'Ping-pong, 50 to 1,400 bytes', ONE_HOST + 'The published round trips went over a '
         'network of 2012. Sockets sleep here; the cost of a wake-up depends on the processors '
         'on which the two ends run.', pairs=7,
         jumps=PLACES, shows=[''], front={'': 'shm,udp'}),
    plan('latency', 'latency', '16,32,64,128,256,512,1K,2K,4K,8K', SOCKETS,
         'Latency by size', ONE_HOST + 'The thesis has half round trips, which this page doubles. '
         'Its hosts poll.', count=1000, pairs=5,
         jumps=PLACES + 'Over both kinds of RDMA, a message of 4 KiB and its header do not fit '
         'into one datagram: libripc sends messages of this size and above as long ones.',
         shows=['', '-ratio'], front={'': 'shm,udp', '-ratio': 'shm,udp'}),
    plan('percentiles', 'latency', '64,1400', SOCKETS, 'Latency, the slowest messages',
         'Other programs on the machine lengthen the tail: the small print has its load. '
         'With two processors, any other program takes one from the test.',
         count=8000, pairs=3,
         shows=['-percentiles']),
    plan('raw', 'latency', '16,64,256,1K,1400,4K', RAW, 'Latency beside the raw network',
         'Both sides poll, so neither pays for a wake-up; the other pictures show that cost. The '
         'peer of shared memory has no protocol, no check and one partner.', pairs=7,
         options=['--spin', '100'],
         shows=['-ratio'], front={'-ratio': 'shm,udp,ofi,verbs,rdmacm'}),
    plan('idle-gap', 'idle-gap', '64', SOCKETS, 'Latency after silence',
         'Processors of a virtual machine do not say how deep they sleep.', variable='gap',
         values='0,100,1000,10000', count=100,
         jumps='libripc polls for at most 50 us: after a silence of 100 it sleeps, as sockets do, '
         'and has to be woken.'),
    plan('segmentation', 'segmentation', '7000:12000:250', TCP, 'Latency in small steps of size',
         'The step depends on the longest datagram: on a real network it is at its MTU.',
         count=1000,
         jumps='Over libfabric\'s EFA what is longer than about 8,500 bytes is more than one '
         'datagram, and goes as a long message ([efa.md](efa.md)). A short message through shared '
         'memory or over loopback has up to some 65,000, so libripc has no step there. ' + PLACES),
    plan('saturation', 'saturation', '64,4096', SOCKETS, 'Latency under load',
         'One client calls one server. The published figures are times of one way over EFA, with '
         'many messages on their way at once.', variable='rate',
         values='2000,5000,10000,20000,50000,100000', few='200,500,1000,2000,5000', count=1000,
         jumps='At 20,000 messages a second and more, the next message arrives within the 50 us for '
         'which libripc polls, so no process has to be woken. A curve rises steeply where messages '
         'are due about as fast as one client exchanges them one after the other, or faster: each '
         'message then waits for the messages before it.', front={'': 'udp'}),
    plan('bandwidth', 'bandwidth', '1,64,1K,4K,16K,128K,1M', TCP,
         'Bandwidth by size and parallelism', ONE_HOST + 'The published figures are of '
         'a 100 Gbit/s InfiniBand. A message counts when its sender knows that it has arrived; '
         'short messages wait for that one by one.', variable='depth', values='1,16,64', count=300,
         jumps='Between depth 1 and 16 the measured time changes: at depth 1 the clock stops when '
         'the message has arrived; with several messages on their way it goes on while messages '
         'are written, summed up and answered with a verdict.',
         shows=['', '-depth'], front={'': 'shm,udp'}),
    plan('long', 'bandwidth', '128K,1M,8M,80M,128M', TCP, 'Bandwidth of long messages',
         'Memory is the limit here, not a network.', variable='depth', values='1', pairs=3,
         shows=[''], front={'': 'shm,udp'}),
    plan('raw-bandwidth', 'bandwidth', '64K,1M,16M,80M', {'shm': 'memcpy,tcp', 'net': 'tcp'},
         'Bandwidth beside the raw network', 'memcpy copies within one process, from memory that '
         'it has just written. Up to 16 MiB nothing that copies can be faster; above, libripc\'s '
         'copy bypasses the cache ([decisions/large-copies.md](decisions/large-copies.md)) '
         'and beats glibc\'s memcpy.',
         options=['--spin', '100'],
         shows=['-ratio']),
    plan('oneway', 'oneway', '64K,1M,80M', ONE_WAYS, 'Return buffers, windows, given buffers',
         'Work of the receiver with the bytes afterwards, and how it posted its buffer before.',
         jumps='Shared memory: only buffers of more than 512 KiB are shown to the receiver, which '
         'copies from there, or reads there what was given; shorter ones go through a ring in '
         'pieces. The reply into a return buffer is the same one each time, while messages of '
         'the other ways are written anew.'),
    plan('files', 'files', '128K,512K,2M,8M,32M,80M', TCP, 'File transfer',
         'The files are in memory at both ends, and no disk takes part. The published '
         'transfers went over a network of 2012.', front={'': 'udp'}),
    plan('rate', 'rate', '16,512', TCP, 'Rate and bandwidth by depth', DEPTH, variable='depth',
         values='1,2,8,32,128,512', count=5000,
         shows=['', '-bytes'], front={'': 'shm,udp'}),
    plan('rate-large', 'rate', '4096,8192', TCP, 'Rate and bandwidth by depth, larger messages',
         DEPTH + 'Short messages may get lost: where more are on their way than the receiver has '
         'room for, as in shared memory, the time that the test waits for them is most of it.',
         variable='depth', values='1,2,8,32,128,512', count=1500,
         shows=['', '-bytes']),
    plan('rate-by-size', 'rate', '16,64,256,1K,4K,8K', TCP, 'Rate by size', DEPTH, variable='depth',
         values='1,16', count=5000,
         shows=['-size']),
    plan('threads', 'threads', '64,4096', TCP, 'Rate and bandwidth by threads',
         'There are as many processors as the small print says, not as many as threads. The '
         'published ones had some tens.', variable='threads', values='1,2,4,8,16,32',
         few='1,2,4,8,16', count=2000),
    plan('incast', 'incast', '64', TCP, 'Many senders to one receiver',
         'No switch drops anything here, as it would with many hosts.', variable='senders',
         values='1,2,4,8,16', count=5000),
    plan('cpu', 'cpu', '64', SOCKETS, 'Processor time, waiting by default',
         'The kernel estimates by its ticks which time is user time and which is system time.',
         count=50000, pairs=2, front={'': 'udp'}),
    plan('cpu-spin', 'cpu', '64', SOCKETS, 'Processor time, polling',
         'The published ones sent messages of another size.', count=50000, pairs=2,
         options=['--spin', '1000']),
    plan('cpu-sleep', 'cpu', '64', SOCKETS, 'Processor time, sleeping',
         'Idle time is of the whole machine.', count=20000, pairs=2, options=['--sleep']),
    plan('partners', 'partners', '64', NONE, 'Many partners',
         'All partners are in one process on this host.', variable='partners',
         values='1,10,100,1000', pairs=5,
         jumps='Shared memory: a round trip takes about 1 us where the two processes run on two '
         'processors, 2 where on one, with 1 partner as with 1,000: `--pin 0,1` and `--pin 0,0` '
         'show either alone.'),
    plan('resolve', 'resolve', '64', dict.fromkeys(('shm', 'net'), 'ripc-again,ripc-absent'),
         'Finding a service', 'How long it takes on a network with many hosts.', count=100),
]


def front():
    """{measurement of a backend: its pictures in docs/benchmarks.md}"""
    found = {}
    for row in PLAN:
        for suffix, backends in row.front.items():
            for backend in backends.split(','):
                name = f'{backend}-{row.name}'
                found.setdefault(name, []).append(f'{name}{suffix}.svg')
    return found


def kind_of(backend):
    return 'shm' if backend == 'shm' else 'net'


def peers_of(measurement, backend, known, few):
    """The peers that this ripc-bench has, joined by commas."""
    kind = kind_of(backend)
    wanted = measurement.peers[kind].split(',')
    if measurement.name in WITH_LIBRARIES and not few:
        wanted += LIBRARIES[kind].split(',')
    test = KINDS.get(measurement.test, measurement.test)
    return ','.join(peer for peer in wanted if test in known.get(peer, ())) or 'none'


def bytes_of(text):
    return int(text[:-1]) * UNITS[text[-1]] if text[-1] in UNITS else int(text)


def has_room(measurement, backend, size):
    """Does that backend take it as one short message, where the test has no others?"""
    return measurement.test not in OF_SHORT or bytes_of(size) < SHORT_ROOM.get(backend, 1 << 32)


def sizes_of(measurement, backend):
    """Joined by commas; '': there are none, so it is not in the plan for that backend."""
    return ','.join(size for size in measurement.sizes.split(',')
                    if has_room(measurement, backend, size))


def left_out(measurement, backend):
    """In bytes."""
    return [bytes_of(size) for size in measurement.sizes.split(',')
            if not has_room(measurement, backend, size)]


def quick_sizes(text):
    """Two of them, none above 1 MiB."""
    if ':' in text:
        return '7000:9000:1000'
    items = [item for item in text.split(',') if bytes_of(item) <= 1 << 20]
    return ','.join(items[:1] + items[1:][-1:])


def quick_values(text):
    """The first and another one that is not large."""
    items = text.split(',')
    return ','.join(items[:1] + items[1:4][-1:])


def arguments(measurement, backend, known, quick=False, few=False):
    """The arguments of ripc-bench, without --out."""
    sizes, values = sizes_of(measurement, backend), measurement.values
    count, pairs = measurement.count, measurement.pairs
    if quick:
        sizes, values = quick_sizes(sizes), values and quick_values(values)
        count, pairs = QUICK_COUNTS.get(measurement.test, 100), 2
    elif few:
        values, count, pairs = measurement.few or values, count and count // 2, 2
    found = [measurement.test, '--backend', backend, '--size', sizes]
    if values:
        found += [f'--{measurement.variable}', values]
    found += ['--vs', peers_of(measurement, backend, known, few), '--pairs', str(pairs)]
    if count:
        found += ['--count', str(count)]
    return found + measurement.more


def is_picture_of(picture, name, names):
    """latency-ratio is latency's, but raw-bandwidth is not raw's."""
    def fits(other):
        return picture == other or picture.startswith(other + '-')
    return fits(name) and not any(len(other) > len(name) and fits(other) for other in names)
