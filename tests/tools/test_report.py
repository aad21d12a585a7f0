#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
bench/report --quick --only: all files come out, the page names what there is, and what fails.
--page draws docs/benchmarks.md from its data.

usage: test_report.py ROOT BUILD [unittest arguments]
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import test_plot

sys.path.insert(0, os.path.join(test_plot.ROOT, 'bench/lib'))
import front  # noqa: E402
import plan  # noqa: E402

MATPLOTLIB = '3.6.3'  # which has drawn docs/benchmarks
BUILD = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 else os.getcwd()


def numbers_of(folder, name):
    """
    The text of a picture without its numbers, and the numbers: processors differ in the last digit,
    and the names of clip paths are made from all digits.
    """
    with open(os.path.join(folder, name), encoding='utf-8') as stream:
        text = re.sub(r'#?\bp[0-9a-f]{10}\b', 'CLIP', stream.read())
    number = r'-?\d+\.\d+'
    return re.sub(number, 'N', text), [float(found) for found in re.findall(number, text)]


class Report(unittest.TestCase):
    def setUp(self):
        self.top = tempfile.TemporaryDirectory()
        self.addCleanup(self.top.cleanup)

    def report(self, *arguments, build=BUILD, **environment):
        return subprocess.run(
            [os.path.join(test_plot.ROOT, 'bench/report'), '--build', build, '--out',
             self.top.name, '--quick', *arguments], stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, env={**os.environ, **environment})

    def kept(self):
        with open(os.path.join(self.top.name, 'report.json'), encoding='utf-8') as stream:
            return json.load(stream)

    def page(self):
        with open(os.path.join(self.top.name, 'benchmarks.md'), encoding='utf-8') as stream:
            return stream.read()

    def test_latency(self):
        done = self.report('--only', 'latency', '--backends', 'udp')
        self.assertEqual(done.returncode, 0, done.stdout)
        page, names = self.page(), os.listdir(self.top.name)
        for kind in ('.jsonl', '.csv', '.txt', '.svg', '.png'):
            self.assertIn('udp-latency' + kind, names)
        self.assertTrue([name for name in names if name.endswith('.hgrm')])
        self.assertIn('](udp-latency.svg)', page)
        self.assertIn('    build/report/bench/ripc-bench latency --backend udp', page)
        self.assertIn('**Limits:** Client', page)

    def test_what_fails_is_named(self):
        done = self.report('--only', 'raw,partners', '--backends', 'nonsense')
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn('failed: nonsense-raw: ', done.stdout)
        self.assertIn('failed: nonsense-partners: ', done.stdout)

    def test_measured_here_drawn_there(self):
        done = self.report('--only', 'raw', '--backends', 'udp', '--measure')
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn('udp-raw.jsonl', os.listdir(self.top.name))
        self.assertNotIn('benchmarks.md', os.listdir(self.top.name))
        done = self.report('--draw')
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn('](udp-raw-ratio.svg)', self.page())

    def test_links_lead_somewhere(self):
        done = self.report('--only', 'segmentation', '--backends', 'udp')
        self.assertEqual(done.returncode, 0, done.stdout)
        links = re.findall(r'\]\((\S+\.md)\)', self.page())
        self.assertTrue(links)
        for link in links:
            self.assertTrue(os.path.exists(os.path.join(self.top.name, link)), link)

    def test_files_in_a_guest(self):
        """Output written in there stays where the command of the page says so."""
        done = self.report('--only', 'files', '--backends', 'udp', '--measure', LAB_SHARED='/run')
        self.assertEqual(done.returncode, 0, done.stdout)
        command = self.kept()['udp-files']['command']
        self.assertRegex(command, '^tests/system/hw/guest .*--out build/benchmarks .*bench/report '
                         '--only files --backends udp .*--measure --build build/report$')

    def test_commands_on_soft_devices(self):
        """The pages tell the settings of the devices, and nothing of where this was built."""
        softefa = {'LD_PRELOAD': '/nowhere/libsoftefa.so', 'SOFTEFA_SHUFFLE': '0'}
        for name, command, environment in (
                ('raw', 'tests/support/softefa/run --shuffle 0 build/report/bench/ripc-bench '
                 'latency ', softefa),
                ('raw', 'tests/system/hw/guest --memory 4096 build/report/bench/ripc-bench '
                 'latency ', {'LAB_SHARED': '/run'}),
                ('files', 'tests/support/softefa/run --shuffle 0 bench/report --only files '
                 '--backends none --quick --measure --build build/report', softefa)):
            # There is no such backend: what fails is recorded, too.
            self.report('--only', name, '--backends', 'none', '--measure', **environment)
            self.assertTrue(self.kept()[f'none-{name}']['command'].startswith(command))

    def test_few_is_for_a_slow_machine(self):
        rows = {row.name: row for row in plan.PLAN}
        for name, words in (('saturation', '--rate 200,500,'), ('threads', '--threads 1,2,4,8,16 '),
                            ('rate', '--depth 1,2,8,32,128,512 ')):
            arguments = ' '.join(plan.arguments(rows[name], 'udp', {}, few=True))
            self.assertIn(words, arguments)
            self.assertIn(f'--count {rows[name].count // 2}', arguments)

    def test_too_long_for_short(self):
        """RDMA's short messages have less than 4 KiB: what asks for more is not in the plan."""
        done = self.report('--only', 'rate-large', '--backends', 'verbs,rdmacm', '--measure')
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertEqual(os.listdir(self.top.name), [])
        done = self.report('--only', 'rate-by-size', '--backends', 'rdmacm', '--measure')
        kept = self.kept()
        self.assertIn(' --size 16,1K ', kept['rdmacm-rate-by-size']['command'])
        for test in ('rate-large', 'latency'):
            kept[f'verbs-{test}'] = {**kept['rdmacm-rate-by-size'], 'failed': f'no {test}'}
        with open(os.path.join(self.top.name, 'report.json'), 'w', encoding='utf-8') as stream:
            json.dump(kept, stream)
        self.report('--draw')  # which says that without devices there is nothing to draw
        page = self.page()
        self.assertIn('**Failed:** no latency', page)
        self.assertNotIn('no rate-large', page)
        self.assertEqual(page.count('Not measured with messages of 4,096 and 8,192 bytes: '), 3)

    def test_page_of_the_repository(self):
        """The text is the same; the pictures, too, if Matplotlib is the same."""
        docs = os.path.join(test_plot.ROOT, 'docs/benchmarks')
        done = self.report('--page', self.top.name)
        self.assertEqual(done.returncode, 0, done.stdout)
        with open(docs + '.md', encoding='utf-8') as stream:
            self.assertEqual(self.page(), stream.read().replace('](benchmarks/', ']('))
        names = sorted(name for name in os.listdir(docs) if name != 'data.jsonl')
        self.assertEqual(sorted(os.listdir(self.top.name)), ['benchmarks.md', *names])
        self.assertEqual(names, sorted(sum(plan.front().values(), [])))
        if test_plot.matplotlib_version() == MATPLOTLIB:
            for name in names:
                kept, drawn = numbers_of(docs, name), numbers_of(self.top.name, name)
                self.assertTrue(drawn[0] == kept[0], name)
                for one, other in zip(drawn[1], kept[1]):
                    self.assertAlmostEqual(one, other, places=4, msg=name)

    def test_publish(self):
        """New measurements replace older ones of the same name; no other picture stays."""
        bench, docs = self.top.name + '/bench', self.top.name + '/docs/benchmarks'
        shutil.copytree(os.path.join(test_plot.ROOT, 'bench'), bench)
        os.makedirs(docs)
        found = front.read(os.path.join(test_plot.ROOT, 'docs/benchmarks/data.jsonl'))
        found = {name: found[name] for name in ('udp-files', 'udp-cpu')}
        front.write(docs + '/data.jsonl', found)
        with open(docs + '/old.svg', 'w', encoding='utf-8') as stream:
            stream.write('<svg/>')
        kept = front.unpack({'udp-cpu': found['udp-cpu']}, self.top.name)
        for name, commit in (('udp-cpu', 'c0ffee'), ('udp-threads', 'abad1dea')):
            kept[name] = {**kept['udp-cpu'], 'commit': commit}
        with open(self.top.name + '/report.json', 'w', encoding='utf-8') as stream:
            json.dump(kept, stream)
        done = subprocess.run([bench + '/report', '--publish', '--out', self.top.name], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertEqual(sorted(os.listdir(docs)), ['data.jsonl', 'udp-cpu.svg', 'udp-files.svg'])
        found['udp-cpu'][0]['commit'] = 'c0ffee'
        self.assertEqual(front.read(docs + '/data.jsonl'), found)
        with open(docs + '.md', encoding='utf-8') as stream:
            page = stream.read()
        self.assertIn(f'| commit | {found["udp-files"][0]["commit"]}, c0ffee |', page)
        self.assertIn('](benchmarks/udp-cpu.svg)', page)
        self.assertNotIn('abad1dea', page)

    def test_unknown_measurement(self):
        done = self.report('--only', 'dance')
        self.assertEqual(done.returncode, 1)
        self.assertIn('no such measurement: dance', done.stdout)


if __name__ == '__main__':
    if not test_plot.is_drawable():
        print('skipped: there is no matplotlib (apt-get install python3-matplotlib)')
        sys.exit(77)
    unittest.main()
