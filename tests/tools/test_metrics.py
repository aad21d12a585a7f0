# SPDX-License-Identifier: BSD-3-Clause
"""
"ripc metrics" is read by a strict reader of OpenMetrics, by a real Prometheus where one is installed, and by clients that
mean no good. usage: test_metrics.py BUILD_DIR SOURCE_DIR
"""
import json
import os
import re
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

from test_top import Shown, expect, figures

PATIENCE_S, PLACES, TRIES = 60, 32, 10
SAMPLE = re.compile(r'([a-zA-Z_:][a-zA-Z0-9_:]*)\{((?:[a-zA-Z_]\w*="(?:[^"\\\n]|\\["\\n])*",?)*)\} (\S+)$')
LABEL = re.compile(r'([a-zA-Z_]\w*)="((?:[^"\\\n]|\\["\\n])*)"')


def parse(text):
    """By name and labels; strict: families together, types first, each sample once, an end."""
    assert text.endswith('\n# EOF\n'), text[-80:]
    kinds, samples, family = {}, {}, None
    for line in text[:-len('# EOF\n')].splitlines():
        if line.startswith('# TYPE '):
            _, _, family, kind = line.split(' ')
            assert family not in kinds and kind in ('counter', 'gauge'), line
            kinds[family] = kind
        elif line.startswith('# HELP '):
            assert line.split(' ')[2] == family, line
        else:
            name, labels, value = SAMPLE.match(line).groups()
            assert name == family + ('_total' if kinds[family] == 'counter' else ''), line
            pairs = LABEL.findall(labels)
            assert ','.join(f'{key}="{text}"' for key, text in pairs) == labels and len(dict(pairs)) == len(pairs), line
            key = name, tuple(sorted(pairs))
            assert key not in samples and float(value) >= 0, line
            samples[key] = float(value)
    return kinds, samples


class Server:
    def __init__(self, build, *arguments):
        self.popen = subprocess.Popen([os.path.join(build, 'tools/ripc'), 'metrics', '--listen', '0'],
                                      stdout=subprocess.PIPE, text=True)
        self.url = self.popen.stdout.readline().strip()
        self.port = urllib.parse.urlparse(self.url).port

    def get(self):
        with urllib.request.urlopen(self.url, timeout=PATIENCE_S) as answer:
            assert answer.headers['Content-Type'].startswith('application/openmetrics-text; version=1.0.0')
            return answer.read().decode()

    def say(self, request):
        """The answer to these bytes, whole."""
        with socket.create_connection(('127.0.0.1', self.port), timeout=PATIENCE_S) as client:
            client.sendall(request)
            said = b''
            while chunk := client.recv(65536):
                said += chunk
        return said

    def end(self):
        self.popen.terminate()
        self.popen.wait()


def check_values(server, process, names):
    low = process.stats(names)
    kinds, samples = parse(server.get())
    high = process.stats(names)
    of_process = {name: {} for name, _ in samples}
    for (name, labels), value in samples.items():
        if dict(labels)['pid'] == str(process.pid):
            of_process[name][labels] = value
    for name in names:
        if name.startswith('drop_'):
            value = next(value for labels, value in of_process['ripc_drops_total'].items()
                         if dict(labels)['cause'] == name[5:])
        else:
            value, = of_process['ripc_' + name + ('_total' if kinds['ripc_' + name] == 'counter' else '')].values()
        assert low[name] <= value <= high[name] or kinds.get('ripc_' + name) == 'gauge', (name, low[name], value, high[name])
    expect('each first service is a member of a group', len(of_process['ripc_group_member']) == 1)
    expect(f'{len(names)} figures in {len(kinds)} families, {len(samples)} samples', len(of_process['ripc_service_queued']) == 20)
    return kinds


def check_requests(server):
    for request, status in ((b'GET /metrics HTTP/1.0\r\n\r\n', b'200'), (b'GET /metrics?x=1 HTTP/1.1\r\nHost: x\r\n\r\n', b'200'),
                            (b'GET / HTTP/1.1\r\n\r\n', b'404'), (b'GET /metricsx HTTP/1.1\r\n\r\n', b'404'),
                            (b'POST /metrics HTTP/1.1\r\n\r\n', b'405'), (b'nonsense\r\n\r\n', b'400'),
                            (b'GET /metrics\r\n\r\n', b'400'), (b'\0' * 100, b'400'), (b'x' * 5000, b'431')):
        said = server.say(request)
        assert said.startswith(b'HTTP/1.1 ' + status + b' '), (request, said[:200])
        head, _, body = said.partition(b'\r\n\r\n')
        assert int(re.search(rb'Content-Length: (\d+)', head)[1]) == len(body)
    print('requests are answered, also wrong ones')


def closed(clients):
    """The indices of those that the server has closed."""
    poll = select.poll()
    for each in clients:
        poll.register(each, select.POLLIN)
    ready = {fd for fd, _ in poll.poll(0)}
    return [i for i, each in enumerate(clients) if each.fileno() in ready]


def scrape_beside(clients, server, see):
    """A scrape, then the end of these clients; returns what see() returned before the scrape and after it."""
    before = see()
    text = server.get()
    after = see()
    for each in clients:
        each.close()
    parse(text)
    return before, after


def oldest_go(server):
    """Silent clients, and slow ones with half a request, lose their places to new ones: the oldest do, and no others."""
    clients = []
    for i in range(80):
        clients.append(socket.create_connection(('127.0.0.1', server.port), timeout=PATIENCE_S))
        if i % 2:
            clients[-1].sendall(b'GET /met')
    assert all(each.recv(1) == b'' for each in clients[:80 - PLACES])
    before, after = scrape_beside(clients, server, lambda: closed(clients))
    return before == list(range(80 - PLACES)) and after == list(range(81 - PLACES))


def send_buffers_are_small():
    """In a network namespace of our own they can be made so."""
    if '--inside' not in sys.argv:
        return False
    try:
        with open('/proc/sys/net/ipv4/tcp_wmem', 'w', encoding='ascii') as file:
            file.write('4096 16384 16384')
    except OSError:
        return False
    return True


def established(server):
    """How many connections the server has."""
    with open('/proc/net/tcp', encoding='ascii') as file:
        return sum(line.split()[1].endswith(f':{server.port:04X}') and line.split()[3] == '01' for line in file)


def deafest_goes(server):
    """A client that reads nothing of its answers loses its place to a scrape."""
    clients = []
    for _ in range(PLACES):
        clients.append(socket.socket())
        clients[-1].setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        clients[-1].connect(('127.0.0.1', server.port))
        clients[-1].sendall(b'GET /metrics HTTP/1.1\r\n\r\n')
    assert all(each.recv(1) == b'H' for each in clients)
    before, after = scrape_beside(clients, server, lambda: established(server))
    return before == PLACES and after == PLACES - 1


def check_idlers(server):
    """
    A scrape has its answer, whatever other clients do that bring no request, or do not read the
    answer.
    """
    expect('of 80 clients without a request the oldest lose their places', any(oldest_go(server) for _ in range(TRIES)))
    if send_buffers_are_small():
        expect(f'of {PLACES} clients that read nothing one loses its place',
               any(deafest_goes(server) for _ in range(TRIES)))
    else:
        print('not tried: clients that read nothing, as send buffers hold a whole answer')
    silent = [socket.create_connection(('127.0.0.1', server.port), timeout=PATIENCE_S) for _ in range(PLACES - 1)]
    silent[0].sendall(b'GET /met')
    expect(f'{len(silent)} silent clients keep nobody waiting', server.get())
    expect('their time is limited', all(each.recv(1) == b'' for each in silent))
    for each in silent:
        each.close()


def check_dashboard(source, kinds):
    """Each figure that the dashboard shows is one that is told."""
    with open(os.path.join(source, 'tools/grafana/ripc.json'), encoding='utf-8') as file:
        board = json.load(file)
    queries = [target['expr'] for panel in board['panels'] for target in panel['targets']]
    names = {name for query in queries for name in re.findall(r'\bripc_\w+', query)}
    told = {name + ('_total' if kind == 'counter' else '') for name, kind in kinds.items()}
    expect(f'{len(names)} names in {len(queries)} queries of the dashboard are told', names <= told, names - told)
    return [re.sub(r'\$__rate_interval', '3s', query.replace('$command', '.*')) for query in queries]


def check_prometheus(server, queries):
    """A Prometheus that scrapes once a second has the figures, and understands each query."""
    if not shutil.which('prometheus'):
        print('not tried: there is no prometheus (apt-get install prometheus)')
        return
    with tempfile.TemporaryDirectory() as folder, socket.create_server(('127.0.0.1', 0)) as free:
        port = free.getsockname()[1]
        free.close()
        with open(os.path.join(folder, 'prometheus.yml'), 'w', encoding='utf-8') as file:
            file.write('global: {scrape_interval: 1s}\nscrape_configs:\n- job_name: ripc\n  static_configs:\n'
                       f'  - targets: ["127.0.0.1:{server.port}"]\n')
        prometheus = subprocess.Popen(['prometheus', f'--config.file={folder}/prometheus.yml', f'--storage.tsdb.path={folder}/data',
                                       f'--web.listen-address=127.0.0.1:{port}', '--log.level=warn'],
                                      stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT)
        try:
            watch(port, queries)
        finally:
            prometheus.terminate()
            prometheus.wait()


def watch(port, queries):
    def ask(query):
        url = f'http://127.0.0.1:{port}/api/v1/query?' + urllib.parse.urlencode({'query': query})
        try:
            with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
                return json.load(answer)['data']['result']
        except (ConnectionError, urllib.error.URLError) as error:
            if isinstance(error, urllib.error.HTTPError) and error.code == 400:
                raise
            return []
    def wait_for(condition):
        """Waits until the condition is true, as a scrape may be late, or last too long."""
        end = time.monotonic() + PATIENCE_S
        while not (seen := condition()) and time.monotonic() < end:
            time.sleep(0.3)
        return seen
    expect('a real Prometheus has rates', wait_for(lambda: ask('rate(ripc_short_sent_total[5s]) > 0')), ask('up'))
    expect('all is up', wait_for(lambda: ask('min(up) == 1')))
    expect('and understands the dashboard: eight queries have an answer',
           wait_for(lambda: sum(bool(ask(query)) for query in queries) >= 8), queries)


def main(build, source):
    if os.geteuid() == 0 and '--inside' not in sys.argv:
        return subprocess.run(['unshare', '-n', sys.executable, *sys.argv, '--inside'], check=False).returncode
    if os.geteuid() == 0:
        subprocess.run(['ip', 'link', 'set', 'lo', 'up'], check=True)
    processes = [Shown(build, i) for i in range(3)]
    server = Server(build)
    names = figures(source)
    try:
        for each in processes:
            each.say('load')
        kinds = check_values(server, processes[0], names)
        queries = check_dashboard(source, kinds)
        check_prometheus(server, queries)
        check_requests(server)
        check_idlers(server)
    finally:
        server.end()
        for each in processes:
            each.popen.kill()
            each.popen.wait()
    printed = subprocess.run([os.path.join(build, 'tools/ripc'), 'metrics'], check=True, stdout=subprocess.PIPE, text=True)
    parse(printed.stdout)
    return 0


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:3]))
