# SPDX-License-Identifier: BSD-3-Clause
"""
The library where it is not at home, each in a small Debian of its own: 32 bits, another libc, an
older Debian, other processors under qemu-user; and README.md on fresh systems.
"""
import json
import os

import fresh
import meson_log
import roots

SOURCES = '/root/libripc'
PACKAGES = ['gcc', 'libc6-dev', 'meson', 'ninja-build', 'pkg-config', 'check', 'python3', 'iproute2']
RDMA = ['libibverbs-dev', 'librdmacm-dev', 'rdma-core', 'libfabric-dev', 'libfabric-bin']
WITHOUT_RDMA = ['-Dverbs=disabled', '-Drdmacm=disabled', '-Dofi=disabled']
SUITES = ['--suite', 'unit', '--suite', 'conformance', '--no-suite', 'providers']

# Check for musl is not in Debian. The kernel's headers are the same for any libc.
MUSL = '''
[ ! -e /opt/musl/lib/pkgconfig/check.pc ] || exit 0
echo deb-src %s bookworm main >/etc/apt/sources.list.d/sources.list
apt-get update -qq
apt-get install -qq -y --no-install-recommends musl-tools make dpkg-dev
mkdir -p /opt/check /opt/musl/include /opt/musl/lib/pkgconfig
cd /opt/check && apt-get source -qq check && cd check-*/
CC=musl-gcc ./configure --prefix=/opt/musl --disable-subunit --disable-shared --disable-build-docs
make -C lib && make -C src && make -C src install && cp check_stdint.h /opt/musl/include
ln -sfn -t /opt/musl/include /usr/include/linux /usr/include/asm-generic /usr/include/x86_64-linux-gnu/asm
cat >/opt/musl/lib/pkgconfig/check.pc <<EOF
Name: Check
Description: built with musl
Version: 0.15.2
Libs: -L/opt/musl/lib -lcheck
Cflags: -I/opt/musl/include
EOF
''' % roots.MIRROR

# A compiler for another processor, its C library, and what else the tests are linked with.
CROSS = '''
[ ! -e /opt/%(arch)s.cross ] || exit 0
dpkg --add-architecture %(arch)s
apt-get update -qq
apt-get install -qq -y --no-install-recommends qemu-user-static gcc-%(gnu)s libc6-dev:%(arch)s
cd /tmp && apt-get download -qq check:%(arch)s libsubunit-dev:%(arch)s libsubunit0:%(arch)s
for package in *_%(arch)s.deb; do dpkg -x $package /; done
cat >/opt/%(arch)s.cross <<EOF
[binaries]
c = '%(gnu)s-gcc'
ar = '%(gnu)s-ar'
strip = '%(gnu)s-strip'
pkgconfig = 'pkg-config'
[properties]
pkg_config_libdir = '/usr/lib/%(gnu)s/pkgconfig'
needs_exe_wrapper = false
[host_machine]
system = 'linux'
cpu_family = '%(family)s'
cpu = '%(family)s'
endian = '%(endian)s'
EOF
'''

ARM64 = {'arch': 'arm64', 'gnu': 'aarch64-linux-gnu', 'family': 'aarch64', 'endian': 'little'}
S390X = {'arch': 's390x', 'gnu': 's390x-linux-gnu', 'family': 's390x', 'endian': 'big'}


def introspect(system, build, what):
    return json.loads(system.run('meson', 'introspect', what, build))


def needed(system, build):
    """The files of the tests that run here, and of what they start."""
    ids = set()
    for test in introspect(system, build, '--tests'):
        suites = {suite.split(':')[-1] for suite in test['suite']}
        if suites & {'unit', 'conformance'} and 'providers' not in suites:
            ids.update(test['depends'])
    return [name for target in introspect(system, build, '--targets') if target['id'] in ids
            for name in target['filename']]


def tested(system, name, *options, settings='', shell=None, patience=5):
    """Builds and runs the unit and conformance tests in a system."""
    build = f'/root/build/{name}'
    shell = shell or (lambda text: system.shell(text, alone=True))
    system.copy_sources(SOURCES)
    shell(f'{settings}\n[ -e {build}/build.ninja ] || meson setup {build} {SOURCES} -Dtests=enabled '
          f'-Dwerror=true {" ".join(options)}')
    shell(f'{settings}\nninja -C {build} build.ninja')  # as the sources are now
    files = ' '.join(os.path.relpath(file, build) for file in needed(system, build))
    shell(f'{settings}\nninja -j{len(os.sched_getaffinity(0))} -C {build} {files}')
    shell(f'rm -f {build}/meson-logs/testlog.json; CK_TIMEOUT_MULTIPLIER={patience} '
          f'meson test -C {build} --no-rebuild -t {patience} '
          f'{" ".join(SUITES)} || true')
    log = system.path + build + '/meson-logs/testlog.json'
    if not os.path.exists(log):
        raise roots.Broken(f'{name}: meson test left no log')
    tally = meson_log.read(log)
    if not tally.passed and not tally.failed:
        raise roots.Broken(f'{name}: no test ran')
    return tally


def i386():
    system = roots.System('bookworm', 'i386', kept=True, arch='i386')
    system.apt(*PACKAGES, *RDMA)
    return tested(system, 'i386')


def musl():
    system = roots.System('bookworm', 'bookworm-foreign', kept=True)
    system.apt(*PACKAGES)
    system.shell(MUSL)
    return tested(system, 'musl', *WITHOUT_RDMA,
                  settings='export PKG_CONFIG_LIBDIR=/opt/musl/lib/pkgconfig CC=musl-gcc '
                  'CFLAGS="-isystem /opt/musl/include"')


def emulated(machine):
    system = roots.System('bookworm', 'bookworm-foreign', kept=True)
    system.apt(*PACKAGES)
    system.shell(CROSS % machine)
    arch = machine['arch']
    return tested(system, arch, f'--cross-file=/opt/{arch}.cross', *WITHOUT_RDMA,
                  shell=system.emulated, patience=20)


def older():
    """Debian 11: glibc 2.31, Meson 0.56, rdma-core 33."""
    system = roots.System('bullseye', 'bullseye-foreign', kept=True)
    system.apt(*PACKAGES, *RDMA)
    return tested(system, 'bullseye')


def readme(suite):
    fresh.follow(suite)
    return meson_log.Tally(programs=1, passed=1)


PARTS = [('i386', i386), ('musl', musl), ('arm64', lambda: emulated(ARM64)),
         ('s390x', lambda: emulated(S390X)), ('Debian 11', older),
         *((f'README.md, {suite}', lambda suite=suite: readme(suite)) for suite in fresh.SUITES)]


def run():
    """The tally of all parts."""
    tally = meson_log.Tally()
    for name, part in PARTS:
        try:
            of_part = part()
        except roots.Broken as why:
            of_part = meson_log.Tally(failed=1, failures=[('all', str(why))])
        of_part.skipped = [(f'{name}: {test}', why) for test, why in of_part.skipped]
        of_part.failures = [(f'{name}: {test}', output) for test, output in of_part.failures]
        print(f'\n  {name}: {of_part.passed} passed, {of_part.failed} failed, '
              f'{len(of_part.skipped)} skipped', end='', flush=True)
        tally.add(of_part)
    print()
    return tally
