# SPDX-License-Identifier: BSD-3-Clause
"""Each name of the public headers can be reached from Python, or is left out for a reason."""
import glob
import os
import re
import unittest

import ripc

HEADERS = os.path.join(os.path.dirname(os.path.abspath(__file__)), '../../../include/ripc')

# How what has another name in Python is reached: attributes of the module, or of its classes.
NAMES = {
    'ripc_open': 'Context', 'ripc_close': 'Context.close', 'ripc_poll': 'Context.poll',
    'ripc_poll_timeout': 'Context.poll_timeout', 'ripc_service_open': 'Context.service',
    'ripc_services_open': 'Context.services', 'ripc_service_drain': 'Service.drain',
    'ripc_service_close': 'Service.close', 'ripc_service_id': 'Service.id',
    'ripc_service_incarnation': 'Service.incarnation', 'ripc_service_fd': 'Service.fd',
    'ripc_context_fd': 'Context.fd', 'ripc_resolve': 'Context.resolve',
    'ripc_await': 'Context.wait_for', 'ripc_buf_alloc': 'Context.buffer',
    'ripc_buf_refs': 'Buffer.refs', 'ripc_buf_free': 'Buffer.free',
    'ripc_buf_register': 'Context.register', 'ripc_buf_unregister': 'Context.unregister',
    'ripc_window_post': 'Service.post_window', 'ripc_window_cancel': 'Service.cancel_window',
    'ripc_send_short': 'Service.send_short', 'ripc_send_long': 'Service.send_long',
    'ripc_sendmsg': 'Service.send', 'ripc_cancel': 'Service.cancel',
    'ripc_receive': 'Service.receive', 'ripc_wake': 'Service.wake',
    'ripc_msg_free': 'Message.free', 'ripc_path_info': 'Service.path',
    'ripc_ping': 'Service.ping', 'ripc_stats_get': 'Context.stats',
    'ripc_holders': 'Context.holders', 'ripc_list': 'Context.list',
    'ripc_lister_open': 'Context.list', 'ripc_lister_next': 'Context.list',
    'ripc_lister_close': 'Context.list', 'ripc_log_next': 'Context.log', 'ripc_call': 'Service.call',
    'ripc_call_start': 'Service.call_start', 'ripc_reply': 'Service.reply',
    'ripc_reply_error': 'Service.reply_error', 'ripc_watch': 'Service.watch',
    'ripc_unwatch': 'Service.unwatch', 'ripc_join': 'Service.join',
    'ripc_leave': 'Service.leave', 'ripc_deliveries': 'Message.deliveries',
    'ripc_keys_reload': 'Context.reload_keys',
    'RIPC_VERSION_MAJOR': 'version', 'RIPC_VERSION_MINOR': 'version',
    'RIPC_VERSION_PATCH': 'version', 'RIPC_WATCHED': 'Message.watched',
    'ripc_msg.from': 'Message.from_id', 'ripc_msg.reply': 'Message.reply_to',
    'ripc_msg.items': 'Message.__getitem__', 'ripc_msg.n_items': 'Message.__len__',
    'ripc_msg.flags': 'Message.idempotent', 'ripc_msg.request_cookie': 'Message.cookie',
    'ripc_buffer.cookie': 'Message.lent', 'ripc_buffer.place': 'Message.places',
    'ripc_buffer.mem': 'Service.post_window', 'ripc_config.log': 'Context.log',
    'ripc_log_message.level': 'Context.log', 'ripc_log_message.text': 'Context.log',
    'ripc_log_message.lost': 'Context.log',
}
# An option is reached by an argument: (method, argument).
ARGUMENTS = {
    'RIPC_NO_THREAD': ('Context', 'no_thread'), 'RIPC_COPY_GIVEN': ('Context', 'copy_given'),
    'RIPC_INTERRUPTIBLE': ('Context', 'interruptible'),
    'RIPC_NOWAIT': ('send', 'nowait'), 'RIPC_GIVE': ('send', 'give'),
    'RIPC_ORDERED': ('send', 'ordered'), 'RIPC_WAIT': ('send', 'wait'),
    'RIPC_LEAVE_SLOW': ('send', 'leave_slow'), 'RIPC_SEND_LONG': ('send', 'short'),
    'RIPC_IDEMPOTENT': ('call', 'idempotent'),
    'ripc_config.timeout_ms': ('Context', 'timeout'),
    'ripc_config.peer_timeout_ms': ('Context', 'peer_timeout'),
    'ripc_send.to': ('send', 'to'), 'ripc_send.items': ('send', 'data'),
    'ripc_send.timeout_ms': ('send', 'timeout'), 'ripc_request.to': ('call', 'to'),
    'ripc_request.items': ('call', 'data'), 'ripc_request.timeout_ms': ('call', 'timeout'),
    'ripc_request.cookie': ('call_start', 'cookie'),
}
# A struct whose fields are arguments, attributes, or keys of a dict, by their own names.
STRUCTS = {'ripc_config': 'Context', 'ripc_send': 'send', 'ripc_request': 'call'}
SIZE = 'the binding sets it'
FLAGS = 'an argument for each flag'
COUNT = 'the length of the list'
KEYS = 'keys are made and granted by "ripc key"'
LEFT_OUT = {
    'ripc_buf_ref': 'a memoryview keeps the memory, and give=True takes the reference',
    'ripc_keys_new': KEYS, 'ripc_keys_grant': KEYS, 'ripc_keys_show': KEYS,
    'ripc_keys_rotate': KEYS, 'ripc_keys_revoke': KEYS, 'RIPC_KEYS_WHY': KEYS,
    'RIPC_CAPABILITY': KEYS, 'RIPC_KEYS_AUTHORITY': KEYS, 'RIPC_ROTATE_BEGIN': KEYS,
    'RIPC_ROTATE_USE': KEYS, 'RIPC_ROTATE_END': KEYS, 'RIPC_MAY_BE': KEYS, 'RIPC_MAY_SEND': KEYS,
    'RIPC_SINGLE_THREAD': 'a garbage collection in any thread can free a message',
    'RIPC_ASKED_SHORTLY': 'reply() has the request',
    'RIPC_AWAITED': 'send() and call() wait so, and Ctrl-C ends the wait',
    'ripc_receive_end': 'send() and call() wait by it',
    'ripc_config.size': SIZE, 'ripc_send.size': SIZE, 'ripc_request.size': SIZE,
    'ripc_path.size': SIZE, 'ripc_log_message.size': SIZE, 'ripc_stats.size': SIZE,
    'ripc_config.flags': FLAGS, 'ripc_send.flags': FLAGS, 'ripc_request.flags': FLAGS,
    'ripc_send.n_items': COUNT, 'ripc_send.n_returns': COUNT, 'ripc_request.n_items': COUNT,
    'ripc_request.n_returns': COUNT,
    'ripc_config.log_arg': 'the binding has a log of its own',
    'ripc_buffer.flags': 'always 0', 'ripc_counts.reserved': 'always 0',
    'ripc_send.counts': 'a COMPLETION has them',
}


def headers():
    """Their text without comments, except page.h and structs of keys.h."""
    text = ''
    for path in sorted(glob.glob(os.path.join(HEADERS, '*.h'))):
        if os.path.basename(path) == 'page.h':
            continue  # for readers of other processes: what "ripc top" is made of
        with open(path, encoding='utf-8') as header:
            text += re.sub(r'/\*.*?\*/', '', header.read(), flags=re.S)
    return text


def functions(text):
    return set(re.findall(r'^RIPC_API [^;(]*?\b(ripc_\w+)\(', text, re.M))


def constants(text):
    names = set(re.findall(r'^#define (RIPC_\w+) +\S', text, re.M))
    for body in re.findall(r'^enum \w* *\{(.*?)\}', text, re.S | re.M):
        names.update(re.findall(r'\b(RIPC_\w+)', body))
    return names - {'RIPC_API'}


def members(body):
    for declaration in body.split(';'):
        pointer = re.search(r'\(\*(\w+)\)', declaration)
        if pointer:
            yield pointer.group(1)
            continue
        for part in declaration.split(','):
            name = re.search(r'(\w+)\s*(\[\w+\])?\s*$', part)
            if name:
                yield name.group(1)


def fields(text):
    return {f'{struct}.{name}' for struct, body in
            re.findall(r'^struct (\w+) \{(.*?)^\};', text, re.S | re.M)
            if struct != 'ripc_grant' for name in members(body)}


def attribute(path):
    found = ripc
    for name in path.split('.'):
        found = getattr(found, name, None)
    return found is not None


class Parity(unittest.TestCase):
    def setUp(self):
        self.ctx = ripc.Context(backends='shm', interfaces='lo')
        self.addCleanup(self.ctx.close)
        self.me = self.ctx.service()
        self.keys = self.all_keys()

    def all_keys(self):
        group = ripc.group_from_name(f'parity {os.getpid()}')
        with ripc.Context(backends='shm', interfaces='lo') as other, other.service() as member:
            member.join(group)
            self.ctx.wait_for(group, 20.0)
            self.me.send(group, b'x', 20.0, nowait=True, leave_slow=True, cookie=1)
            end = self.me.receive(20.0)
            self.ctx.resolve(member.id, 20.0)
            buffer = self.ctx.buffer(1 << 20)
            self.me.send_long(member.id, buffer, 20.0, give=True)
            kept = [member.receive(20.0), member.receive(20.0)]
            self.assertEqual(end.counts, {'delivered': 1, 'not_delivered': 0, 'unknown': 0})
            self.assertEqual(end.deliveries(), [{'id': member.id, 'outcome': ripc.DELIVERED,
                                                 'incarnation': member.incarnation, 'status': 0}])
            self.assertIsNone(kept[0].counts)
            with self.assertRaises(ripc.Error):
                kept[0].deliveries()
            self.assertEqual(kept[0].resolved, kept[0].sender != ripc.SENDER_CLAIMED)
            return {'ripc_counts': set(end.counts), 'ripc_delivery': set(end.deliveries()[0]),
                    'ripc_path': set(self.me.path(member.id)),
                    'ripc_holder': set(self.ctx.holders()[0]),
                    'ripc_listing': set(self.ctx.list(0.3)[0]),
                    'ripc_finding': set(ripc.probe()[0]), 'ripc_stats': set(self.ctx.stats())}

    def takes(self, method, argument):
        """Is there such an argument? Values of a wrong kind make sure that nothing is sent."""
        wrong = {argument: object(), 'nonsense': 1}
        try:
            if method == 'Context':
                ripc.Context(**{argument: object()})
            else:
                getattr(self.me, method)(**wrong)
        except TypeError as error:
            return "'nonsense'" in str(error) if method != 'Context' else \
                'keyword argument' not in str(error)
        except (ValueError, ripc.Error):
            pass
        return True

    def is_reached(self, item):
        struct, _, field = item.partition('.')
        if item in NAMES:
            return attribute(NAMES[item])
        if item in ARGUMENTS:
            return self.takes(*ARGUMENTS[item])
        if struct in STRUCTS and field:
            return self.takes(STRUCTS[struct], field)
        if field:
            return field in self.keys.get(struct, ()) or \
                struct == 'ripc_msg' and attribute('Message.' + field)
        return attribute(item[len('ripc_'):])

    def test_all(self):
        text = headers()
        found = functions(text), constants(text), fields(text)
        self.assertGreater(min(map(len, found)), 30)
        items = set().union(*found)
        missing = sorted(item for item in items - set(LEFT_OUT) if not self.is_reached(item))
        self.assertEqual(missing, [], 'neither reached nor in LEFT_OUT')
        needless = sorted(item for item in LEFT_OUT if item not in items or self.is_reached(item))
        self.assertEqual(needless, [], 'in LEFT_OUT without need')
        self.assertEqual(sorted((set(NAMES) | set(ARGUMENTS)) - items), [], 'of no header')

    def test_wrong_arguments_are_seen(self):
        for method in ('Context', 'send', 'call', 'call_start'):
            self.assertFalse(self.takes(method, 'no_such_argument'))

    def test_what_is_new_in_the_module(self):
        self.assertEqual('.'.join(map(str, ripc.version())), ripc.__version__)
        self.assertEqual((ripc.errname(-2), ripc.errname(110), ripc.errname(1 << 40)),
                         ('ENOENT', 'ETIMEDOUT', None))
        with self.assertRaisesRegex(ripc.Error, 'ENOKEY'):
            self.ctx.reload_keys()
        with self.assertRaises(ripc.Error):
            ripc.Context(keys='/no/such/directory')


if __name__ == '__main__':
    unittest.main()
