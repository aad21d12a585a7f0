#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Installs the build into an empty directory and uses it from there as a stranger would: by
pkg-config, once shared and once static. usage: installed.py BUILD_DIR shared|static|both HELLO_C
"""
import ctypes
import glob
import os
import re
import subprocess
import sys
import tempfile

SHARED = ['lib*/**/libripc.so', 'lib*/**/libripc.so.0']
STATIC = ['lib*/**/libripc.a']
EXPECTED = ['include/ripc/ripc.h', 'include/ripc/call.h', 'include/ripc/group.h',
            'include/ripc/list.h', 'include/ripc/stats.h',
            'lib*/**/pkgconfig/libripc.pc', 'bin/ripc', 'bin/ripc-bench',
            'share/man/man1/ripc.1*', 'share/man/man3/ripc_open.3*',
            'share/man/man3/ripc_close.3*', 'share/man/man7/ripc.7*',
            'share/man/man7/ripc_conventions.7*']


def run(*command, **more):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **more)
    if done.returncode != 0:
        sys.exit(f'{" ".join(command)}: exit status {done.returncode}\n{done.stdout.decode()}')
    return done.stdout.decode()


def sanitized(build):
    """A sanitizer's library would have to come with every program that is linked here."""
    options = run('meson', 'introspect', '--buildoptions', build)
    return '"b_sanitize", "value": "none"' not in options


def hello(root, prefix, source, static):
    pkgconfig = os.path.dirname(glob.glob(prefix + '/lib*/**/libripc.pc', recursive=True)[0])
    libraries = os.path.dirname(pkgconfig)
    environment = dict(os.environ, PKG_CONFIG_LIBDIR=pkgconfig, PKG_CONFIG_SYSROOT_DIR=root)
    query = ['pkg-config', '--cflags', '--libs', 'libripc']
    flags = run(*query, *(['--static'] if static else []), env=environment).split()
    if static:
        flags = ['-l:libripc.a' if flag == '-lripc' else flag for flag in flags]
    binary = os.path.join(root, 'hello-static' if static else 'hello-shared')
    run('cc', source, '-o', binary, *flags)
    run(binary, env=dict(os.environ, LD_LIBRARY_PATH='' if static else libraries))
    needs = 'libripc.so.0' in run('readelf', '-d', binary)
    if needs == static:
        sys.exit(f'{binary}: needs libripc.so.0: {needs}')
    print(f'{os.path.basename(binary)}: {" ".join(flags)}: runs')


def no_foreign(binary):
    needed = re.findall(r'NEEDED.*\[(.*)\]', run('readelf', '-d', binary))
    foreign = [name for name in needed if not re.match(r'lib(ripc|c|m|dl|pthread)\.so', name)]
    if foreign:
        sys.exit(f'{os.path.basename(binary)} needs {", ".join(foreign)}')


def check_modules(prefix):
    """Nothing foreign is loaded with the library; each module exports its one symbol, and loads."""
    library = glob.glob(f'{prefix}/lib*/**/libripc.so.0', recursive=True)[0]
    version = os.path.basename(os.path.realpath(library)).replace('libripc.so.', '')
    no_foreign(library)
    ctypes.CDLL(library)  # which those of ripc-bench need
    for path in glob.glob(os.path.dirname(library) + '/libripc/ripc-*.so'):
        name = os.path.basename(path)
        symbol = 'ripc__bench_module' if name.startswith('ripc-bench-') else 'ripc__module'
        symbols = run('nm', '-D', '--defined-only', path).split()[2::3]
        module = ctypes.c_char_p.in_dll(ctypes.CDLL(path), symbol)
        if symbols != [symbol] or module.value.decode() != version:
            sys.exit(f'{path}: exports {symbols}, of version {module.value}, not {version}')
        print(f'{name}: version {version}')


def check_peers(prefix):
    """ripc-bench needs no foreign library until a peer does, and says what a missing one lacks."""
    library = glob.glob(f'{prefix}/lib*/**/libripc.so.0', recursive=True)[0]
    environment = dict(os.environ, LD_LIBRARY_PATH=os.path.dirname(library), RIPC_BACKENDS='udp')
    bench = prefix + '/bin/ripc-bench'
    no_foreign(bench)
    measure = [bench, 'latency', '--size', '64', '--pairs', '1', '--count', '9', '--vs']
    for path in glob.glob(os.path.dirname(library) + '/libripc/ripc-bench-*.so'):
        peer = re.search('ripc-bench-(.*).so', path)[1].replace('libfabric', 'fi-tcp')
        run(*measure, peer, env=environment)
        print(f'{peer}: runs')
        os.unlink(path)
    done = subprocess.run([*measure, 'zmq'], env=environment, stderr=subprocess.PIPE, text=True)
    if done.returncode != 2 or len(done.stderr.splitlines()) != 1 or \
            'install libzmq3-dev' not in done.stderr:
        sys.exit(f'without its module zmq: exit status {done.returncode}: {done.stderr}')


def check_files(prefix, kind):
    """The needed libraries are installed, and no others."""
    for names, wanted in ((EXPECTED, True), (SHARED, kind != 'static'),
                          (STATIC, kind != 'shared')):
        wrong = [name for name in names
                 if bool(glob.glob(f'{prefix}/{name}', recursive=True)) != wanted]
        if wrong:
            sys.exit(f'{"not " if wanted else ""}installed: {", ".join(wrong)}')


def main():
    build, kind, source = sys.argv[1:]
    if sanitized(build):
        print('a build with sanitizers is not for installing: skipped')
        return 77
    with tempfile.TemporaryDirectory() as folder:
        run('meson', 'install', '-C', build, '--no-rebuild', '--destdir', folder)
        header = glob.glob(folder + '/**/include/ripc', recursive=True)[0]
        prefix = os.path.dirname(os.path.dirname(header))
        check_files(prefix, kind)
        if kind != 'static':
            check_modules(prefix)
            check_peers(prefix)
            hello(folder, prefix, source, static=False)
        if kind != 'shared':
            hello(folder, prefix, source, static=True)
    return 0


if __name__ == '__main__':
    sys.exit(main())
