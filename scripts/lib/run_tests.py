# SPDX-License-Identifier: BSD-3-Clause
"""The steps of scripts/test after installing: see there."""
import argparse
import concurrent.futures
import glob
import itertools
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time

import failure_text
import foreign
import meson_log
import packages
import roots
from meson_log import Tally

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

SETTINGS = {
    'ASAN_OPTIONS': 'detect_leaks=1:abort_on_error=0:detect_stack_use_after_return=1:'
                    'allocator_may_return_null=1',
    'UBSAN_OPTIONS': 'halt_on_error=1:print_stacktrace=1',
    'TSAN_OPTIONS': 'halt_on_error=1:second_deadlock_stack=1:allocator_may_return_null=1',
    # The number of cases at Check's limit.
    'CK_TIMEOUT_MULTIPLIER': '2',
}


# Where the steps build: the options of Meson, the compiler.
SANITIZED = ['-Db_lundef=false', '-Dbuildtype=debugoptimized']
BUILDS = {
    'gcc': ([], 'gcc'),
    'address': (['-Db_sanitize=address,undefined', *SANITIZED], 'gcc'),
    'thread': (['-Db_sanitize=thread', *SANITIZED], 'gcc'),
    'clang': (['-Dfuzz=true'], 'clang'),
}
locks = {name: threading.Lock() for name in BUILDS}


class Failed(Exception):
    """A step could not be run at all; its text is shown."""


def run(command, **more):
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          env={**os.environ, **SETTINGS, **more})
    return done.returncode, done.stdout.decode('utf-8', 'replace')


def must(command, **more):
    status, output = run(command, **more)
    if status != 0:
        raise Failed(f'{" ".join(command)}: exit status {status}\n{output}')
    return output


def program(name, command):
    """Runs one program that is not Meson's."""
    status, output = run(command)
    return meson_log.count_program(name, status == 0, status == 77, output)


def processors():
    return len(os.sched_getaffinity(0))


def configure(name):
    """Configures build/test/NAME; returns its path."""
    options, compiler = BUILDS[name]
    path = os.path.join(ROOT, 'build/test', name)
    setup = ['meson', 'setup', path, ROOT, '-Dtests=enabled', '-Dwerror=true', *options]
    if os.path.exists(os.path.join(path, 'build.ninja')):
        setup.insert(2, '--reconfigure')
    compiler = clang() if compiler == 'clang' else compiler
    status, _ = run(setup, CC=compiler)
    if status != 0:
        shutil.rmtree(path, ignore_errors=True)
        must([part for part in setup if part != '--reconfigure'], CC=compiler)
    return path


def build(name):
    """Configures and compiles build/test/NAME; returns its path."""
    with locks[name]:
        path = configure(name)
        status, output = run(['ninja', '-C', path])
    if status != 0:
        lines = [line for line in output.splitlines() if not line.startswith('[')]
        raise Failed('\n'.join(lines))
    return path


def build_ahead(names):
    """Compiles with what processor time the tests of other steps leave. A failure here happens
    again, and is shown, in the step that needs the program."""
    for name in names:
        if name == 'clang' and not clang():
            continue
        with locks[name]:
            try:
                run(['chrt', '-i', '0', 'ninja', '-C', configure(name)])
            except Failed:
                continue


def meson_test(path, *options):
    """Compiles what the chosen tests need, if that is to be done, runs them, and counts."""
    log = os.path.join(path, 'meson-logs/testlog.json')
    if os.path.exists(log):
        os.unlink(log)
    # Most tests wait most of the time: with two for each processor a third of that is idle.
    status, output = run(['meson', 'test', '-C', path, '--num-processes',
                          str(3 * processors()), *options])
    if not os.path.exists(log):
        raise Failed(f'meson test: exit status {status}\n{output}')
    tally = meson_log.read(log)
    if status != 0 and not tally.failed:
        raise Failed(f'meson test: exit status {status}\n{output}')
    return tally


def clang():
    for name in ('clang-14', 'clang'):
        if shutil.which(name):
            return name
    return None


def suites(*names):
    return [part for name in names for part in ('--suite', name)]


def step_style(_):
    tally = program('style self-test', ['scripts/style', '--self-test'])
    tally.add(program('style', ['scripts/style']))
    tally.add(program('failure_text', ['python3', 'scripts/lib/failure_text_test.py']))
    return tally


def step_gcc(options):
    if options.full:
        return meson_test(build('gcc'))
    tally = meson_test(build('gcc'), '--no-suite', 'long')
    tally.skipped.append(('kills over EFA without reads, and over shm and udp together',
                          'only with --full'))
    return tally


def step_clang(_):
    if not clang():
        return Tally(skipped=[('clang', 'there is no clang')])
    path = build('clang')
    return meson_test(path, *suites('unit', 'fuzz'))


def step_address(_):
    """Address and undefined behaviour sanitizers."""
    return meson_test(build('address'), '--no-suite', 'abi', '--no-suite', 'net',
                      '--no-suite', 'long', '-t', '4')


def step_thread(_):
    # Meson compiles what these tests need, not all.
    return meson_test(configure('thread'), *suites('unit', 'conformance'), '--no-suite', 'others',
                      '-t', '6')


def step_repeat(options):
    """The threaded cases again and again: what goes wrong once in a hundred times."""
    path = os.path.join(build('gcc'), 'tests/unit/test_api_threads')
    # A round of the longest case takes half a second; the limit of a case is four.
    rounds, patience = ('1000', '600') if options.full else ('20', '60')
    status, output = run([path], RIPC_TEST_ROUNDS=rounds, CK_TIMEOUT_MULTIPLIER=patience)
    return meson_log.count_program(f'threaded cases, {rounds} rounds', status == 0, False, output)


def step_simulator(options):
    """The same seeds with both compilers: nothing wrong, and the same bytes on the wire."""
    seeds = '2000' if options.full else '200'
    traces, tally, names = {}, Tally(), ['gcc', 'clang']
    if not clang():
        tally.skipped.append(('simulator with clang', 'there is no clang'))
        names.remove('clang')
    programs = [[os.path.join(build(name), 'tests/sim/sim'), '--seeds', seeds] for name in names]
    with concurrent.futures.ThreadPoolExecutor(processors()) as beside:
        for name, (status, output) in zip(names, beside.map(run, programs)):
            tally.add(meson_log.count_program(f'sim, {name}', status == 0, False, output))
            traces[name] = meson_log.last_line(output)
    same = len(set(traces.values())) == 1
    text = '\n'.join(f'{name}: {trace}' for name, trace in traces.items())
    if len(traces) > 1:
        tally.add(meson_log.count_program('sim, same trace', same, False, text))
    return tally


def fuzz(target, runs):
    """Runs one fuzz target; if it fails, its text ends with the input that it failed with."""
    name = os.path.basename(target)
    archive = f'tests/fuzz/corpus/{name.replace("fuzz_", "", 1)}.tar'
    with tempfile.TemporaryDirectory() as found, tempfile.TemporaryDirectory() as corpus:
        must(['tests/fuzz/inputs', 'unpack', archive, corpus])
        tally = program(name, [
            # Not its own 77 for findings, which would mean skipped.
            target, *runs, '-timeout=20', '-error_exitcode=1', '-timeout_exitcode=1',
            '-artifact_prefix=' + os.path.join(ROOT, 'build/test/'), found, corpus])
    again = os.path.relpath(target, ROOT)
    tally.failures = [(name, output + failure_text.fuzz_input(again, output))
                      for name, output in tally.failures]
    return tally


def step_fuzz(options):
    if not clang():
        return Tally(skipped=[('fuzz targets', 'there is no clang')])
    path = build('clang')
    targets = sorted(glob.glob(os.path.join(path, 'tests/fuzz/fuzz_*')))
    targets = [target for target in targets if os.path.isfile(target)]
    if not targets:
        return Tally(skipped=[('fuzz targets', 'this clang has no libFuzzer')])
    runs = ['-runs=1000000'] if options.full else ['-runs=50000', '-max_total_time=15']
    tally = Tally()
    with concurrent.futures.ThreadPoolExecutor(processors()) as beside:
        for of_target in beside.map(lambda target: fuzz(target, runs), targets):
            tally.add(of_target)
    return tally


def step_mutants(_):
    """Each planted bug is a case: the simulator has to find it."""
    if not glob.glob(os.path.join(ROOT, 'tests/sim/mutants/*.bug')):
        return Tally(skipped=[('planted bugs', 'there are none in tests/sim/mutants')])
    status, output = run(['scripts/mutants'])
    found = len(re.findall(r'^\S+ +found: ', output, re.M))
    missed = len(re.findall(r'^\S+ +NOT FOUND', output, re.M))
    if status == 0:
        return Tally(programs=1, passed=found)
    return Tally(programs=1, passed=found, failed=max(missed, 1), failures=[('mutants', output)])


# The conformance suite on udp and shm: program, arguments. The others only with --full.
MEMCHECKED = [('conformance-shm', []), ('conformance-udp', ['v4'])]
MEMCHECKED_FULL = [('conformance-udp', ['other']), ('conformance-udp', ['v6']), ('calls-call', []),
                   ('calls-call_many', []), ('calls-group_nets', []), ('conformance-rights', ['udp']),
                   ('conformance-rights', ['shm'])]
# Cases that fail because all is slow, and not by an error of memcheck, are no failures of the step.
SLOW = ('calls-', 'conformance-rights')
MEMCHECK = ['valgrind', '-q', '--num-callers=25', '--leak-check=no', '--fair-sched=try']


def memcheck(path, test):
    name, arguments = test
    title = ' '.join(['memcheck', name, *arguments])
    with tempfile.TemporaryDirectory() as logs:
        # A case forks: each process has a log of its own, which is empty without errors.
        command = [*MEMCHECK, f'--log-file={logs}/%p', os.path.join(path, 'tests/conformance', name),
                   *arguments]
        # Programs are 20 to 50 times as slow as without.
        status, output = run(command, CK_DEFAULT_TIMEOUT='120', CK_TIMEOUT_MULTIPLIER='10')
        errors = ''
        for log in sorted(glob.glob(f'{logs}/*')):
            with open(log, encoding='utf-8', errors='replace') as text:
                errors += text.read()
    if errors or (status and name.startswith(SLOW)):
        return meson_log.count_program(title, not errors, status == 77, errors)
    return meson_log.count_program(title, status == 0, status == 77, output)


def step_memcheck(options):
    """valgrind's memcheck: reads of memory that is not initialised, which the sanitizers miss."""
    if not shutil.which('valgrind'):
        return Tally(skipped=[('memcheck', 'there is no valgrind')])
    path, tally = build('gcc'), Tally()
    tests = MEMCHECKED + (MEMCHECKED_FULL if options.full else [])
    with concurrent.futures.ThreadPoolExecutor(processors()) as beside:
        for of_test in beside.map(lambda test: memcheck(path, test), tests):
            tally.add(of_test)
    if not options.full:
        tally.skipped.append(('memcheck of calls, groups, rights and IPv6', 'only with --full'))
    return tally


def step_speed(_):
    """Instructions of a message beside those of bench/data/baseline.json; no times."""
    if not shutil.which('valgrind'):
        return Tally(skipped=[('instructions of a message', 'there is no valgrind')])
    return program('instructions', ['bench/check', '--build', build('gcc'), '--instructions'])


def step_walk(_):
    """How many files a reader opens to follow a message."""
    tally = program('walk', ['scripts/walk'])
    tally.add(program('walk self-test', ['scripts/walk', '--self-test']))
    return tally


def step_wheel(_):
    """The Python package as others get it: built, installed and tested in fresh environments."""
    return program('wheel', ['scripts/wheel', '/usr/bin/python3'])


def step_hw(options):
    """Soft RDMA devices in a guest kernel: the lab itself, and what the lists in tests/system/hw say."""
    if not options.all and 'hw' not in options.step:
        return Tally(skipped=[('soft RDMA', 'only with --all')])
    return program('soft RDMA', ['tests/system/hw/run', build('gcc')])


def step_foreign(options):
    """Other processors, C libraries and Debians; half an hour, so only by name."""
    if 'foreign' not in options.step:
        return Tally(skipped=[('foreign systems', 'only as scripts/test foreign')])
    if roots.missing():
        return Tally(skipped=[('foreign systems', roots.missing())])
    return foreign.run()


def step_packages(options):
    """Debian packages, in fresh systems; ten minutes, so only by name."""
    if 'packages' not in options.step:
        return Tally(skipped=[('Debian packages', 'only as scripts/test packages')])
    if roots.missing():
        return Tally(skipped=[('Debian packages', roots.missing())])
    return packages.run()


# name, what it is, the function
STEPS = [
    ('style', 'the house rules', step_style),
    ('gcc', 'gcc, all tests', step_gcc),
    ('address', 'address and undefined sanitizers', step_address),
    ('thread', 'thread sanitizer', step_thread),
    ('clang', 'clang, unit tests', step_clang),
    ('sim', 'simulator, both compilers', step_simulator),
    ('mutants', 'planted bugs are found', step_mutants),
    ('fuzz', 'fuzz targets', step_fuzz),
    ('repeat', 'threaded cases, repeated', step_repeat),
    ('memcheck', 'valgrind, conformance of udp and shm', step_memcheck),
    ('speed', 'instructions of a message', step_speed),
    ('walk', 'files on the way of a message', step_walk),
    ('wheel', 'the Python package, installed', step_wheel),
    ('hw', 'soft RDMA in a guest', step_hw),
    ('foreign', 'other processors, libcs, Debians', step_foreign),
    ('packages', 'Debian packages', step_packages),
]


# Programs that a step builds wholly, and no earlier step does.
BUILT = {'address': 'address', 'clang': 'clang', 'sim': 'clang', 'fuzz': 'clang'}
# Steps that keep one processor busy: neighbours among them run beside one another.
LIGHT = ('repeat', 'memcheck', 'speed', 'walk', 'wheel', 'hw')


def groups(steps):
    """The steps in their order, light neighbours together."""
    apart = itertools.groupby(enumerate(steps), lambda at: at[1][0] in LIGHT or at[0])
    return [[step for _, step in group] for _, group in apart]


def show_failures(tally):
    for name, output in tally.failures:
        print(f'\n---- {name} failed:\n{failure_text.excerpt(output)}\n----')


def worked():
    """Seconds of processors that ended children have taken."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def timed(step, options):
    """Runs a step; returns what it counted, and the seconds that it took."""
    began = time.monotonic()
    try:
        tally = step[2](options)
    except Failed as failure:
        tally = Tally(failed=1, failures=[(f'step {step[0]}', str(failure))])
    return tally, time.monotonic() - began


def tell(step, tally, took, busy):
    print(f'{step[0]:8} {step[1]:36}{tally.passed:6} passed {tally.failed:4} failed '
          f'{len(tally.skipped):4} skipped {took:6.0f} s{busy}', flush=True)
    show_failures(tally)


def run_steps(steps, options, total):
    """Runs steps beside one another, and tells how each has ended, in their order."""
    before = worked()
    with concurrent.futures.ThreadPoolExecutor(processors()) as beside:
        for step, (tally, took) in zip(steps, beside.map(lambda one: timed(one, options), steps)):
            busy = 100 * (worked() - before) / (took * processors())
            tell(step, tally, took, f' ({busy:3.0f} % busy)' if len(steps) == 1 else '')
            total.add(tally)


def parse():
    parser = argparse.ArgumentParser(prog='scripts/test')
    parser.add_argument('--all', action='store_true')
    parser.add_argument('--full', action='store_true')
    parser.add_argument('--list', action='store_true')
    parser.add_argument('step', nargs='*')
    options = parser.parse_args()
    unknown = set(options.step) - {step[0] for step in STEPS}
    if unknown:
        parser.error(f'no such step: {", ".join(sorted(unknown))}')
    return options


def main():
    options = parse()
    if options.full:
        os.environ['RIPC_TEST_FULL'] = '1'
    if options.list:
        print('\n'.join(f'{name:8} {title}' for name, title, _ in STEPS))
        return 0
    chosen = [step for step in STEPS if not options.step or step[0] in options.step]
    ahead = dict.fromkeys(BUILT[step[0]] for step in chosen[1:] if step[0] in BUILT)
    threading.Thread(target=build_ahead, args=(list(ahead),)).start()
    total = Tally()
    for group in groups(chosen):
        run_steps(group, options, total)
    if total.skipped:
        print('\nskipped:')
        for name, why in dict.fromkeys(total.skipped):
            print(f'  {name}: {why}')
    if total.failures:
        print('\nfailed:')
        for name, output in total.failures:
            print(f'  {name}: {failure_text.gist(output)}')
    print(f'\n{total.passed} passed, {total.failed} failed, {len(total.skipped)} skipped')
    return 1 if total.failed else 0


if __name__ == '__main__':
    sys.exit(main())
