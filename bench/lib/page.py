# SPDX-License-Identifier: BSD-3-Clause
"""The page that bench/report writes, and the lines of what ripc-bench does not measure itself."""
import os
import textwrap

import plan

TESTS = sorted({row.test for row in plan.PLAN})
BACKENDS = {'shm': 'Shared memory, one host', 'udp': 'UDP over loopback',
            'ofi': 'libfabric', 'verbs': 'RDMA verbs', 'rdmacm': 'iWARP'}

HEAD = """# Benchmarks

Written by `bench/report`; every figure in here is what it measured, on the machine that the table
names. It runs libripc and its peers in turns, with the same sizes, the same way of waiting and the
same work: each message is written before it is sent and summed up when it has come. `bench/report`
makes the same page from your machine in less than ten minutes; `bench/report --only NAME --backends
BACKEND` measures one part of it again.

Lines are medians. Grey lines are other people's, from their publications, measured on their
hardware: they say what is usual, not who is faster. Their figures are in `bench/published_*.csv`.

"""
ELSEWHERE = """
Software RDMA and EFA devices are measured in the same way; the first one runs in an emulated
machine, where only ratios mean anything, and pictures take too long to draw:

    tests/hw/guest --timeout 7200 --memory 4096 --out docs/benchmarks \\
        env RIPC_OPTIONS=verbs.device=rxe0,rdmacm.device=siw0 \\
        bench/report --build build/report --backends verbs,rdmacm --few --measure
    tests/softefa/run --build build --shuffle 0 \\
        bench/report --build build/report --backends ofi --measure
    bench/report --draw

`build/report` is what `bench/report` builds by itself, `build` an ordinary build with the tests. The
command of each measurement measures it alone.
"""
READING = """
Absolute times on a shared virtual machine say little; the ratios of neighbouring runs, which the
tables have with their 95 % intervals, say more. Nothing in here went over a network card, so
nothing in here says how fast a network is.
"""


def files_depth(size):
    """The requests at once: pieces of 1 MiB, at most four."""
    return max(1, min(4, size >> 20))


def files_line(said, size, rounds):
    """As ripc-bench would say it; bench/files has rates, their ratio is that of times reversed."""
    def of_peer(rate):
        return {'median': 1e3 / rate, 'p99': 1e3 / rate}
    return {
        'test': 'files', 'size': size, 'pairs': rounds, 'spin_us': 0, 'unit': 'ms',
        'less_is_better': True, 'variable': '', 'value': 0, 'path': said['path'], 'vs': 'tcp',
        'ripc': of_peer(said['ripc_files_per_s']), 'peer': of_peer(said['tcp_files_per_s']),
        'ratio': {'median': 1 / said['ratio'], 'low': 1 / said['most'],
                  'high': 1 / said['least']}}


def is_shown(picture, name):
    """Is that picture of the measurement of that name on the page?"""
    measurement = next((row for row in plan.PLAN if name.endswith('-' + row.name)
                        and name[:-len(row.name) - 1] in BACKENDS), None)
    return not measurement or picture in shown(measurement, name, [picture])


def shown(measurement, name, pictures):
    if measurement.shows is None:
        return pictures
    return [picture for picture in pictures if picture in
            [f'{name}{suffix}.svg' for suffix in measurement.shows]]


def wrapped(text):
    return textwrap.fill(text, 100, break_on_hyphens=False, break_long_words=False) + '\n'


def left_out(measurement, backend):
    """Why the plan has no messages of some sizes for that backend; '': it has them all."""
    sizes = ' and '.join(f'{size:,}' for size in plan.left_out(measurement, backend))
    return sizes and wrapped(
        f'Not measured with messages of {sizes} bytes: a short one and libripc\'s header have to '
        f'fit into {plan.SHORT_ROOM[backend]:,} there.')


def rows_of(measurement, kept):
    """[(backend, what was kept of it)]; None: the plan has nothing for that backend."""
    met = {name.split('-')[0] for name in kept}
    rows = [(backend, kept.get(f'{backend}-{measurement.name}')) for backend in BACKENDS
            if backend in met]
    return [(backend, row) for backend, row in rows
            if row or not plan.sizes_of(measurement, backend)]


def of_backend(measurement, backend, kept, pictures, folder):
    name = f'{backend}-{measurement.name}'
    yield f'    {kept["command"]}\n\n'
    if left_out(measurement, backend):
        yield left_out(measurement, backend) + '\n'
    if kept['quick']:
        yield 'Measured with `--quick`: do not believe these.\n\n'
    if kept['failed']:
        yield f'**Failed:** {kept["failed"]}. What came before that is shown.\n\n'
    for picture in shown(measurement, name, pictures.get(name, [])):
        yield f'![{measurement.title}, {backend}]({folder}{picture})\n'
    yield f'\n[Table]({folder}{name}.txt)\n'


def section(measurement, rows, pictures, folder):
    """rows: as of rows_of()"""
    yield f'\n## {measurement.title}\n'
    for backend, kept in rows:
        yield f'\n{BACKENDS.get(backend, backend)}:\n\n'
        if kept:
            yield from of_backend(measurement, backend, kept, pictures, folder)
        else:
            yield left_out(measurement, backend)
    for title, text in (('Where curves jump', measurement.jumps),
                        ('Limits', measurement.not_shown)):
        if text:
            yield '\n' + wrapped(f'**{title}:** {text.strip()}')


def write(out, standard_out, kept, pictures, machine):
    """Returns the path of the page."""
    if os.path.abspath(out) == standard_out:
        path, folder = standard_out + '.md', os.path.basename(standard_out) + '/'
    else:
        path, folder = os.path.join(out, 'benchmarks.md'), ''
    lines = [HEAD, '| | |\n| --- | --- |\n']
    lines += [f'| {name} | {value} |\n' for name, value in machine.items()]
    lines += [READING, ELSEWHERE]
    for measurement in plan.PLAN:
        rows = rows_of(measurement, kept)
        if rows:
            lines += section(measurement, rows, pictures, folder)
    with open(path, 'w', encoding='utf-8') as stream:
        stream.write(''.join(lines))
    return path
