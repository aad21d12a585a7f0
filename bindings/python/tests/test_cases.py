# SPDX-License-Identifier: BSD-3-Clause
"""Runs tests/bindings/cases.json: its README says what a step means."""
import errno
import json
import os
import threading
import time
import unittest

import ripc

CASES = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                     '../../../tests/bindings/cases.json')
PATIENCE = 20.0
KINDS = {ripc.SHORT: 'short', ripc.LONG: 'long', ripc.COMPLETION: 'completion',
         ripc.NOTICE: 'notice', ripc.REQUEST: 'request', ripc.REPLY: 'reply'}
OUTCOMES = {ripc.DELIVERED: 'delivered', ripc.NOT_DELIVERED: 'not delivered',
            ripc.UNKNOWN: 'unknown'}
PLACES = {ripc.IN_POOL: 'pool', ripc.IN_WINDOW: 'window', ripc.IN_RETURN: 'return'}


def bytes_of(item):
    if isinstance(item, str):
        return item.encode()
    return (bytes(range(251)) * (item // 251 + 1))[:item]


def seconds(step):
    return step['timeout_ms'] / 1000 if 'timeout_ms' in step else None


class Beside(threading.Thread):
    """A step in a thread of its own."""

    def __init__(self, run):
        super().__init__(daemon=True)
        self.what, self.result, self.failure = run, None, None
        self.start()

    def run(self):
        try:
            self.result = self.what()
        except Exception as failure:
            self.failure = failure

    def end(self):
        self.join(3 * PATIENCE)
        if self.is_alive():
            raise AssertionError('the step does not end')
        if self.failure:
            raise self.failure
        return self.result


class Run:
    """One case with one backend."""

    def __init__(self, test, case, backend):
        self.test, self.case, self.backend = test, case, backend
        self.contexts = {name: ripc.Context(backends=backend, interfaces='lo') for name in 'ab'}
        self.services = {name: self.contexts[context].service()
                         for name, context in case.get('services', {}).items()}
        self.ids = {name: service.id for name, service in self.services.items()}
        self.incarnations = {name: service.incarnation
                             for name, service in self.services.items()}
        self.messages, self.beside = {}, {}

    def end(self):
        self.messages.clear()
        for context in self.contexts.values():
            context.close()

    # ---- names ----------------------------------------------------------------------------

    def id(self, name):
        if name.startswith('$'):
            return f'cases-{os.getpid()}-{self.backend}-{self.case["name"]}-{name}'
        return self.ids[name]

    def items(self, step, context):
        if 'message' in step:
            return list(self.messages[step['message']])
        items = [bytes_of(item) for item in step['items']]
        if step.get('give') is not True:
            return items
        buffers = [context.buffer(len(item)) for item in items]
        for buffer, item in zip(buffers, items):
            memoryview(buffer)[:] = item
        return buffers

    def options(self, step, *names):
        options = {name: step[name] for name in names if name in step}
        if 'returns' in step:
            options['returns'] = [bytearray(length) for length in step['returns']]
        if 'to_incarnation' in step:
            options['to_incarnation'] = self.incarnations[step['to_incarnation']]
        return options

    # ---- steps ----------------------------------------------------------------------------

    def do_open(self, step):
        self.contexts[step['context']] = ripc.Context(backends=step['backends'])

    def do_service(self, step):
        made = self.contexts[step['context']].service(
            self.id(step['id']) if 'id' in step else None)
        self.services[step['service']] = made
        self.ids[step['service']] = made.id
        self.incarnations[step['service']] = made.incarnation

    def do_close(self, step):
        self.services[step['service']].close()

    def do_close_context(self, step):
        self.contexts[step['context']].close()

    def do_drain(self, step):
        self.services[step['service']].drain(seconds(step))

    def do_send(self, step):
        service, to = self.services[step['by']], self.id(step['to']) if 'to' in step else 0
        items = self.items(step, service.context)
        options = self.options(step, 'short', 'nowait', 'ordered', 'wait', 'cookie')
        if 'give' in step:
            options['give'] = True
        if 'reply_to' in step:
            options['reply_to'] = self.messages[step['reply_to']].reply_to
        if 'to_handle' in step:
            options['to_handle'] = self.messages[step['to_handle']].from_handle
        if options == {'short': True}:
            return self.send_short(service, to, items)
        if not options:
            return service.send_long(to, items, seconds(step))
        return service.send(to, items, seconds(step), **options)

    def send_short(self, service, to, items):
        """A network that takes no more now takes it later."""
        until = time.monotonic() + PATIENCE
        while True:
            try:
                return service.send_short(to, items)
            except ripc.Again:
                if time.monotonic() > until:
                    raise
                service.context.poll()

    def do_receive(self, step):
        wait = seconds(step)
        return self.services[step['by']].receive(PATIENCE if wait is None else wait)

    def do_call(self, step):
        service, to = self.services[step['by']], self.id(step['to'])
        ask = service.call_start if step.get('start') else service.call
        options = self.options(step, 'idempotent', 'cookie')
        if 'give' in step:
            options['give'] = True
        return ask(to, self.items(step, service.context), seconds(step), **options)

    def do_reply(self, step):
        items = [bytes_of(item) for item in step['items']]
        self.services[step['by']].reply(self.messages[step['request']], items or None)

    def do_reply_error(self, step):
        self.services[step['by']].reply_error(self.messages[step['request']],
                                              getattr(errno, step['code']))

    def do_cancel(self, step):
        self.services[step['by']].cancel(step['cookie'])

    def do_window(self, step):
        self.services[step['by']].post_window(bytearray(step['len']), step['cookie'])

    def do_window_cancel(self, step):
        self.services[step['by']].cancel_window(step['cookie'])

    def do_watch(self, step):
        self.services[step['by']].watch(self.id(step['id']), step['cookie'])

    def do_unwatch(self, step):
        self.services[step['by']].unwatch(self.id(step['id']))

    def do_wake(self, step):
        self.services[step['by']].wake()

    def do_ping(self, step):
        self.test.assertGreater(
            self.services[step['by']].ping(self.id(step['to']), seconds(step)), 0)

    def do_path(self, step):
        return self.services[step['by']].path(self.id(step['to']))

    def do_resolve(self, step):
        self.contexts[step['context']].resolve(self.id(step['id']), seconds(step))

    def do_stats(self, step):
        return self.contexts[step['context']].stats()

    def do_look(self, step):
        return self.messages[step['message']]

    def do_id(self, step):
        return {'id': f'{ripc.id_from_name(step["of"]):016x}'}

    def do_sentence(self, step):
        return ripc.strerror(-getattr(errno, step['of']))

    def do_join(self, step):
        return self.beside[step['beside']].end()

    # ---- what comes of them ---------------------------------------------------------------

    def message_is(self, message, gives):
        equal = self.test.assertEqual
        simple = {'kind': lambda: KINDS[message.kind],
                  'items': lambda: list(map(bytes, message)),
                  'from': lambda: message.from_id,
                  'status': lambda: errno.errorcode[-message.status] if message.status else 'OK',
                  'outcome': lambda: OUTCOMES[message.outcome],
                  'cookie': lambda: message.cookie,
                  'places': lambda: [PLACES[place] for place in message.places],
                  'lent': lambda: list(message.lent),
                  'idempotent': lambda: message.idempotent,
                  'watched': lambda: message.watched,
                  'holder': lambda: message.from_incarnation,
                  'handle': lambda: message.from_handle != 0}
        wanted = dict(gives)
        if 'items' in gives:
            wanted['items'] = [bytes_of(item) for item in gives['items']]
            equal(len(message), len(gives['items']))
        if 'from' in gives:
            wanted['from'] = self.ids[gives['from']]
        if 'holder' in gives:
            wanted['holder'] = self.incarnations[gives['holder']] if gives['holder'] else 0
        for name, value in wanted.items():
            self.test.assertTrue(simple[name]() == value,
                                 f'{name} is {str(simple[name]())[:200]}')

    def check(self, result, gives):
        if isinstance(result, ripc.Message):
            self.message_is(result, gives)
        elif isinstance(result, str):
            self.test.assertIn(gives['contains'], result)
        else:
            for name, value in gives.items():
                self.test.assertEqual(result[name],
                                      self.backend if value == '$backend' else value, name)

    def failed(self, failure, gives):
        wanted = gives['error'] if isinstance(gives['error'], list) else [gives['error']]
        if isinstance(failure, ValueError):  # Python's own word for an argument that is wrong
            self.test.assertEqual(wanted, ['EINVAL'])
            return
        name = errno.errorcode[failure.errno]
        self.test.assertIn(name, wanted)
        self.test.assertIn(f'{name}: ', str(failure))
        if 'outcome' in gives:
            self.test.assertEqual(OUTCOMES[failure.outcome], gives['outcome'])

    def step(self, step):
        do = getattr(self, 'do_' + step['do'])
        if 'beside' in step and step['do'] != 'join':
            self.beside[step['beside']] = Beside(lambda: do(step))
            return
        gives = step.get('gives', {})
        try:
            result = do(step)
        except (ripc.Error, ValueError) as failure:
            if 'error' not in gives:
                raise
            self.failed(failure, gives)
            return
        self.test.assertNotIn('error', gives, 'success instead of an error')
        if 'as' in step:
            self.messages[step['as']] = result
        if gives:
            self.check(result, gives)


class Cases(unittest.TestCase):
    """One test for each case and backend."""


def add(case, backend):
    def test(self):
        run = Run(self, case, backend)
        try:
            for number, step in enumerate(case['steps'], 1):
                with self.subTest(step=number, do=step['do']):
                    run.step(step)
                    continue
                break
        finally:
            run.end()
    setattr(Cases, f'test_{backend}_{case["name"]}', test)


with open(CASES, encoding='utf-8') as table:
    for case in json.load(table)['cases']:
        for backend in ('shm', 'udp'):
            add(case, backend)

if __name__ == '__main__':
    unittest.main()
