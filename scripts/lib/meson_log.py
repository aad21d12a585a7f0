# SPDX-License-Identifier: BSD-3-Clause
"""
Counts what a test run did, from Meson's own log and from what the programs say of their cases:
Check's and unittest's summaries, and the lines of tests/system/net/netlab.py.
"""
import json
import re
from dataclasses import dataclass, field

CHECK_SUMMARY = re.compile(r'^\d+%: Checks: (\d+), Failures: (\d+), Errors: (\d+)$', re.M)
UNITTEST_SUMMARY = re.compile(r'^Ran (\d+) tests? in .*\n\n(?:OK|FAILED)(?: \((.*)\))?$', re.M)
NETLAB_CASE = re.compile(r'^(ok|FAIL) {2,}\w+', re.M)
SKIPPED = re.compile(r"^skipped: (.+)$|\.\.\. skipped ['\"](.+)['\"]$", re.M)


@dataclass
class Tally:
    """Test cases where the program counts them, else programs."""
    programs: int = 0
    passed: int = 0
    failed: int = 0
    skipped: list = field(default_factory=list)   # (name, reason)
    failures: list = field(default_factory=list)  # (name, output)

    def add(self, other):
        self.programs += other.programs
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped
        self.failures += other.failures


def last_line(output):
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return lines[-1] if lines else 'no reason given'


def reason(output):
    """Why a program exited with 77: its last line, without the word that it begins with."""
    return re.sub(r'^skipped: ', '', last_line(output))


def count_cases(output):
    """How many cases the program says have passed and failed."""
    passed = failed = 0
    for checks, failures, errors in CHECK_SUMMARY.findall(output):
        passed += int(checks) - int(failures) - int(errors)
        failed += int(failures) + int(errors)
    for ran, details in UNITTEST_SUMMARY.findall(output):
        counts = dict(re.findall(r'(\w+)=(\d+)', details))
        bad = int(counts.get('failures', 0)) + int(counts.get('errors', 0))
        passed += int(ran) - bad - int(counts.get('skipped', 0))
        failed += bad
    for word in NETLAB_CASE.findall(output):
        passed += word == 'ok'
        failed += word == 'FAIL'
    return passed, failed


def count_program(name, ok, skipped, output):
    """The tally of one program that has ended."""
    if skipped:
        return Tally(programs=1, skipped=[(name, reason(output))])
    reasons = [first or second for first, second in SKIPPED.findall(output)]
    tally = Tally(programs=1, skipped=[(name, why) for why in reasons])
    tally.passed, tally.failed = count_cases(output)
    if ok:
        if not tally.passed and not tally.failed and not reasons:
            tally.passed = 1
        if tally.failed:
            tally.failures.append((name, 'exit status 0, but it says that cases failed\n' + output))
    else:
        tally.failed = max(tally.failed, 1)
        tally.failures.append((name, output))
    return tally


def read(path):
    """The tally of a whole "meson test" run."""
    tally = Tally()
    with open(path) as f:
        for line in f:
            entry = json.loads(line)
            output = entry.get('stdout', '') + entry.get('stderr', '')
            if entry['result'] not in ('OK', 'EXPECTEDFAIL', 'SKIP'):
                output = f'{entry["result"]} after {entry["duration"]:.0f} s\n' + output
            tally.add(count_program(entry['name'].split(' / ')[-1],
                                    entry['result'] in ('OK', 'EXPECTEDFAIL'),
                                    entry['result'] == 'SKIP', output))
    return tally
