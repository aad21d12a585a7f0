# SPDX-License-Identifier: BSD-3-Clause
"""The page that bench/report writes, and the lines of what ripc-bench does not measure itself."""
import os
import re
import textwrap

import plan

DOCS = os.path.join(os.path.dirname(os.path.abspath(__file__)), '../../docs')
TESTS = sorted({row.test for row in plan.PLAN})
BACKENDS = {'shm': 'Shared memory, one host', 'udp': 'UDP over loopback',
            'ofi': 'libfabric', 'verbs': 'RDMA verbs', 'rdmacm': 'iWARP'}

HEAD = """# Benchmarks

`bench/report` wrote this page and measured its figures on the machine in the table below. It runs
libripc and its peers in turns, with the same sizes, the same way of waiting and the same work: the
sender writes each message, and the receiver sums it up. In less than ten minutes `bench/report`
measures all of this on your machine and writes `build/benchmarks/benchmarks.md`, a page with
pictures and tables. `bench/report --only NAME --backends BACKEND` repeats one measurement.

Lines are medians. Grey lines are figures that others published and measured on their hardware: they
show what is usual, not who is faster. These figures are in `bench/data/published_*.csv`.

"""
FRONT = """[data.jsonl]({folder}data.jsonl) has the data of the pictures on this page, with the 95 % interval
of each ratio. This command draws the pictures and writes the page again from these data:

    bench/report --page

"""
# A commit with the pictures, tables and data of the whole plan in docs/benchmarks.
WHOLE, WHOLE_DATE = '88ef25eb', '2026-11-23'
REST = f"""
## Other measurements and pictures

`bench/report` draws more pictures of the measurements above, and makes these measurements, too:

| measurement | command |
| --- | --- |
{{rows}}
Commit {WHOLE} has the pictures, tables and data of all measurements of {WHOLE_DATE} over all five
networks, and a page that shows them. These commands extract that commit and draw the pictures of
one measurement again:

    git worktree add build/whole {WHOLE}
    build/whole/bench/plot build/whole/docs/benchmarks/udp-threads.jsonl -o build/pictures

The pictures of the slowest messages exist only as pictures: the histograms that `bench/report` drew
them from were not kept.
"""
ELSEWHERE = """
The following commands measure the same over RDMA and EFA devices made of software. The first of
them runs in an emulated machine, where only ratios mean anything and drawing takes too long:

    mkdir -p build/benchmarks
    tests/system/hw/guest --timeout 7200 --memory 4096 --out build/benchmarks \\
        env RIPC_OPTIONS=verbs.device=rxe0,rdmacm.device=siw0 \\
        bench/report --build build/report --backends verbs,rdmacm --few --measure
    tests/support/softefa/run --build build --shuffle 0 \\
        bench/report --build build/report --backends ofi --measure
    bench/report --draw

`bench/report` builds `build/report` by itself; `build` is an ordinary build with the tests. The
command beside each measurement repeats it alone. `bench/report --publish` takes the data in
`build/benchmarks` into `docs/benchmarks.md`.
"""
READING = """
Absolute times on a shared virtual machine say little; the ratios of neighbouring runs, with their
95 % intervals, say more. No message of this page went over a network card, so this page does not
show how fast a network is.
"""


def files_depth(size):
    """The number of requests at once: pieces of 1 MiB, at most four."""
    return max(1, min(4, size >> 20))


def files_line(said, size, rounds):
    """As ripc-bench would say it; bench/compare/files has rates: the ratio of times reversed."""
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


def of_backend(measurement, backend, kept, pictures, folder, tables):
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
    if tables:
        yield f'\n[Table]({folder}{name}.txt)\n'


def section(measurement, rows, pictures, folder, tables):
    """rows: as of rows_of()"""
    yield f'\n## {measurement.title}\n'
    for backend, kept in rows:
        yield f'\n{BACKENDS.get(backend, backend)}:\n\n'
        if kept:
            yield from of_backend(measurement, backend, kept, pictures, folder, tables)
        else:
            yield left_out(measurement, backend)
    for title, text in (('Where curves jump', measurement.jumps),
                        ('Limits', measurement.not_shown)):
        if text:
            yield '\n' + wrapped(f'**{title}:** {text.strip()}')


def sections(measurements, kept, pictures, machine, folder='', tables=False):
    """From the table of the machine to the last measurement."""
    yield '| | |\n| --- | --- |\n'
    yield from (f'| {name} | {value} |\n' for name, value in machine.items())
    yield from (READING, ELSEWHERE)
    for measurement in measurements:
        rows = rows_of(measurement, kept)
        if rows:
            yield from section(measurement, rows, pictures, folder, tables)


def rest():
    rows = ''.join(f'| {row.title} | `bench/report --only {row.name}` |\n'
                   for row in plan.PLAN if not row.front)
    return REST.format(rows=rows)


def write(path, kept, pictures, machine):
    """The page of all measurements, with tables; pictures and tables are beside it."""
    text = ''.join([HEAD, *sections(plan.PLAN, kept, pictures, machine, tables=True)])
    docs = os.path.relpath(DOCS, os.path.dirname(path))
    with open(path, 'w', encoding='utf-8') as stream:
        stream.write(re.sub(r'\]\((\w+\.md)\)', rf']({docs}/\1)', text))


def write_front(path, folder, kept, pictures, machine):
    """The page of the repository; folder: where its pictures and data are, seen from there."""
    shown = [row for row in plan.PLAN if row.front]
    with open(path, 'w', encoding='utf-8') as stream:
        stream.writelines([HEAD, FRONT.format(folder=folder),
                           *sections(shown, kept, pictures, machine, folder), rest()])
