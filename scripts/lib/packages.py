# SPDX-License-Identifier: BSD-3-Clause
"""
The Debian packages: built and looked at by lintian in one fresh system, byte-equal in two directories;
installed, tried and upgraded in another one.
"""
import glob
import os
import re
import shutil

import meson_log
import roots

with open(os.path.join(roots.ROOT, 'debian/changelog'), encoding='utf-8') as changelog:
    VERSION = re.match(r'libripc \(([^)-]*)-1\)', changelog.readline())[1]
SOURCES = '/root/libripc-' + VERSION
TOOLS = ['build-essential', 'debhelper', 'dh-python', 'dpkg-dev', 'lintian', 'meson', 'pkg-config', 'libfabric-dev',
         'libibverbs-dev', 'librdmacm-dev', 'libssl-dev', 'libzookeeper-st-dev',
         'python3-dev', 'systemtap-sdt-dev']
# The same bytes from another directory, in another time zone, by one processor.
BUILD = '''
rm -rf /root/first /root/second /root/elsewhere /root/*.deb
cd %(sources)s && dpkg-buildpackage -b -us -uc
lintian --fail-on error --tag-display-limit 0 /root/*.changes >/root/lintian 2>&1 || { cat /root/lintian; exit 1; }
mkdir /root/first && mv /root/*.deb /root/first
mkdir /root/elsewhere && cp -a %(sources)s /root/elsewhere/other && cd /root/elsewhere/other
debian/rules clean >/dev/null && TZ=Asia/Tokyo dpkg-buildpackage -b -us -uc -j1
mkdir /root/second && mv /root/elsewhere/*.deb /root/second
cd /root/first && sha256sum *.deb >/root/sums && cd ../second && sha256sum -c /root/sums
''' % {'sources': SOURCES}
# Without the modules' packages doctor asks for them; debian/tests/modules looks with them.
INSTALL = '''
cd /root/debs && apt-get install -qq -y --no-install-recommends ./libripc0_*.deb ./libripc-dev_*.deb ./libripc-doc_*.deb ./ripc-tools_*.deb \\
	gcc libc6-dev pkg-config cmake make man-db python3 >/dev/null
for name in verbs rdmacm ofi; do ripc doctor | grep -Eq "^ +$name +no"; done
test "$(find / -xdev -name 'ripc-*.so')" = ''
MANPAGER=cat man 3 ripc_open | grep -q ripc_close
MANPAGER=cat man 1 ripc | grep -q doctor
cd /usr/share/doc/libripc-dev
python3 %s/tests/abi/packaged.py --installed README.md
for name in ripc ripc-bench; do test -e /usr/share/bash-completion/completions/$name; done
''' % SOURCES
# The tests of debian/tests/control, each with the packages that it names: 0 if all have passed.
TESTS = '''
apt-get install -qq -y --no-install-recommends autopkgtest apt-utils dpkg-dev >/dev/null
cd /root && autopkgtest debs/*.deb %s/ -- null >tested 2>&1 || { cat tested; exit 1; }
''' % SOURCES
# The server was started with the old library and goes on, with clients of the new one.
UPGRADE = '''
cd %s && cc -D_GNU_SOURCE examples/fileserver*.c examples/cache.c -o /root/fileserver $(pkg-config --cflags --libs libripc) -lpthread
cc -D_GNU_SOURCE examples/fileget*.c -o /root/fileget $(pkg-config --cflags --libs libripc)
/root/fileserver docs --name upgraded >/root/served 2>&1 & server=$!
n=0; until grep -q serving /root/served || [ $n = 300 ]; do n=$((n + 1)); sleep 0.1; done
/root/fileget --quiet --name upgraded design.md -o /root/before
cd /root && for deb in debs/*.deb; do
	rm -rf one && dpkg-deb -R $deb one
	sed -i 's/%s-1/%s-2/' one/DEBIAN/control && dpkg-deb -b one newer-$(basename $deb) >/dev/null
done
apt-get install -qq -y --no-install-recommends ./newer-*.deb >/dev/null
test "$(dpkg-query -W -f '${Version}' libripc0)" = %s-2
kill -0 $server
/root/fileget --quiet --name upgraded design.md -o /root/after
cmp /root/before /root/after && cmp /root/after %s/docs/design.md
kill $server
''' % (SOURCES, VERSION, VERSION, VERSION, SOURCES)


def built():
    system = roots.System('bookworm', 'bookworm-packages', kept=True)
    system.apt(*TOOLS)
    system.copy_sources(SOURCES)
    system.shell(BUILD)
    return glob.glob(os.path.join(system.path, 'root/first/*.deb'))


def used(debs):
    system = roots.System('bookworm', 'fresh-packages')
    try:
        system.copy_sources(SOURCES)
        folder = os.path.join(system.path, 'root/debs')
        os.makedirs(folder)
        for deb in debs:
            if not re.search('-dbgsym_', deb):
                shutil.copy(deb, folder)
        system.shell('apt-get update -qq\n' + INSTALL)
        system.shell(TESTS)
        system.shell(UPGRADE)
    finally:
        system.remove()


def run():
    tally = meson_log.Tally()
    try:
        debs = built()
        tally.add(meson_log.Tally(programs=1, passed=3))  # built, no error of lintian, the same twice
        used(debs)
        tally.add(meson_log.Tally(programs=1, passed=3))  # installed, tests passed, upgraded
    except roots.Broken as why:
        tally.add(meson_log.Tally(programs=1, failed=1, failures=[('packages', str(why))]))
    return tally
