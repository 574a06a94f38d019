-- SPDX-License-Identifier: MIT OR Apache-2.0
--
-- What weft puts on the wire, for Wireshark and tshark 4.4 or later: the tag of IPv4 and IPv6, BFC's frames, packets of
-- Fastpass's control protocol, PASE's messages. Where a format is described is said at each. `cargo xtask package --test`
-- has tshark read what the crates' own encoders write.
--
--   tshark -r capture.pcapng -Y weft.tag -T fields -e ip.src -e weft.tag.rank
--
-- The package weft has it where Wireshark looks for plugins; else copy it to ~/.local/lib/wireshark/plugins.

-- A protocol, its fields by their names, and the mark of what is malformed. Each field is { name, type, label, values }.
local function protocol(name, label, fields)
    local proto = Proto(name, label)
    local named, list = {}, {}
    for _, field in ipairs(fields) do
        local kind, shown = field[2], field[4]
        local made
        if kind == "ipv6" then
            made = ProtoField.ipv6(name .. "." .. field[1], field[3])
        else
            made = ProtoField[kind](name .. "." .. field[1], field[3], shown == "hex" and base.HEX or base.DEC,
                type(shown) == "table" and shown or nil)
        end
        named[field[1]] = made
        list[#list + 1] = made
    end
    proto.fields = list
    local mark = ProtoExpert.new(name .. ".malformed", "Malformed", expert.group.MALFORMED, expert.severity.ERROR)
    proto.experts = { mark }
    return proto, named, mark
end

-- Adds fields at fixed places, each { name, offset, length }.
local function add(tree, bytes, fields, places)
    for _, place in ipairs(places) do
        tree:add(fields[place[1]], bytes(place[2], place[3]))
    end
end

-- Whether it begins with three letters and a protocol's version.
local function begins(bytes, letters, version)
    return bytes:len() >= 4 and bytes(0, 3):string() == letters and bytes(3, 1):uint() == version
end

-- The tag: kmod/common/tag.rs

local tag, tag_fields, tag_malformed = protocol("weft.tag", "weft's tag", {
    { "layout", "uint8", "Layout" },
    { "queue", "uint16", "Upstream queue" },
    { "code", "uint32", "Rank code" },
    { "rank", "uint32", "Rank" },
})

-- The smallest rank of a code: ranks of `exact` bits are their own code, and each octave above has 2^(exact - 4) steps.
-- nil for a reserved code.
local function rank_of(code, exact)
    local steps = exact - 4
    if code < 1 << exact then
        return code
    elseif code > (1 << exact) - 1 + ((32 - exact) << steps) then
        return nil
    end
    local above = code - (1 << exact)
    return ((1 << steps) | (above & ((1 << steps) - 1))) << ((above >> steps) + 4)
end

-- `sound`: whether what is around the word is as it has to be.
local function dissect_tag(bytes, sound, tree)
    local word = bytes(4, 4):uint()
    local layout, exact, shift = 0, 22, 23
    if word >= 1 << 31 then
        layout, exact, shift = 1, 20, 21
    end
    local queue = (word & 0x7fffffff) >> shift
    local code = word & ((1 << shift) - 1)
    local rank = rank_of(code, exact)
    local branch = tree:add(tag, bytes)
    branch:add(tag_fields.layout, bytes(4, 1), layout)
    branch:add(tag_fields.queue, bytes(4, 2), queue)
    branch:add(tag_fields.code, bytes(5, 3), code)
    if rank then
        branch:add(tag_fields.rank, bytes(5, 3), rank)
        branch:append_text(": rank " .. rank)
    end
    if queue > 0 then
        branch:append_text(", upstream queue " .. queue)
    end
    if not sound or not rank or (layout == 1 and queue < 256) then
        branch:add_proto_expert_info(tag_malformed, "No tag that weft reads")
    end
end

-- Wireshark has no table of IPv4's options: the tag is looked for in the headers that it has found.
local ip_length = Field.new("ip.hdr_len")
local destination_options = Field.new("ipv6.dstopts.nxt")

function tag.dissector(frame, _, tree)
    for _, length in ipairs({ ip_length() }) do
        -- It is in the header's first byte.
        local at = length.offset + 20
        if length.value >= 28 and at + 8 <= frame:len() and frame(at, 1):uint() == 0x9e then
            local bytes = frame(at, 8)
            dissect_tag(bytes, bytes(1, 1):uint() == 8 and bytes(2, 2):uint() == 0, tree)
        end
    end
    for _, header in ipairs({ destination_options() }) do
        local at = header.offset
        if at + 8 <= frame:len() and frame(at + 2, 1):uint() == 0x1e then
            local bytes = frame(at, 8)
            dissect_tag(bytes, bytes(1, 1):uint() == 0 and bytes(3, 1):uint() == 4, tree)
        end
    end
end
register_postdissector(tag)

-- BFC's frames: kmod/bfc/frame.rs

local bfc_kinds = { [1] = "pause", [2] = "resume", [3] = "bitmap" }
local bfc, bfc_fields, bfc_malformed = protocol("weft.bfc", "BFC", {
    { "version", "uint8", "Version" },
    { "kind", "uint8", "Kind", bfc_kinds },
    { "words", "uint8", "Words of the bitmap" },
    { "queue", "uint16", "Queue" },
    { "sequence", "uint64", "Sequence" },
    { "hold", "uint32", "Hold in µs" },
    { "paused", "uint16", "Paused queue" },
})

function bfc.dissector(bytes, info, tree)
    if not begins(bytes, "BFC", 1) or bytes:len() < 20 then
        return 0
    end
    local kind, words = bytes(4, 1):uint(), bytes(5, 1):uint()
    local size = 20 + 8 * words
    local branch = tree:add(bfc, bytes(0, math.min(size, bytes:len())))
    info.cols.protocol = "BFC"
    info.cols.info = bfc_kinds[kind] or "?"
    add(branch, bytes, bfc_fields, {
        { "version", 3, 1 }, { "kind", 4, 1 }, { "words", 5, 1 }, { "queue", 6, 2 }, { "sequence", 8, 8 }, { "hold", 16, 4 },
    })
    if not bfc_kinds[kind] or words > 16 or size > bytes:len() then
        branch:add_proto_expert_info(bfc_malformed, "No frame that weft reads")
        return bytes:len()
    end
    local paused = {}
    for word = 0, words - 1 do
        for bit = 0, 63 do
            -- Bit b of a word that has its most significant byte first.
            local at = 20 + 8 * word + 7 - bit // 8
            if bytes(at, 1):uint() & (1 << bit % 8) ~= 0 then
                paused[#paused + 1] = 64 * word + bit
                branch:add(bfc_fields.paused, bytes(at, 1), 64 * word + bit)
            end
        end
    end
    if kind == 3 then
        info.cols.info = "bitmap: " .. (#paused > 0 and table.concat(paused, ", ") or "none") .. " paused"
    else
        info.cols.info = bfc_kinds[kind] .. " queue " .. bytes(6, 2):uint()
    end
    return bytes:len()
end
DissectorTable.get("ethertype"):add(0x88b5, bfc)

-- Fastpass's control protocol: kmod/fastpass/frame.rs

local fcp_kinds = { [1] = "REQUEST", [2] = "ALLOC", [3] = "ACK of requests", [4] = "ACK of allocations", [5] = "RESET", [6] = "REPORT" }
local fcp, fcp_fields, fcp_malformed = protocol("weft.fcp", "Fastpass", {
    { "version", "uint8", "Version" },
    { "kind", "uint8", "Kind", fcp_kinds },
    { "counts", "uint8", "Counts" },
    { "slots", "uint8", "Slots" },
    { "runs", "uint8", "Runs" },
    { "endpoint", "uint16", "Endpoint" },
    { "cookie", "uint64", "Cookie", "hex" },
    { "first", "uint64", "First timeslot" },
    { "proof", "uint32", "Proof", "hex" },
    { "check", "uint64", "Check", "hex" },
    { "nonce", "uint64", "Nonce", "hex" },
    { "time", "uint64", "Time of the report" },
    { "report.peer", "uint16", "Other endpoint" },
    { "report.path", "uint8", "Path" },
    { "report.sent", "uint16", "Packets sent, modulo 2^16" },
    { "report.seen", "uint16", "Latest number seen" },
    { "report.lost", "uint16", "Packets lost, modulo 2^16" },
    { "destination", "uint16", "Destination" },
    { "total", "uint32", "Timeslots in all, modulo 2^32" },
    { "slot.offset", "uint8", "Timeslots after the first" },
    { "slot.count", "uint8", "Of which count" },
    { "slot.path", "uint8", "Path" },
    { "run.offset", "uint8", "Timeslots after the first" },
    { "run.count", "uint8", "Of which count" },
    { "run.path", "uint8", "Path" },
    { "run.step", "uint8", "Timeslots from each to the next" },
    { "run.further", "uint8", "Further ones" },
})

function fcp.dissector(bytes, info, tree)
    local kind, counts = bytes(4, 1):uint(), bytes(5, 1):uint()
    local slots, runs = bytes(6, 1):uint(), bytes(7, 1):uint()
    local size = 32 + 6 * counts + 3 * slots + 5 * runs + (kind == 5 and 8 or 0)
    if kind == 6 then
        size = 40 + 10 * counts
    end
    local branch = tree:add(fcp, bytes())
    info.cols.protocol = "Fastpass"
    info.cols.info = (fcp_kinds[kind] or "?") .. ", endpoint " .. bytes(8, 2):uint()
    add(branch, bytes, fcp_fields, {
        { "version", 3, 1 }, { "kind", 4, 1 }, { "counts", 5, 1 }, { "slots", 6, 1 }, { "runs", 7, 1 },
        { "endpoint", 8, 2 }, { kind == 2 and "first" or "cookie", 12, 8 }, { "proof", 20, 4 }, { "check", 24, 8 },
    })
    if not fcp_kinds[kind] or size ~= bytes:len() then
        branch:add_proto_expert_info(fcp_malformed, "No packet that weft reads")
        return
    end
    if kind == 5 then
        branch:add(fcp_fields.nonce, bytes(32, 8))
    end
    if kind == 6 then
        branch:add(fcp_fields.time, bytes(32, 8))
        for entry = 0, counts - 1 do
            local at = 40 + 10 * entry
            add(branch, bytes, fcp_fields, {
                { "report.peer", at, 2 }, { "report.path", at + 2, 1 }, { "report.sent", at + 4, 2 },
                { "report.seen", at + 6, 2 }, { "report.lost", at + 8, 2 },
            })
        end
        return
    end
    for count = 0, counts - 1 do
        add(branch, bytes, fcp_fields, { { "destination", 32 + 6 * count, 2 }, { "total", 34 + 6 * count, 4 } })
    end
    for slot = 0, slots - 1 do
        local at = 32 + 6 * counts + 3 * slot
        add(branch, bytes, fcp_fields, { { "slot.offset", at, 1 }, { "slot.count", at + 1, 1 }, { "slot.path", at + 2, 1 } })
    end
    for run = 0, runs - 1 do
        local at = 32 + 6 * counts + 3 * slots + 5 * run
        add(branch, bytes, fcp_fields, {
            { "run.offset", at, 1 }, { "run.count", at + 1, 1 }, { "run.path", at + 2, 1 },
            { "run.step", at + 3, 1 }, { "run.further", at + 4, 1 },
        })
    end
end

-- The arbiter's port is the user's: packets are told by how they begin.
local function fcp_if(bytes, info, tree)
    if not begins(bytes, "FCP", 3) or bytes:len() < 32 then
        return false
    end
    fcp.dissector(bytes, info, tree)
    return true
end
fcp:register_heuristic("udp", fcp_if)

-- PASE's messages: kmod/pase/message.rs

local pase_kinds = { [1] = "ask", [2] = "answer", [3] = "end", [4] = "report", [5] = "share" }
local pase, pase_fields, pase_malformed = protocol("weft.pase", "PASE", {
    { "version", "uint8", "Version" },
    { "kind", "uint8", "Kind", pase_kinds },
    { "queue", "uint8", "Queue" },
    { "sequence", "uint64", "Sequence" },
    { "link", "uint32", "Link" },
    { "hold", "uint32", "Hold in µs" },
    { "flow", "uint64", "Flow", "hex" },
    { "child", "uint64", "Child" },
    { "urgency", "uint64", "Urgency" },
    { "demand", "uint64", "Demand in bytes/s" },
    { "rate", "uint64", "Rate in bytes/s" },
    { "to", "ipv6", "Receiver" },
})
-- What each kind has besides a sequence and a link.
local pase_has = {
    { { "flow", 24, 8 }, { "urgency", 32, 8 }, { "demand", 40, 8 }, { "to", 48, 16 } },
    { { "queue", 5, 1 }, { "hold", 20, 4 }, { "flow", 24, 8 }, { "rate", 40, 8 } },
    { { "flow", 24, 8 } },
    { { "child", 24, 8 }, { "demand", 40, 8 } },
    { { "hold", 20, 4 }, { "child", 24, 8 }, { "rate", 40, 8 } },
}

function pase.dissector(bytes, info, tree)
    if not begins(bytes, "PAS", 1) or bytes:len() < 64 then
        return 0
    end
    local kind = bytes(4, 1):uint()
    local branch = tree:add(pase, bytes(0, 64))
    info.cols.protocol = "PASE"
    info.cols.info = (pase_kinds[kind] or "?") .. ", link " .. bytes(16, 4):uint()
    add(branch, bytes, pase_fields, { { "version", 3, 1 }, { "kind", 4, 1 }, { "sequence", 8, 8 }, { "link", 16, 4 } })
    if pase_has[kind] then
        add(branch, bytes, pase_fields, pase_has[kind])
    else
        branch:add_proto_expert_info(pase_malformed, "No message that weft reads")
    end
    return bytes:len()
end
DissectorTable.get("ethertype"):add(0x88b6, pase)

local function pase_if(bytes, info, tree)
    if not begins(bytes, "PAS", 1) or bytes:len() ~= 64 then
        return false
    end
    pase.dissector(bytes, info, tree)
    return true
end
pase:register_heuristic("udp", pase_if)
