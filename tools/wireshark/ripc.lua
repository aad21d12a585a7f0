-- SPDX-License-Identifier: BSD-3-Clause
--
-- Wireshark reads what libripc says over UDP: the packets of contexts, those of the resolver, and the
-- heads of sealed datagrams. The layouts below are the tables of docs/protocol.md, with its names.
-- docs/looking.md tells how to use this file.

local bit = bit32 or bit -- Lua 5.2; later versions of Wireshark bring "bit"

local VERSION, RESOLVER_PORT, SEALED = 2, 15511, 0x92
local HEADER_LEN, QUERY_LEN, MARK_LEN, NAMED_LEN = 40, 1100, 16, 16

local ripc = Proto("ripc", "libripc")
ripc.prefs.checksums = Pref.bool("Verify checksums", true, "Compute the CRC32C of each packet")
ripc.prefs.longest = Pref.uint("Reassemble up to (MiB)", 16,
	"Longer messages are not put together; 0: none is")

-- ---- fields ---------------------------------------------------------------------------------

local fields = {}

local function keep(field)
	fields[#fields + 1] = field
	return field
end

-- How the kinds of numbers are shown, and how long they are. "zero" is not shown.
local KINDS = {
	u8 = {1, "uint8"}, u16 = {2, "uint16"}, u32 = {4, "uint32"}, u64 = {8, "uint64"},
	x8 = {1, "uint8", base.HEX}, x16 = {2, "uint16", base.HEX}, x32 = {4, "uint32", base.HEX},
	x64 = {8, "uint64", base.HEX}, bytes16 = {16, "bytes"}, bytes32 = {32, "bytes"},
	bytes64 = {64, "bytes"},
	be16 = {2, "uint16"}, ipv6 = {16, "ipv6"}, z8 = {1}, z16 = {2}, z32 = {4},
}

-- A table of the text: {name, kind, names of values} each; fields are "ripc.GROUP.NAME".
local function layout(group, list)
	local made = {group = group, size = 0}

	for _, entry in ipairs(list) do
		local name, kind = entry[1], KINDS[entry[2]]
		local filter = "ripc." .. (group == "" and "" or group .. ".") .. name:gsub("[^%w]+", "_")
		local part = {name = name, size = kind[1], big = entry[2] == "be16" or entry[2] == "ipv6"}

		if kind[2] == "bytes" or kind[2] == "ipv6" then
			part.field = keep(ProtoField[kind[2]](filter, name))
		elseif kind[2] then
			part.field = keep(ProtoField[kind[2]](filter, name, kind[3] or base.DEC, entry[3]))
		end
		made.size = made.size + part.size
		made[#made + 1] = part
	end
	return made
end

local TYPES = {"SHORT", "ANNOUNCE", "DATA", "PULL", "ANSWER", "CANCEL", "HELLO_ONLY", "RETRY", "ECHO",
	"ECHO_REPLY", "GONE", "ABORT", "STREAM", "HEARD"}
local RESOLVER_TYPES = {[32] = "QUERY", [33] = "RECORD", [34] = "WITHDRAWN", [35] = "NOBODY",
	[36] = "DIGEST"}
local SEALED_KINDS = {"INIT", "REPLY", "PROOF", "DATA", "UNKNOWN"}
local ERRNOS = {[0] = "delivered", [74] = "EBADMSG", [90] = "EMSGSIZE", [105] = "ENOBUFS",
	[108] = "ESHUTDOWN", [110] = "ETIMEDOUT", [125] = "ECANCELED"}
local KEYS = {[0] = "none", "to be read", "given", "written into the return buffers",
	"to be read; the checksum follows"}
local BACKENDS = {"udp", "shm", nil, "verbs", "rdmacm", "ofi", [129] = "udp, sealed",
	[130] = "shm, sealed", [132] = "verbs, sealed", [133] = "rdmacm, sealed",
	[134] = "ofi, sealed", [255] = "loop"}

local HEADER = layout("", {{"version", "u8"}, {"type", "u8", TYPES}, {"flags", "x16"},
	{"crc", "x32"}, {"src", "x64"}, {"dst", "x64"}, {"token", "x64"}, {"number", "u64"}})

local FLAG_NAMES = {"HELLO", "ACK", "LENDS", "REPLIES", "LAST", "RETURNS", "ORDERED", "CALL"}
local FLAGS = {}
for i, name in ipairs(FLAG_NAMES) do
	FLAGS[i] = {name = name, mask = 2 ^ (i - 1), field = keep(ProtoField.bool(
		"ripc.flags." .. name:lower(), name, 16, nil, 2 ^ (i - 1)))}
end
local FLAG_ITEMS = keep(ProtoField.uint16("ripc.flags.n_items", "n_items", base.DEC, nil, 0xff00))

-- The extensions in the order of their flags; LAST has none.
local ACK = {{"number", "u64"}, {"status", "u32", ERRNOS}, {"also", "x64"}, {"echo", "u32"}}
local EXTENSIONS = {
	HELLO = layout("hello", {{"token", "x64"}, {"service", "x64"}, {"context", "x64"},
		{"to_service", "x64"}, {"proof", "x64"}, {"unasked", "u32"}, {"-", "z32"}}),
	ACK = layout("ack", ACK),
	LENDS = layout("lends", {{"id", "x64"}}),
	REPLIES = layout("replies", {{"id", "x64"}}),
	RETURNS = layout("returns", {{"n", "u32"}, {"-", "z32"}}),
	ORDERED = layout("ordered", {{"previous", "u64"}}),
	CALL = layout("call", {{"kind", "u32", {"request", "reply", "error", "to a group"}}, {"value", "u32"}}),
}
local RETURN_BUFFER = layout("returns", {{"length", "u64"}, {"address", "x64"}, {"key", "x64"}})

local BODIES = {
	ANNOUNCE = layout("announce", {{"total", "u64"}, {"oldest", "u64"}, {"n_items", "u32"},
		{"unasked", "u32"}, {"sum", "x32"}, {"keys", "u32", KEYS}, {"stamp", "u32"},
		{"echo", "u32"}}),
	DATA = layout("data", {{"offset", "u64"}, {"sum", "x32"}}),
	PULL = layout("pull", {{"have", "u64"}, {"limit", "u64"}, {"n_holes", "u32"},
		{"busy", "u32", {[0] = "no", "no credit now", "no room now"}}, {"stamp", "u32"},
		{"echo", "u32"}}),
	ANSWER = layout("answer", ACK),
	CANCEL = layout("cancel", {{"oldest", "u64"}}),
	RETRY = layout("retry", {{"proof", "x64"}}),
	ECHO = layout("echo", {{"nonce", "x64"}, {"stamp", "u64"}}),
	ECHO_REPLY = layout("echo_reply", {{"nonce", "x64"}, {"stamp", "u64"}}),
	GONE = layout("gone", {{"time_us", "u64"}}),
	ABORT = layout("abort", {{"versions", "x64"}}),
	STREAM = layout("stream", {{"group", "x64"}, {"token", "x64"}, {"number", "u64"}}),
	HEARD = layout("heard", {{"group", "x64"}, {"token", "x64"}, {"number", "u64"}}),
}
local SHORT_LENGTH = layout("short", {{"length", "u16"}})
local ITEM_LENGTH = layout("announce", {{"length", "u64"}})
local ITEM_KEY = layout("announce", {{"address", "x64"}, {"key", "x64"}})
local HOLE = layout("pull", {{"start", "u64"}, {"end", "u64"}})

local RESOLVER = layout("resolver", {{"version", "u8"}, {"type", "u8", RESOLVER_TYPES},
	{"hops, definite", "u8"}, {"-", "z8"}, {"crc", "x32"}, {"nonce", "x64"}, {"asker", "x64"},
	{"proof", "x64"}, {"host", "ipv6"}})
local RESOLVER_ID = layout("resolver", {{"id", "x64"}})
local DIGEST = layout("resolver", {{"bits", "bytes64"}})
local WITHDRAWN = layout("resolver", {{"incarnation", "x64"}})
local RECORD = layout("resolver", {{"incarnation", "x64"}, {"stamp", "u64"},
	{"host identity", "x64"}, {"context", "x64"}, {"n_addrs", "u8"}})
local ADDRESS = layout("resolver", {{"backend", "u8", BACKENDS}, {"len", "u8"}})
local BLOB = keep(ProtoField.bytes("ripc.resolver.blob", "blob"))
local MARK = keep(ProtoField.bytes("ripc.resolver.mark", "mark"))

-- Address blobs, by the number of the backend.
local BLOBS = {
	layout("blob.udp", {{"version", "u8"}, {"-", "z8"}, {"port", "u16"}}),
	layout("blob.shm", {{"host identity", "x64"}, {"name", "bytes16"}}),
	[4] = layout("blob.verbs", {{"version", "u8"},
		{"kind", "u8", {"InfiniBand", "RoCE v1", "RoCE v2"}},
		{"mtu", "u8", {"256", "512", "1024", "2048", "4096"}}, {"-", "z8"}, {"lid", "x16"},
		{"-", "z16"}, {"qpn", "x32"}, {"qkey", "x32"}, {"gid", "ipv6"}}),
	[5] = layout("blob.rdmacm", {{"version", "u8"}, {"by UDP", "u8"}, {"port", "u16"},
		{"ip", "ipv6"}}),
	[6] = layout("blob.ofi", {{"version", "u8"},
		{"format", "u8", {"sockaddr_in", "sockaddr_in6", "EFA", "words", "other"}},
		{"len", "u8"}, {"unchecked", "u8"}, {"protocol", "u32"}}),
}
local OFI_NAME = keep(ProtoField.bytes("ripc.blob.ofi.name", "name"))
local BLOB_SEALED = layout("blob.sealed", {{"public key", "bytes32"}, {"incarnation", "x64"}})

local SEALED_HEAD = layout("sealed", {{"magic", "x8"}, {"kind", "u8", SEALED_KINDS}, {"-", "z16"},
	{"index", "x32"}})
-- The part after the head, and the name of the part between that and the end (or the MAC).
local SEALED_KIND = {
	INIT = layout("sealed", {{"context", "x64"}, {"to_context", "x64"}, {"proof", "x64"}}),
	REPLY = layout("sealed", {{"own_index", "x32"}, {"-", "z32"}}),
	PROOF = layout("sealed", {{"context", "x64"}, {"proof", "x64"}, {"answered", "bytes16"}}),
	DATA = layout("sealed", {{"counter", "u64"}}),
	UNKNOWN = layout("sealed", {{"counter", "u64"}, {"reset", "x64"}}),
}
local SEALED_REST = {
	INIT = keep(ProtoField.bytes("ripc.sealed.message_1", "message 1")),
	REPLY = keep(ProtoField.bytes("ripc.sealed.message_2", "message 2")),
	PROOF = keep(ProtoField.bytes("ripc.sealed.zero", "zero")),
	DATA = keep(ProtoField.bytes("ripc.sealed.sealed", "sealed")),
}
local SEALED_MAC = keep(ProtoField.bytes("ripc.sealed.mac", "mac"))

local PAYLOAD = keep(ProtoField.bytes("ripc.payload", "payload"))
local ITEM = keep(ProtoField.bytes("ripc.item", "item"))
local MESSAGE_LEN = keep(ProtoField.uint32("ripc.message.len", "message length"))
local ANNOUNCED_IN = keep(ProtoField.framenum("ripc.announced_in", "announced in"))
local COMPLETE_IN = keep(ProtoField.framenum("ripc.complete_in", "complete in"))
local REQUEST_IN = keep(ProtoField.framenum("ripc.request_in", "request in", base.NONE,
	frametype.REQUEST))
local REPLY_IN = keep(ProtoField.framenum("ripc.reply_in", "reply in", base.NONE,
	frametype.RESPONSE))
local REPLY_TIME = keep(ProtoField.relative_time("ripc.reply_time", "time since the request"))

local function info(name, text, group, severity)
	return ProtoExpert.new("ripc.expert." .. name, text, expert.group[group],
		expert.severity[severity])
end

local EXPERTS = {
	malformed = info("malformed", "Malformed", "MALFORMED", "ERROR"),
	crc = info("crc", "Wrong checksum", "CHECKSUM", "ERROR"),
	version = info("version", "Version or flag that is not understood", "PROTOCOL", "WARN"),
	again = info("again", "Sent again", "SEQUENCE", "NOTE"),
	holes = info("holes", "Asks for bytes again", "SEQUENCE", "NOTE"),
	busy = info("busy", "Alive, but not now", "RESPONSE_CODE", "NOTE"),
	refused = info("refused", "Refused", "RESPONSE_CODE", "WARN"),
	retry = info("retry", "No state for the sender: say hello again", "RESPONSE_CODE", "NOTE"),
	gone = info("gone", "The addressed incarnation is not here", "RESPONSE_CODE", "NOTE"),
	abort = info("abort", "Version or flag was not understood", "RESPONSE_CODE", "WARN"),
	batch = info("batch", "Several packets, captured before they were cut apart", "COMMENTS_GROUP",
		"COMMENT"),
}

ripc.fields = fields
ripc.experts = EXPERTS

-- ---- checksum -------------------------------------------------------------------------------

local CRC = {}
for i = 0, 255 do
	local crc = i
	for _ = 1, 8 do
		crc = crc % 2 == 1 and bit.bxor(bit.rshift(crc, 1), 0x82f63b78) or bit.rshift(crc, 1)
	end
	CRC[i] = crc
end

-- Continues a CRC32C over the bytes first to last (from 1) of a string.
local function crc_over(crc, text, first, last)
	local bxor, band, rshift, byte = bit.bxor, bit.band, bit.rshift, string.byte

	for at = first, last do
		crc = bxor(CRC[band(bxor(crc, byte(text, at)), 255)], rshift(crc, 8))
	end
	return crc
end

-- Reads one packet: the part from payload_at on, then all before it with the field crc as zero.
local function crc_of(text, payload_at)
	local crc = crc_over(0xffffffff, text, payload_at + 1, #text)

	crc = crc_over(crc, text, 1, 4)
	crc = crc_over(crc, "\0\0\0\0", 1, 4)
	crc = crc_over(crc, text, 9, payload_at)
	return bit.bxor(crc, 0xffffffff) % 2 ^ 32
end

-- ---- reading --------------------------------------------------------------------------------

-- A place in a packet. A deviation from the specification raises a table with the reason.
local Cursor = {}
Cursor.__index = Cursor

local function malformed(why)
	error({why = why}, 0)
end

local function cursor(tvb)
	return setmetatable({tvb = tvb, at = 0, len = tvb:len()}, Cursor)
end

function Cursor:rest()
	return self.len - self.at
end

function Cursor:range(len, what)
	if len > self:rest() then
		malformed(what .. " is cut off")
	end
	self.at = self.at + len
	return self.tvb(self.at - len, len)
end

-- Adds the fields of a layout to the tree. Returns their values by name: numbers up to 32 bits as
-- numbers, longer ones as UInt64, all others as ranges.
function Cursor:take(parts, tree)
	local values = {}

	for _, part in ipairs(parts) do
		local range = self:range(part.size, parts.group)

		if part.field and part.big then
			tree:add(part.field, range)
		elseif part.field then
			tree:add_le(part.field, range)
		end
		if part.size <= 4 then
			values[part.name] = range:le_uint()
			if not part.field and values[part.name] ~= 0 then
				malformed("not zero where the text says zero")
			end
		else
			values[part.name] = part.size == 8 and range:le_uint64() or range
		end
	end
	return values
end

local function hex(value)
	return "0x" .. value:tohex()
end

local function has(flags, name)
	for _, flag in ipairs(FLAGS) do
		if flag.name == name then
			return bit.band(flags, flag.mask) ~= 0
		end
	end
end

-- ---- what is remembered from packet to packet ------------------------------------------------

-- messages: long ones, by src, dst and number. seen: where something was first said, by what it was.
-- requests: of calls, by the ID that was lent. packets: what was found when a packet was first
-- read, by frame and place, as Wireshark reads packets in any order later.
local memory

function ripc.init()
	memory = {messages = {}, seen = {}, requests = {}, packets = {}}
end

local function message_of(key)
	local message = memory.messages[key]

	if not message then
		message = {ranges = {}, pieces = {}}
		memory.messages[key] = message
	end
	return message
end

-- Adds [first, last) to sorted ranges that do not touch. Returns how many bytes of it were new.
local function ranges_add(ranges, first, last)
	local kept, new, start, stop = {}, last - first, first, last

	for _, range in ipairs(ranges) do
		if range[2] < first or range[1] > last then
			kept[#kept + 1] = range
		else
			new = new - math.max(0, math.min(range[2], last) - math.max(range[1], first))
			start, stop = math.min(start, range[1]), math.max(stop, range[2])
		end
	end
	kept[#kept + 1] = {start, stop}
	table.sort(kept, function(a, b) return a[1] < b[1] end)
	for i = #ranges, 1, -1 do
		ranges[i] = nil
	end
	for i, range in ipairs(kept) do
		ranges[i] = range
	end
	return new
end

-- The whole message, once all its bytes have been seen.
local function put_together(message)
	local text, at = {}, 0

	table.sort(message.pieces, function(a, b) return a.offset < b.offset end)
	for _, piece in ipairs(message.pieces) do
		if piece.offset + #piece.text > at then
			text[#text + 1] = piece.text:sub(at - piece.offset + 1)
			at = piece.offset + #piece.text
		end
	end
	return table.concat(text)
end

-- Bytes of a message have been seen; tells whether some came again.
local function message_feed(message, offset, text, frame)
	local again = #text > 0 and ranges_add(message.ranges, offset, offset + #text) < #text
	local first = message.ranges[1]

	if message.complete_in or not message.total then
		message.pieces[#message.pieces + 1] = not message.complete_in and #text > 0 and
			{offset = offset, text = text} or nil
		return again
	end
	if message.total <= ripc.prefs.longest * 2 ^ 20 and #text > 0 then
		message.pieces[#message.pieces + 1] = {offset = offset, text = text}
	end
	if message.total == 0 or first and first[1] == 0 and first[2] >= message.total then
		message.complete_in = frame
		if message.total <= ripc.prefs.longest * 2 ^ 20 then
			message.text = put_together(message)
		end
		message.pieces = {}
	end
	return again
end

-- ---- packets of contexts ----------------------------------------------------------------------

-- Everything known while one packet is read.
local function packet_new(tvb, pinfo, root)
	local packet = {tvb = tvb, pinfo = pinfo, cursor = cursor(tvb), notes = {}}

	packet.root = root
	packet.is_cut = tvb:reported_len() > tvb:len()
	return packet
end

local function note(packet, name, text)
	packet.notes[#packet.notes + 1] = {EXPERTS[name], text}
end

local function read_flags(packet, item, flags, range)
	local names = {}

	for _, flag in ipairs(FLAGS) do
		if bit.band(flags, flag.mask) ~= 0 then
			names[#names + 1] = flag.name
		end
		item:add_le(flag.field, range)
	end
	if packet.type == "SHORT" then
		item:add_le(FLAG_ITEMS, range)
	elseif flags >= 256 then
		note(packet, "version", string.format("flags 0x%04x", flags))
	end
	if #names > 0 then
		item:append_text(" " .. table.concat(names, " "))
	end
end

local function read_header(packet)
	local header = packet.cursor:take(HEADER, packet.root)

	packet.header, packet.flags = header, header.flags
	packet.type = TYPES[header.type]
	if not packet.type then
		malformed("type " .. header.type)
	end
	read_flags(packet, packet.root:add(packet.tvb(2, 2), "Flags:"), header.flags, packet.tvb(2, 2))
	packet.text = packet.tvb:raw()
	packet.key = packet.text:sub(9, 24) .. packet.text:sub(33, 40)
	packet.summary = string.format("%s %s", packet.type, tostring(header.number))
end

local function read_extensions(packet)
	packet.extensions = {}
	for _, name in ipairs(FLAG_NAMES) do
		local parts = EXTENSIONS[name]

		if parts and has(packet.flags, name) then
			local tree = packet.root:add(packet.tvb(packet.cursor.at), name)
			local from = packet.cursor.at
			local values = packet.cursor:take(parts, tree)

			packet.extensions[name] = values
			for _ = 1, name == "RETURNS" and math.min(values.n, 8) or 0 do
				packet.cursor:take(RETURN_BUFFER, tree)
			end
			tree:set_len(packet.cursor.at - from)
		end
	end
	local call, lends = packet.extensions.CALL, packet.extensions.LENDS

	packet.is_to_group = call and lends and call.kind == 4
	if packet.is_to_group then
		packet.summary = packet.summary .. "  to group " .. hex(lends.id)
	end
end

local function add_items(tree, tvb, lengths)
	local at = 0

	for _, length in ipairs(lengths) do
		if at + length > tvb:len() then
			break
		end
		if length > 0 then
			tree:add(ITEM, tvb(at, length))
		end
		at = at + length
	end
end

local BODY_READERS = {}

function BODY_READERS.SHORT(packet)
	local n, sum, lengths = math.floor(packet.flags / 256), 0, {}

	if n < 1 or n > 64 then
		malformed(n .. " items")
	end
	for i = 1, n > 1 and n or 0 do
		lengths[i] = packet.cursor:take(SHORT_LENGTH, packet.root).length
		sum = sum + lengths[i]
	end
	packet.lengths = n > 1 and lengths or {packet.cursor:rest()}
	if n > 1 and sum ~= packet.cursor:rest() and not packet.is_cut then
		malformed("the lengths of the items are not the payload's")
	end
	packet.summary = string.format("%s  %d items, %d bytes", packet.summary, n,
		packet.cursor:rest())
end

function BODY_READERS.ANNOUNCE(packet, body)
	if body.n_items < 1 or body.n_items > 64 or body.keys > 4 then
		malformed("announcement")
	end
	packet.lengths = {}
	for i = 1, body.n_items do
		packet.lengths[i] = packet.cursor:take(ITEM_LENGTH, packet.root).length:tonumber()
	end
	if body.keys ~= 0 and body.keys ~= 3 then
		for _ = 1, body.n_items do
			packet.cursor:take(ITEM_KEY, packet.root)
		end
	end
	packet.offset = 0
	packet.summary = string.format("%s  %d items, %s bytes", packet.summary, body.n_items,
		tostring(body.total))
end

function BODY_READERS.DATA(packet, body)
	packet.offset = body.offset:tonumber()
	packet.summary = string.format("%s  bytes %.0f to %.0f", packet.summary, packet.offset,
		packet.offset + packet.cursor:rest())
end

function BODY_READERS.PULL(packet, body)
	local bytes = 0

	if body.n_holes > 48 then
		malformed("holes")
	end
	for _ = 1, body.n_holes do
		local hole = packet.cursor:take(HOLE, packet.root)

		bytes = bytes + (hole["end"] - hole.start):tonumber()
	end
	packet.summary = string.format("%s  has %s, may send %s", packet.summary,
		tostring(body.have), tostring(body.limit))
	if body.n_holes > 0 then
		note(packet, "holes", string.format("asks for %.0f bytes in %d ranges again", bytes,
			body.n_holes))
	end
	if body.busy ~= 0 then
		note(packet, "busy", "busy " .. body.busy)
	end
end

function BODY_READERS.ANSWER(packet, body)
	packet.summary = string.format("%s  %s", packet.summary,
		ERRNOS[body.status] or "error " .. body.status)
	if body.status ~= 0 then
		note(packet, "refused", "refused: " .. (ERRNOS[body.status] or body.status))
	end
end

function BODY_READERS.RETRY(packet)
	note(packet, "retry", "no state for the sender: say hello again")
end

function BODY_READERS.GONE(packet)
	note(packet, "gone", hex(packet.header.src) .. " is not here")
end

function BODY_READERS.ABORT(packet)
	note(packet, "abort", "version or flag was not understood")
end

local function read_body(packet)
	local parts, reader = BODIES[packet.type], BODY_READERS[packet.type]
	local body = parts and packet.cursor:take(parts, packet.root)

	packet.body = body
	if reader then
		reader(packet, body)
	end
	packet.payload_at = packet.cursor.at
	if not packet.offset and packet.type ~= "SHORT" and packet.cursor:rest() > 0 then
		malformed("bytes after the body")
	end
end

-- The meaning of earlier packets of the same kind for this packet; called once for each packet.
local function remember_calls(packet, found)
	local lends, replies = packet.extensions.LENDS, packet.extensions.REPLIES

	if lends and not packet.is_to_group then
		local key = packet.text:sub(9, 24) .. tostring(lends.id)

		memory.requests[key] = memory.requests[key] or
			{frame = packet.pinfo.number, time = packet.pinfo.rel_ts}
		found.request = memory.requests[key]
	end
	if replies then
		local key = packet.text:sub(17, 24) .. packet.text:sub(9, 16) .. tostring(replies.id)

		found.replies = memory.requests[key]
		if found.replies then
			found.replies.reply = found.replies.reply or packet.pinfo.number
			found.time = packet.pinfo.rel_ts - found.replies.time
		end
	end
end

local function remember_long(packet, found)
	local message = message_of(packet.key)
	local payload = packet.text:sub(packet.payload_at + 1)

	found.message = message
	if packet.type == "ANNOUNCE" then
		if message.announced_in then
			found.again = "announced first in frame " .. message.announced_in
		else
			message.announced_in, message.lengths = packet.pinfo.number, packet.lengths
			message.total = packet.body.total:tonumber()
		end
	end
	if packet.offset and not packet.is_cut and
			message_feed(message, packet.offset, payload, packet.pinfo.number) and
			packet.type == "DATA" then
		found.again = "some of these bytes were sent before"
	end
end

local IS_LONG = {ANNOUNCE = true, DATA = true, PULL = true, ANSWER = true, CANCEL = true}
local IS_ANSWERING = {PULL = true, ANSWER = true}
local ONCE = {SHORT = true, CANCEL = true} -- for reporting repeated packets

local function remember(packet)
	local found = {}

	if ONCE[packet.type] then
		local key = packet.type .. packet.key

		if memory.seen[key] then
			found.again = "first in frame " .. memory.seen[key]
		end
		memory.seen[key] = memory.seen[key] or packet.pinfo.number
	end
	if IS_ANSWERING[packet.type] then -- the message goes the other way
		found.message = memory.messages[packet.text:sub(17, 24) .. packet.text:sub(9, 16) ..
			packet.text:sub(33, 40)]
	elseif IS_LONG[packet.type] then
		remember_long(packet, found)
	end
	remember_calls(packet, found)
	return found
end

local function show_message(packet, message)
	local frame = packet.pinfo.number

	if message.announced_in and message.announced_in ~= frame then
		packet.root:add(ANNOUNCED_IN, message.announced_in):set_generated()
	end
	if message.complete_in and message.complete_in ~= frame and not IS_ANSWERING[packet.type] then
		packet.root:add(COMPLETE_IN, message.complete_in):set_generated()
	end
	if message.complete_in ~= frame or not message.text or not packet.offset then
		return
	end
	packet.root:add(MESSAGE_LEN, message.total):set_generated()
	if #message.text > 0 then
		local tvb = ByteArray.new(message.text, true):tvb("Whole message")

		add_items(packet.root:add(ripc, tvb(), "Whole message"), tvb, message.lengths)
	end
	packet.summary = packet.summary .. "  [whole: " .. message.total .. " bytes]"
end

local function show_found(packet, found)
	if found.again then
		note(packet, "again", "sent again: " .. found.again)
	end
	if found.request and found.request.reply then
		packet.root:add(REPLY_IN, found.request.reply):set_generated()
	end
	if found.replies then
		packet.root:add(REQUEST_IN, found.replies.frame):set_generated()
		packet.root:add(REPLY_TIME, NSTime.new(math.floor(found.time),
			math.floor(found.time % 1 * 1e9))):set_generated()
	end
	if found.message then
		show_message(packet, found.message)
	end
end

local function check_crc(packet)
	if not ripc.prefs.checksums or packet.is_cut then
		return true
	end
	local crc = crc_of(packet.text, packet.payload_at)

	if crc ~= packet.header.crc then
		note(packet, "crc", string.format("wrong checksum: should be 0x%08x", crc))
	end
	return crc == packet.header.crc
end

local function read_packet(packet)
	local place = packet.pinfo.number .. ":" .. packet.tvb:offset()

	if packet.tvb:len() < 1 or packet.tvb(0, 1):uint() ~= VERSION then
		note(packet, "version", "another version")
		return
	end
	read_header(packet)
	read_extensions(packet)
	read_body(packet)
	if packet.cursor:rest() > 0 then
		packet.root:add(PAYLOAD, packet.tvb(packet.payload_at))
	end
	if packet.type == "SHORT" and packet.cursor:rest() > 0 then
		add_items(packet.root, packet.tvb(packet.payload_at), packet.lengths)
	end
	if not packet.pinfo.visited and not packet.pinfo.in_error_pkt and check_crc(packet) then
		memory.packets[place] = remember(packet)
	elseif packet.pinfo.visited then
		check_crc(packet)
	end
	show_found(packet, memory.packets[place] or {})
end

-- ---- packets of the resolver ------------------------------------------------------------------

local function read_blob(packet, tree, address)
	local from = packet.cursor.at
	local range = packet.cursor:range(address.len, "blob")
	local parts = BLOBS[address.backend % 128]
	local item = tree:add(BLOB, range)

	if not parts or address.backend == 255 then
		return
	end
	packet.cursor.at = from
	local values = packet.cursor:take(parts, item)
	if parts == BLOBS[6] then
		item:add(OFI_NAME, packet.cursor:range(values.len, "name"))
	end
	if address.backend > 128 then
		packet.cursor:take(BLOB_SEALED, item)
	end
	packet.cursor.at = from + address.len
end

local function read_record(packet)
	local record = packet.cursor:take(RECORD, packet.root)

	for _ = 1, record.n_addrs do
		local tree = packet.root:add(packet.tvb(packet.cursor.at), "Address")
		local from = packet.cursor.at
		local address = packet.cursor:take(ADDRESS, tree)

		tree:append_text(": " .. (BACKENDS[address.backend] or address.backend))
		read_blob(packet, tree, address)
		tree:set_len(packet.cursor.at - from)
	end
end

local function read_digest(packet, n)
	packet.cursor:take(DIGEST, packet.root)
	for _ = 1, n do
		local tree = packet.root:add(packet.tvb(packet.cursor.at), "Registration")

		packet.cursor:take(RESOLVER_ID, tree)
		packet.cursor:take(WITHDRAWN, tree)
		tree:set_len(NAMED_LEN)
	end
	packet.summary = "DIGEST of " .. n
end

-- A query is padded to a fixed length; what follows a packet is a mark, or does not belong there.
local function read_resolver_end(packet)
	if packet.type == "QUERY" then
		packet.cursor.at = math.min(QUERY_LEN, packet.cursor.len)
	end
	packet.payload_at = packet.cursor.at
	if packet.cursor:rest() == MARK_LEN then
		packet.root:add(MARK, packet.cursor:range(MARK_LEN, "mark"))
	elseif packet.cursor:rest() > 0 then
		malformed("bytes after the end")
	end
	packet.text = packet.tvb(0, packet.payload_at):raw()
	if not check_crc(packet) then
		packet.summary = packet.summary .. "  [wrong checksum]"
	end
end

local function note_query(packet)
	local key = packet.text:sub(9, 24) .. packet.text:sub(49, 56)
	local first = memory.seen[key] or packet.pinfo.number

	if packet.type ~= "QUERY" then
		return
	end
	memory.seen[key] = math.min(first, packet.pinfo.number)
	if packet.pinfo.number > first then
		note(packet, "again", "asked first in frame " .. first)
	end
end

local function read_resolver(packet)
	packet.pinfo.cols.protocol = "ripc-find"
	if packet.tvb:len() < 1 or packet.tvb(0, 1):uint() ~= VERSION then
		note(packet, "version", "another version")
		return
	end
	local header = packet.cursor:take(RESOLVER, packet.root)

	packet.header, packet.type = header, RESOLVER_TYPES[header.type]
	if not packet.type then
		malformed("type " .. header.type)
	end
	if packet.type == "DIGEST" then
		read_digest(packet, header["hops, definite"])
	else
		packet.summary = packet.type .. " " .. hex(packet.cursor:take(RESOLVER_ID, packet.root).id)
	end
	if packet.type == "RECORD" then
		read_record(packet)
	elseif packet.type == "WITHDRAWN" then
		packet.cursor:take(WITHDRAWN, packet.root)
	end
	read_resolver_end(packet)
	note_query(packet)
end

-- ---- sealed datagrams -------------------------------------------------------------------------

local function read_sealed(packet)
	packet.pinfo.cols.protocol = "ripc-sealed"
	local head = packet.cursor:take(SEALED_HEAD, packet.root)
	local kind = SEALED_KINDS[head.kind]

	if not kind then
		malformed("kind " .. head.kind)
	end
	packet.summary = string.format("sealed %s 0x%08x", kind, head.index)
	packet.cursor:take(SEALED_KIND[kind], packet.root)
	local rest = packet.cursor:rest() - (kind == "DATA" and 0 or MARK_LEN)
	if SEALED_REST[kind] and rest > 0 then
		packet.root:add(SEALED_REST[kind], packet.cursor:range(rest, kind))
	end
	if kind ~= "DATA" then
		packet.root:add(SEALED_MAC, packet.cursor:range(MARK_LEN, "mac"))
	end
	if packet.cursor:rest() > 0 then
		malformed("bytes after the end")
	end
end

-- ---- datagrams --------------------------------------------------------------------------------

-- Runs a reader; what it finds malformed, and its notes, are shown.
local function read(reader, tvb, pinfo, tree)
	local packet = packet_new(tvb, pinfo, tree:add(ripc, tvb()))
	local good, why = pcall(reader, packet)

	if not good then
		if type(why) ~= "table" then
			error(why, 0)
		end
		if not packet.is_cut then
			note(packet, "malformed", "malformed: " .. why.why)
		end
	end
	for _, each in ipairs(packet.notes) do
		packet.root:add_proto_expert_info(each[1], each[2])
	end
	packet.root:append_text(": " .. (packet.summary or "not understood"))
	return packet.summary or "not understood"
end

-- The kernel cuts one long piece into datagrams of one length behind the place where it captures
-- (UDP segmentation offload). Where the next header in it bears the same src, dst and token, the next
-- datagram begins.
local function segment_len(text)
	local at = #text > 2 * HEADER_LEN and text:find(text:sub(9, 32), HEADER_LEN + 1, true)

	if at and at > HEADER_LEN + 8 and text:sub(at - 8, at - 7) == text:sub(1, 2) then
		return at - 9
	end
	return #text
end

local function read_contexts(tvb, pinfo, tree)
	local step, summaries = segment_len(tvb:raw()), {}

	for at = 0, tvb:len() - 1, step do
		local len = math.min(step, tvb:len() - at)
		local part = step < tvb:len() and tvb(at, len):tvb() or tvb

		summaries[#summaries + 1] = read(read_packet, part, pinfo, tree)
	end
	if #summaries > 1 then
		tree:add_proto_expert_info(EXPERTS.batch, #summaries .. " packets in one piece")
		return summaries[1] .. "  and " .. #summaries - 1 .. " more"
	end
	return summaries[1]
end

local function is_resolver(pinfo)
	return pinfo.src_port == RESOLVER_PORT or pinfo.dst_port == RESOLVER_PORT
end

function ripc.dissector(tvb, pinfo, tree)
	pinfo.cols.protocol = "ripc"
	if tvb:len() == 0 then
		pinfo.cols.info = "a context wakes itself"
	elseif is_resolver(pinfo) then
		pinfo.cols.info = read(read_resolver, tvb, pinfo, tree)
	elseif tvb(0, 1):uint() == SEALED then
		pinfo.cols.info = read(read_sealed, tvb, pinfo, tree)
	else
		pinfo.cols.info = read_contexts(tvb, pinfo, tree)
	end
	return tvb:len()
end

-- Is it ours? Contexts have any port: only what stands in the packet can tell.
local function is_packet(tvb)
	if tvb:len() < HEADER_LEN then
		return false
	end
	local kind, flags = tvb(1, 1):uint(), tvb(2, 2):le_uint()

	return tvb(0, 1):uint() == VERSION and TYPES[kind] ~= nil and (kind == 1 or flags < 256) and
		(kind == 12 or tvb(8, 8):le_uint64() ~= UInt64(0) and tvb(16, 8):le_uint64() ~= UInt64(0))
end

local function is_sealed(tvb)
	return tvb:len() >= 16 and tvb(0, 1):uint() == SEALED and SEALED_KINDS[tvb(1, 1):uint()] ~= nil and
		tvb(2, 2):uint() == 0 and tvb(4, 4):uint() ~= 0
end

ripc:register_heuristic("udp", function(tvb, pinfo, tree)
	if not is_packet(tvb) and not is_sealed(tvb) then
		return false
	end
	pinfo.conversation = ripc
	ripc.dissector(tvb, pinfo, tree)
	return true
end)
DissectorTable.get("udp.port"):add(RESOLVER_PORT, ripc)
