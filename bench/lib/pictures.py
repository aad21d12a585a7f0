# SPDX-License-Identifier: BSD-3-Clause
"""
The pictures of each test of ripc-bench. Each function takes Results and returns a Frame, or None
where the file does not have what it would show.
"""
import published
from look import (Frame, draw_published, log_x, log_y, number_text, peer_name, peer_style,
                  shown_x, size_text, size_x, steps)
from matplotlib.ticker import FuncFormatter
from results import SPIN_NEVER, Malformed

US = 'round trip (us)'
BAND = 'thick line: median; band up to the thin line of the same colour: 99th percentile'
MOST_PANELS = 6


def chosen(values, at_most):
    """The number of labels, the first and the last one among them."""
    if len(values) <= at_most:
        return list(values)
    return [values[i * (len(values) - 1) // (at_most - 1)] for i in range(at_most)]


def band(axis, results, peer, x, points):
    style = peer_style(peer)
    axis.plot(x, [p.median for p in points], label=peer_name(peer, results), **style)
    upper = [max(p.median, p.p99) for p in points]
    axis.fill_between(x, [p.median for p in points], upper, color=style['color'], alpha=0.08,
                      linewidth=0)
    axis.plot(x, upper, color=style['color'], linestyle=style['linestyle'], linewidth=0.7,
              alpha=0.8)


def line(axis, results, peer, x, y):
    axis.plot(x, y, label=peer_name(peer, results), **peer_style(peer))


# ---- times ----------------------------------------------------------------------------------


def latency(results):
    if len(results.sizes()) < 2:
        return None
    frame = Frame(results, 'Latency: a message there and back', note=BAND)
    axis, = frame.panels
    for peer, points in results.points().items():
        band(axis, results, peer, [p.size for p in points], points)
    draw_published(axis, published.latency(results.sizes()))
    frame.describe(axis, 'by size', US, True)
    size_x(axis)
    log_y(axis)
    return frame


def percentiles(results):
    """From the .hgrm files."""
    sizes = chosen(results.sizes(), 3)
    value = results.values()[0]
    found = {(size, peer): results.histogram(peer, size, value)
             for size in sizes for peer in results.points()}
    if not any(found.values()):
        return None
    frame = Frame(results, 'Latency: the slowest messages', len(sizes))
    for axis, size in zip(frame.panels, sizes):
        most = 10
        for peer in results.points():
            curve = found[size, peer] or []
            axis.plot([x for x, _ in curve], [us for _, us in curve],
                      label=peer_name(peer, results), **{**peer_style(peer), 'marker': ''})
            most = max([most] + [x for x, _ in curve])
        frame.describe(axis, f'messages of {size_text(size)}', US, True)
        percentile_x(axis, most)
        log_y(axis)
    return frame


def percentile_x(axis, most):
    ticks = [2] + [10 ** i for i in range(1, 8) if 10 ** i <= most]
    log_x(axis, lambda x: f'{100 - 100 / x:.10g} %', ticks)
    axis.set_xlim(left=1)
    axis.set_xlabel('percentile of the messages (%)')


def idle_gap(results):
    size = results.sizes()[0]
    frame = Frame(results, 'Latency after silence',
                  note='marker: median; bar up from it: 99th percentile')
    axis, = frame.panels
    gaps, peers = results.values(), results.points()
    for i, (peer, points) in enumerate(peers.items()):
        points = [p for p in points if p.size == size]
        aside = 0.09 * (i - (len(peers) - 1) / 2)
        above = [max(0, p.p99 - p.median) for p in points]
        axis.errorbar([gaps.index(p.value) + aside for p in points], [p.median for p in points],
                      [[0] * len(points), above], capsize=3, elinewidth=1,
                      label=peer_name(peer, results), **peer_style(peer))
    axis.set_xticks(range(len(gaps)), [f'{gap:,}' for gap in gaps])
    axis.set_xlabel('idle time before each message (us)')
    frame.describe(axis, f'messages of {size_text(size)}', US, True)
    log_y(axis)
    return frame


def segmentation(results):
    frame = Frame(results, 'Latency in small steps of size', note='medians')
    axis, = frame.panels
    for peer, points in results.points().items():
        line(axis, results, peer, [p.size for p in points], [p.median for p in points])
    frame.describe(axis, 'a step, if there is one, is where messages are cut', US, True)
    axis.set_ylim(bottom=0)
    size_x(axis)
    return frame


def saturation(results):
    sizes = chosen(results.sizes(), MOST_PANELS)
    frame = Frame(results, 'Latency under load', len(sizes),
                  BAND + '; counted from when a message was due, so that waiting for others counts')
    for axis, size in zip(frame.panels, sizes):
        for peer, points in results.points().items():
            points = [p for p in points if p.size == size]
            band(axis, results, peer, [p.value for p in points], points)
        draw_published(axis, published.saturation(size), is_near=False)
        frame.describe(axis, f'messages of {size_text(size)}', US, True)
        log_x(axis, number_text, steps(shown_x(axis)))
        axis.set_xlabel('offered load (messages/s)')
        log_y(axis)
    return frame


def partners(results):
    frame = Frame(results, 'Latency with many partners in turn', note=BAND)
    axis, = frame.panels
    for peer, points in results.points().items():
        band(axis, results, peer, [p.value for p in points], points)
    frame.describe(axis, f'messages of {size_text(results.sizes()[0])}', US, True)
    log_x(axis, number_text)
    axis.set_xlabel('partners (services)')
    log_y(axis)
    return frame


def files(results):
    frame = Frame(results, 'File transfer')
    axis, = frame.panels
    for peer, points in results.points().items():
        name = {'ripc': 'fileserver, libripc', 'tcp': 'the same over TCP'}.get(peer, peer)
        axis.plot([p.size for p in points], [p.median for p in points],
                  label=name, **peer_style(peer))
    draw_published(axis, published.files(), is_near=False)
    frame.describe(axis, 'whole files', 'time per file (ms)', True)
    size_x(axis)
    axis.set_xlabel('file size (bytes)')
    log_y(axis)
    return frame


# ---- rates and bandwidths -------------------------------------------------------------------


RATE, BANDWIDTH = 'rate (messages/s)', 'bandwidth (MB/s)'
TOGETHER = 'rate of all together (messages/s)'
LONG = 'each message is a long one: its sender waits to hear that it has arrived whole'
SHORT = 'each message is one datagram, or one write to a socket; what gets lost does not count'
EACH = '; each sender has 16 messages under way'
MEGABYTES = 'MB: a million bytes'
BYTES = '; ' + MEGABYTES
APART = '; published rates and bandwidths come from runs of their own'
AT_ONCE = 'depth (messages on their way at once)'
THREADS = 'threads at each end (pairs of a client and a server)'


def against_size(results, title, quantity, at_most, note, theirs=None):
    """A panel per depth."""
    depths = chosen(results.values(), at_most)
    frame = Frame(results, title, len(depths), note)
    for axis, depth in zip(frame.panels, depths):
        for peer, points in results.points().items():
            points = [p for p in points if p.value == depth]
            line(axis, results, peer, [p.size for p in points], [p.median for p in points])
        draw_published(axis, theirs(max(depth, 1)) if theirs else [])
        frame.describe(axis, f'depth {max(depth, 1)} (messages at once)', quantity, False)
        size_x(axis)
        log_y(axis)
    return frame


def against_value(results, title, x, quantity, note, scale=lambda size: 1, theirs=None):
    """A panel per size; x: what the test varies. Measured values are drawn times scale(size)."""
    sizes = chosen(results.sizes(), 4)
    frame = Frame(results, title, len(sizes), note)
    for axis, size in zip(frame.panels, sizes):
        for peer, points in results.points().items():
            points = [p for p in points if p.size == size]
            line(axis, results, peer, [p.value for p in points],
                 [p.median * scale(size) for p in points])
        draw_published(axis, theirs(size, quantity == BANDWIDTH) if theirs else [], is_near=False)
        frame.describe(axis, f'messages of {size_text(size)}', quantity, False)
        log_x(axis, number_text)
        axis.set_xlabel(x)
        log_y(axis)
    return frame


def megabytes(size):
    return size / 1e6


def bandwidth(results):
    return against_size(results, 'Bandwidth of long messages, by size', BANDWIDTH, MOST_PANELS,
                        LONG + BYTES, published.parallelism)


def bandwidth_depth(results):
    if len(results.values()) < 2:
        return None
    return against_value(results, 'Bandwidth of long messages, by depth', AT_ONCE, BANDWIDTH,
                         LONG + BYTES)


def rate(results):
    return against_value(results, 'Short messages per second, by depth', AT_ONCE, RATE, SHORT,
                         theirs=published.depth)


def rate_bytes(results):
    return against_value(results, 'Bandwidth of short messages, by depth', AT_ONCE, BANDWIDTH,
                         SHORT + APART + BYTES, megabytes, published.depth)


def rate_size(results):
    if len(results.sizes()) < 2:
        return None
    return against_size(results, 'Short messages per second, by size', RATE, 3, SHORT)


def threads(results):
    return against_value(results, 'Short messages per second, by threads', THREADS, TOGETHER,
                         SHORT + EACH, theirs=published.threads)


def threads_bytes(results):
    return against_value(results, 'Bandwidth of short messages, by threads', THREADS, BANDWIDTH,
                         SHORT + EACH + APART + BYTES, megabytes, published.threads)


def incast(results):
    return against_value(results, 'Many senders to one receiver', 'senders (clients)', TOGETHER,
                         SHORT + EACH)


# ---- bars -----------------------------------------------------------------------------------


def bars(frame, axis, results, groups, text):
    """groups: {peer: {x: height}}; text names an x."""
    names = sorted({x for heights in groups.values() for x in heights})
    width = 0.8 / len(groups)
    for i, (peer, heights) in enumerate(groups.items()):
        found = [x for x in names if x in heights]
        axis.bar([names.index(x) + (i - (len(groups) - 1) / 2) * width for x in found],
                 [heights[x] for x in found], width * 0.92, color=peer_style(peer)['color'],
                 label=peer_name(peer, results))
    axis.set_xticks(range(len(names)), [text(x) for x in names])
    axis.grid(axis='x', visible=False)


def oneway(results):
    frame = Frame(results, 'Long messages: bandwidth by way of delivery',
                  note=MEGABYTES)
    axis, = frame.panels
    groups = {peer: {p.size: p.median for p in points}
              for peer, points in results.points().items()}
    bars(frame, axis, results, groups, size_text)
    frame.describe(axis, 'by message size', 'bandwidth (MB/s)', False)
    axis.set_xlabel('message size (bytes)')
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f'{value:,.0f}'))
    return frame


RESOLVE = {'ripc': 'for the\nfirst time', 'ripc-again': 'again',
           'ripc-absent': 'not there: given up\nafter the 1 s allowed'}


def resolve(results):
    frame = Frame(results, 'Finding a service by its ID')
    axis, = frame.panels
    for i, (peer, points) in enumerate(results.points().items()):
        median = points[0].median
        is_chosen = peer == 'ripc-absent'
        axis.bar(i, median, 0.6, color='#dddddd' if is_chosen else peer_style(peer)['color'],
                 hatch='//' if is_chosen else '', edgecolor='white',
                 label=RESOLVE.get(peer, peer))
        over_bar(axis, i, median, f'{median:,.3g} us' if median < 1000 else f'{median:,.0f} us')
    axis.set_xticks(range(len(results.points())),
                    [RESOLVE.get(peer, peer) for peer in results.points()])
    axis.set_xlabel('the service is asked for')
    axis.grid(axis='x', visible=False)
    frame.describe(axis, '', 'time until the call is back (us)', True)
    log_y(axis)
    axis.set_ylim(top=axis.get_ylim()[1] * 2)
    return frame


# Rows of a process: name, key, colour, hatch.
PARTS = [('client, user', 'client_user', '#0072B2', ''),
         ('client, system', 'client_system', '#56B4E9', ''),
         ('server, user', 'server_user', '#D55E00', ''),
         ('server, system', 'server_system', '#E69F00', '')]
SOFTIRQ = ('interrupts (softirq)\nof the whole machine', 'softirq', '#999999', '//')


def cpu(results):
    sizes = results.sizes()
    if not any(p.cost[key] for points in results.points().values() for p in points
               for _, key, _, _ in PARTS + [SOFTIRQ]):
        return None  # the run ended before the kernel's next tick
    frame = Frame(results, 'Processor time per message there and back', len(sizes),
                  'the sum is that of both processes; some softirq is in their system time as '
                  'well, so it stands beside;\nthe kernel tells all of them apart by its ticks')
    for axis, size in zip(frame.panels, sizes):
        rows = [(peer, p) for peer, points in results.points().items()
                for p in points if p.size == size]
        bottoms = [0] * len(rows)
        for name, key, colour, hatch in PARTS:
            heights = [p.cost[key] for _, p in rows]
            axis.bar(range(len(rows)), heights, 0.5, bottoms, color=colour, hatch=hatch,
                     label=name, edgecolor='white', linewidth=0.5)
            bottoms = [a + b for a, b in zip(bottoms, heights)]
        name, key, colour, hatch = SOFTIRQ
        axis.bar([x + 0.34 for x in range(len(rows))], [p.cost[key] for _, p in rows], 0.14,
                 color=colour, hatch=hatch, label=name, edgecolor='white', linewidth=0.5)
        for x, total in enumerate(bottoms):
            over_bar(axis, x, total, f'{total:.3g} us')
        axis.margins(y=0.08)
        name_bars(axis, [peer_name(peer, results) for peer, _ in rows])
        frame.describe(axis, f'messages of {size_text(size)}', 'processor time (us/message)', True)
    return frame


def over_bar(axis, x, y, text):
    axis.annotate(text, (x, y), ha='center', va='bottom', xytext=(0, 2), fontsize=8,
                  textcoords='offset points')


def name_bars(axis, names):
    axis.set_xticks(range(len(names)), [name.replace(', ', ',\n') for name in names],
                    rotation=35 if len(names) > 3 else 0,
                    ha='right' if len(names) > 3 else 'center', fontsize=8)
    axis.grid(axis='x', visible=False)
    axis.set_xlabel('pair that exchanges messages')


def share_rows(results, size):
    rows = []
    for peer, points in results.points().items():
        for p in points:
            user = p.cost['client_user'] + p.cost['server_user']
            system = p.cost['client_system'] + p.cost['server_system']
            if p.size == size and user + system > 0:
                rows.append((peer_name(peer, results), (user, system, p.cost['idle'])))
    return rows


def cpu_share(results):
    """User, system and idle time as the libfabric report has it."""
    spin = results.spin_us()
    size = results.sizes()[0]
    rows = share_rows(results, size)
    if not rows:
        return None
    n_ours = len(rows)
    if spin:
        rows += published.shares(spin != SPIN_NEVER).items()
    frame = Frame(results, 'Where the processors\' time goes', note=(
        'each peer runs as fast as it can: shares show the use of a machine, not the cost of a message\n'
        'above the bars: processor time of one round trip, user and system, both ends' +
        ('; pale: published, one end, other hardware' if len(rows) > n_ours else '')))
    axis, = frame.panels
    bottoms = [0] * len(rows)
    for i, (name, colour) in enumerate((('user', '#0072B2'), ('system', '#E69F00'),
                                        ('idle', '#dddddd'))):
        heights = [100 * parts[i] / sum(parts) for _, parts in rows]
        drawn = axis.bar(range(len(rows)), heights, 0.6, bottoms, color=colour, label=name)
        for bar in drawn[n_ours:]:
            bar.set_alpha(0.45)
        bottoms = [a + b for a, b in zip(bottoms, heights)]
    for x, (_, parts) in enumerate(rows[:n_ours]):
        over_bar(axis, x, 100, f'{parts[0] + parts[1]:.2g} us busy')
    axis.set_ylim(top=108)
    name_bars(axis, [name for name, _ in rows])
    frame.describe(axis, f'messages of {size_text(size)}',
                   'share of processor time (%)', True)
    axis.set_title('↓ less processor time, above the bars, is better', loc='right', fontsize=8,
                   style='italic')
    return frame


# ---- ours to theirs -------------------------------------------------------------------------

FASTER = {True: 'below 1: libripc is faster', False: 'above 1: libripc is faster'}
WHAT = {'us': 'Latency', 'ms': 'Time', 'mb_per_s': 'Bandwidth', 'messages_per_s': 'Rate'}


def ratio_rows(results):
    rows = {}
    for row in results.rows:
        if 'ratio' in row:
            rows.setdefault(row['vs'], []).append(row)
    return rows


def ratio(results):
    """Against size, or against what the test varies where there is one size only."""
    by_peer = ratio_rows(results)
    key = 'size' if len(results.sizes()) > 1 else 'value'
    first = results.values()[0]
    if not by_peer or len({row[key] for row in results.rows}) < 2:
        return None
    value_text = f', {first} at once' if results.variable == 'depth' else ''
    what = WHAT.get(results.unit, results.unit)
    frame = Frame(results, f'{what} of libripc as a multiple of each peer\'s', note=(
        'bars: 95 % interval of the median of the ratios of neighbouring runs (bootstrap)'))
    axis, = frame.panels
    axis.axhline(1, color='black', linewidth=1, gid='everywhere', label='1: as fast as the peer')
    for i, (peer, rows) in enumerate(by_peer.items()):
        rows = [row for row in rows if key == 'value' or row['value'] == first]
        draw_ratio(axis, results, peer, key, rows, 1 + 0.05 * (i - (len(by_peer) - 1) / 2))
    frame.describe(axis, FASTER[results.less_is_better] + value_text, 'ratio (libripc / peer)',
                   results.less_is_better)
    if key == 'size':
        size_x(axis, [max(size, 1) for size in results.sizes()])
    else:
        axis.set_xlabel(f'{results.variable}')
        log_x(axis, number_text, [max(value, 1) for value in results.values()])
    log_y(axis)
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f'{value:g}'))
    return frame


def draw_ratio(axis, results, peer, key, rows, aside):
    """aside: a factor, lest the intervals of all peers stand on one another."""
    middles = [row['ratio']['median'] for row in rows]
    below = [max(0, row['ratio']['median'] - row['ratio']['low']) for row in rows]
    above = [max(0, row['ratio']['high'] - row['ratio']['median']) for row in rows]
    axis.errorbar([max(row[key], 1) * aside for row in rows], middles, [below, above], capsize=3,
                  label=peer_name(peer, results), **peer_style(peer))


# The pictures of each test's files: suffix of the file's name, and drawing function.
OF_TEST = {
    'latency': [('', latency), ('-percentiles', percentiles), ('-ratio', ratio)],
    'idle-gap': [('', idle_gap)],
    'segmentation': [('', segmentation)],
    'saturation': [('', saturation)],
    'bandwidth': [('', bandwidth), ('-depth', bandwidth_depth), ('-ratio', ratio)],
    'oneway': [('', oneway)],
    'rate': [('', rate), ('-bytes', rate_bytes), ('-size', rate_size)],
    'threads': [('', threads), ('-bytes', threads_bytes)],
    'incast': [('', incast)],
    'cpu': [('', cpu), ('-share', cpu_share)],
    'partners': [('', partners)],
    'resolve': [('', resolve)],
    'files': [('', files)],
}


def draw(results, is_wanted=lambda name: True):
    """[(what is added to the name, Frame)]"""
    if results.test not in OF_TEST:
        raise Malformed(f'{results.path}:2: nothing is known of a test "{results.test}"')
    drawn = [(name, function(results)) for name, function in OF_TEST[results.test]
             if is_wanted(name)]
    return [(name, frame) for name, frame in drawn if frame]
