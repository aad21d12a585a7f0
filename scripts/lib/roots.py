# SPDX-License-Identifier: BSD-3-Clause
"""
Fresh systems in directories: a small Debian each, made by debootstrap and kept in build/roots, and
copies of it to be used up. Nothing of the host is changed; root is needed.
"""
import os
import shutil
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FOLDER = os.environ.get('RIPC_TEST_ROOTS', os.path.join(ROOT, 'build/roots'))
MIRROR = os.environ.get('RIPC_TEST_MIRROR', 'http://deb.debian.org/debian')

# In name spaces of its own: what is mounted goes with them, and no other test's sockets are met.
ENTER = '''
root=$1; alone=$2; shift 2
mount -t proc proc $root/proc && mount --rbind /dev $root/dev && mount -t sysfs sys $root/sys || true
mount -t tmpfs tmpfs $root/tmp
[ -z "$alone" ] || ip link set lo up
exec chroot $root env -i HOME=/root TERM=dumb LANG=C \\
	PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@"
'''


# Programs of other processors run by qemu there. The kernel keeps what it knows of them by user
# namespace, so that nothing of the host is changed. The namespace waits for its map of users.
EMULATE = '''
read go
mount -t proc proc $1/proc && mount --rbind /dev $1/dev && mount -t sysfs sys $1/sys &&
mount -t tmpfs tmpfs $1/tmp && mount -t binfmt_misc none $1/proc/sys/fs/binfmt_misc || exit 1
ip link set lo up
exec chroot $1 env -i HOME=/root TERM=dumb LANG=C \\
	PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin sh -e -c '
	for known in /usr/lib/binfmt.d/qemu-*.conf
	do cat $known >/proc/sys/fs/binfmt_misc/register || true; done
	eval "$1"' sh "$2"
'''


class Broken(Exception):
    """A command failed; its text is the end of what it said."""


def must(command, **more):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          stdin=subprocess.DEVNULL, **more)
    output = done.stdout.decode('utf-8', 'replace')
    if done.returncode != 0:
        tail = '\n'.join(output.splitlines()[-40:])
        raise Broken(f'{" ".join(command)}: exit status {done.returncode}\n{tail}')
    return output


def bootstrap(suite, arch=None):
    """The directory of a system that nobody has used; arch: one that this processor runs."""
    path = os.path.join(FOLDER, f'{suite}-{arch}' if arch else suite)
    if os.path.exists(path):
        return path
    os.makedirs(FOLDER, exist_ok=True)
    shutil.rmtree(path + '.new', ignore_errors=True)
    chosen = [f'--arch={arch}'] if arch else []
    must(['debootstrap', '--variant=minbase', *chosen, suite, path + '.new', MIRROR])
    os.rename(path + '.new', path)
    return path


class System:
    """A copy of such a system. kept: it is used again, with what was installed there."""

    def __init__(self, suite, name, kept=False, arch=None):
        self.path = os.path.join(FOLDER, name)
        if not (kept and os.path.exists(self.path)):
            shutil.rmtree(self.path, ignore_errors=True)
            must(['cp', '-a', bootstrap(suite, arch), self.path])
        shutil.copy('/etc/resolv.conf', os.path.join(self.path, 'etc/resolv.conf'))

    def command(self, command, alone):
        network = ['-n'] if alone else []
        return ['unshare', '-m', *network, '--propagation', 'private', 'sh', '-c', ENTER, 'sh',
                self.path, 'alone' if alone else '', *command]

    def run(self, *command, alone=False):
        """Runs a command there, alone: in a network of its own. Returns what it says."""
        return must(self.command(command, alone))

    def shell(self, text, alone=False):
        return self.run('sh', '-e', '-c', text, alone=alone)

    def emulated(self, text):
        """As shell(), alone, and programs of other processors run."""
        child = subprocess.Popen(['unshare', '-U', '-m', '-n', '-p', '-f', 'sh', '-c', EMULATE, 'sh',
                                  self.path, text], stdin=subprocess.PIPE,
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        own = os.readlink('/proc/self/ns/user')
        while child.poll() is None and os.readlink(f'/proc/{child.pid}/ns/user') == own:
            time.sleep(0.01)
        if child.returncode is not None:
            raise Broken(child.stdout.read().decode('utf-8', 'replace'))
        for name in ('uid_map', 'gid_map'):
            with open(f'/proc/{child.pid}/{name}', 'w') as f:
                f.write('0 0 65536')
        output = child.communicate(b'go\n')[0].decode('utf-8', 'replace')
        if child.returncode != 0:
            raise Broken('\n'.join([f'{text}: exit status {child.returncode}',
                                    *output.splitlines()[-40:]]))
        return output

    def apt(self, *packages):
        packages = ' '.join(packages)
        self.shell('apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y '
                   f'--no-install-recommends {packages}')

    def write(self, name, text):
        path = os.path.join(self.path, name.lstrip('/'))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, 'w') as f:
            f.write(text)

    def copy_sources(self, folder):
        """Copies the files of this tree that git knows to a folder there."""
        target = os.path.join(self.path, folder.lstrip('/'))
        shutil.rmtree(target, ignore_errors=True)
        names = must(['git', '-C', ROOT, 'ls-files', '-z']).split('\0')
        for name in filter(None, names):
            if not os.path.lexists(os.path.join(ROOT, name)):
                continue
            os.makedirs(os.path.dirname(os.path.join(target, name)), exist_ok=True)
            shutil.copy2(os.path.join(ROOT, name), os.path.join(target, name),
                         follow_symlinks=False)

    def remove(self):
        shutil.rmtree(self.path, ignore_errors=True)


def missing():
    """Why no such system can be made here, or None."""
    if os.geteuid() != 0:
        return 'needs root'
    for program in ('debootstrap', 'unshare', 'chroot'):
        if not shutil.which(program):
            return f'there is no {program}'
    return None


if __name__ == '__main__':
    sys.exit('a part of scripts/test')
