-- Which ready rows a claim takes: queues by their share, levels by priority and age, tools evenly, tenants in turn, and of each
-- row whether its limits have room. Whatever lies in the lines, a claim looks at a bounded number of rows.

-- A level that is passed over so often counts as one level higher: of 38 jobs that are taken, one at the least is of the last of
-- five levels (33 times passed over, and then once more for each other level that is as late).
local AGE = 8
local LEVELS = 5
-- Lua unpacks a few thousand values at most, and a turn should be short.
local MOST = 1000

-- With more waiting shelves than this, and more tools, a claim looks at some of its tools: the caller's order changes.
local SHELVES, SAMPLE = 500, 100

local struck, held_back, sampled = false, false, false
local looks = 0
local shelves = {}
-- Whether something with limits was taken of the line that is being looked at.
local keyed = false

local function learn_orders()
  struck = redis.call('EXISTS', strikes_key()) == 1
end

-- ── gates ──

local function strike_on(r)
  local facets = struck and redis.call('HGET', row_key(r.id), 'facets') or ''
  for at = 1, #facets, 12 do
    local strike = r.tool .. ':' .. string.sub(facets, at, at + 11)
    if redis.call('HEXISTS', strikes_key(), strike) == 1 then return 's:' .. strike end
  end
end

-- A key may count somebody who holds nothing any more, if rows were removed by hand: one is looked at whenever it is full.
local function has_room(limit)
  local running = redis.call('SCARD', running_key(limit.key))
  if running < limit.at_most then return true end
  local one = redis.call('SRANDMEMBER', running_key(limit.key))
  -- What this very claim takes is not written yet.
  if occupying[one] or HELD[redis.pcall('HGET', row_key(one), 'state')] then return false end
  redis.call('SREM', running_key(limit.key), one)
  return running - 1 < limit.at_most
end

-- Gates that this claim found closed for whoever comes after a place, and when to look there again: a claim only makes them
-- fuller.
local closed = {}

-- Whether a limit is closed for a row. Who came first is served first: a cheap one does not spend what a dear one saves up for,
-- and a fresh one does not take the place for which another was woken.
local function is_closed(limit, place)
  local known = closed[limit.gate]
  if known and place > known.after then return true end
  local full, look_ms
  if limit.at_most then
    full = not has_room(limit)
  else
    local over_ms = full_at(limit.key) + limit.cost_ms - now_ms - limit.most_ms
    full = over_ms > 0.001
    look_ms = now_ms + math.max(1, math.ceil(over_ms))
  end
  local head = tonumber(redis.call('ZRANGE', gate_key(limit.gate), 0, 0, 'WITHSCORES')[2])
  local behind = head and head < place
  if not (full or behind) then return false end
  -- Whoever is in front is to look for itself: nobody might wake it for a place that is free already.
  if limit.at_most and not full then waking[#waking + 1] = limit.gate end
  local after = limit.at_most and full and -1 or behind and head or place
  closed[limit.gate] = {after = math.min(after, known and known.after or after), look_ms = look_ms}
  return true
end

-- Under which gate a row has to wait, and when to look there again; nil: it may run.
local function gate_of(r, limits, place)
  local strike = strike_on(r)
  if strike then return strike end
  for _, limit in ipairs(limits) do
    if is_closed(limit, place) then return limit.gate, closed[limit.gate].look_ms end
  end
end

local function put_aside(r, place, gate, look_ms, limits)
  redis.call('ZADD', gate_key(gate), digits(place), r.id)
  redis.call('HSET', row_key(r.id), 'gate', gate)
  if look_ms then
    redis.call('ZADD', gates_key(), 'NX', digits(look_ms), gate)
  elseif string.sub(gate, 1, 2) == 'c:' then
    redis.call('ZADD', full_key(), 'NX', digits(now_ms + FULL_AGAIN_MS), gate)
  end
  pass_on(r, limits, gate)
end

-- Wakes those under a rate key that can be paid for, one after another; answers when there is enough for the next one, and how
-- many were woken.
local function open_rate(gate, most)
  local promised_ms = 0
  for woken = 0, most - 1 do
    local head = redis.call('ZRANGE', gate_key(gate), 0, 0)[1]
    if not head then return nil, woken end
    local r = read(head)
    for _, limit in ipairs(r and limits_of(r) or {}) do
      if limit.gate == gate then
        local over_ms = full_at(limit.key) + promised_ms + limit.cost_ms - now_ms - limit.most_ms
        if over_ms > 0.001 then return now_ms + math.ceil(over_ms), woken end
        promised_ms = promised_ms + limit.cost_ms
      end
    end
    wake(gate, 1)
  end
  return now_ms, most
end

-- Looks at the gates that time opens: buckets that have filled, strikes and pauses that were lifted.
local function open_gates(most)
  local left = math.min(WAKE, most)
  for _, gate in ipairs(redis.call('ZRANGEBYSCORE', gates_key(), '-inf', now_ms, 'LIMIT', 0, 16)) do
    if left <= 0 then return end
    redis.call('ZREM', gates_key(), gate)
    local again_ms, woken = nil, 0
    if string.sub(gate, 1, 2) == 'r:' then
      again_ms, woken = open_rate(gate, left)
    elseif redis.call('HEXISTS', string.sub(gate, 1, 2) == 'p:' and paused_key() or strikes_key(), string.sub(gate, 3)) == 0 then
      wake(gate, left)
      again_ms, woken = now_ms, left
    end
    left = left - woken
    if again_ms and redis.call('EXISTS', gate_key(gate)) == 1 then
      redis.call('ZADD', gates_key(), digits(again_ms), gate)
    end
  end
end

-- ── lines ──

-- A tenant whose other rows wait under keys has had its turn: who is woken for it comes no sooner than in the next round.
local function rest(shelf, tenant, pass)
  redis.call('ZADD', rested_key(shelf), digits(pass), tenant)
  redis.call('PEXPIRE', rested_key(shelf), REST_MS)
end

-- Takes up to `most` rows of one queue, level and tool; `accept` says whether a row was taken. So many looks are kept for others.
local function take_shelf(queue, level, tool, most, accept, kept)
  local shelf = level .. ':' .. tool.name
  local rota = rota_key(queue .. ':' .. shelf)
  local got, gone = 0, 0
  while got < most and looks > kept do
    local round = redis.call('ZRANGE', rota, 0, most - got - 1, 'WITHSCORES')
    if #round == 0 then
      -- Nothing is there to be counted.
      redis.call('HDEL', waiting_key(queue), shelf)
      return got
    end
    -- One of each tenant a round; who is alone is served without rounds.
    local alone = #round == 2 and redis.call('ZCARD', rota) == 1
    local each_gets = alone and most - got or 1
    for at = 1, #round, 2 do
      local tenant, pass = round[at], round[at + 1]
      local line = line_key(queue .. ':' .. shelf .. ':' .. tenant)
      local popped = redis.call('ZPOPMIN', line, math.min(each_gets, looks - kept))
      keyed = false
      looks = looks - math.max(1, #popped / 2)
      gone = gone + #popped / 2
      for place = 1, #popped, 2 do
        if accept(popped[place], popped[place + 1], tool) then got = got + 1 end
      end
      if redis.call('EXISTS', line) == 0 then
        redis.call('ZREM', rota, tenant)
        if keyed then rest(queue .. ':' .. shelf, tenant, tonumber(pass) + 1) end
      elseif not alone then
        redis.call('ZADD', rota, digits(tonumber(pass) + 1), tenant)
      end
      if looks <= kept or got >= most then break end
    end
  end
  if gone > 0 then fewer_waiting(queue, shelf, gone) end
  return got
end

-- How many rows wait in a queue by priority and tool, of these tools or of more.
local function counts_of(queue, tools)
  local counts = {}
  if redis.call('HLEN', waiting_key(queue)) <= SHELVES then
    local all = redis.call('HGETALL', waiting_key(queue))
    for at = 1, #all, 2 do counts[all[at]] = tonumber(all[at + 1]) end
    return counts
  end
  sampled = sampled or #tools > SAMPLE
  local fields = {}
  for level = 0, LEVELS - 1 do
    for at = 1, math.min(#tools, SAMPLE) do fields[#fields + 1] = level .. ':' .. tools[at].name end
  end
  for at, rows in ipairs(redis.call('HMGET', waiting_key(queue), unpack(fields))) do
    if rows then counts[fields[at]] = tonumber(rows) end
  end
  return counts
end

-- The tools that have rows waiting in a queue, by level: {level = {n = rows, tools = {{rows, of = tool}}}}; asked once a claim.
local function shelves_of(queue, tools, room)
  if shelves[queue] then return shelves[queue] end
  local counts, levels = counts_of(queue, tools), {}
  for level = 0, LEVELS - 1 do
    for _, tool in ipairs(tools) do
      local rows = counts[level .. ':' .. tool.name]
      if rows and pause_of(queue .. ':0:' .. tool.name .. ':') then
        held_back = true
      elseif rows and room[tool.solo] > 0 then
        levels[level] = levels[level] or {n = 0, tools = {}}
        levels[level].n = levels[level].n + rows
        table.insert(levels[level].tools, {rows = rows, of = tool})
      end
    end
  end
  shelves[queue] = levels
  return levels
end

-- How many of `most` each level gets: the first by rank, where being passed over makes a level rise.
local function shares_of(queue, levels, most)
  local shares, passed, alone = {}, {}, nil
  for level = 0, LEVELS - 1 do
    if levels[level] then
      if alone == nil then alone = level else alone = false end
      shares[level] = 0
    end
  end
  if alone ~= false then
    if alone then shares[alone] = most end
    return shares
  end
  for level, times in ipairs(redis.call('HMGET', aging_key(queue), 0, 1, 2, 3, 4)) do passed[level - 1] = tonumber(times or '0') end
  for _ = 1, most do
    local best
    for level = 0, LEVELS - 1 do
      if levels[level] and shares[level] < levels[level].n then
        local rank = level * AGE - passed[level]
        if not best or rank < best.rank then best = {level = level, rank = rank} end
      end
    end
    if not best then break end
    for level = 0, LEVELS - 1 do
      if levels[level] and level ~= best.level then passed[level] = passed[level] + 1 end
    end
    passed[best.level] = 0
    shares[best.level] = shares[best.level] + 1
  end
  local write = {}
  for level = 0, LEVELS - 1 do
    write[#write + 1] = level
    write[#write + 1] = levels[level] and digits(passed[level]) or '0'
  end
  redis.call('HDEL', aging_key(queue), '')
  redis.call('HSET', aging_key(queue), unpack(write))
  return shares
end

-- Takes up to `most` rows of one queue; `room` is what may still start, of those that share a host and of those that do not.
local function take_queue(queue, tools, room, most, accept)
  if not shelves[queue] and redis.call('EXISTS', waiting_key(queue)) == 0 then return 0 end
  local levels = shelves_of(queue, tools, room)
  local shares = shares_of(queue, levels, math.min(most, room['0'] + room['1']))
  local got, left_over, kept = 0, 0, 0
  for level = 1, LEVELS - 1 do kept = kept + (shares[level] or 0) end
  for level = 0, LEVELS - 1 do
    -- Rows that may not run yet, however many, keep no lower level from being looked at.
    if level > 0 then kept = kept - (shares[level] or 0) end
    local share = (shares[level] or 0) + left_over
    local shelf = levels[level]
    left_over = share
    -- What a tool with few rows does not need goes to those with more; with fewer places than tools, the caller's order stands.
    if shelf and share >= #shelf.tools then table.sort(shelf.tools, function(a, b) return a.rows < b.rows end) end
    for at, tool in ipairs(shelf and shelf.tools or {}) do
      local even = math.ceil(left_over / (#shelf.tools - at + 1))
      local kind = tool.of.solo
      local wanted = math.min(even, room[kind], most - got)
      if wanted > 0 and looks > kept then
        local here = take_shelf(queue, level, tool.of, wanted, accept, kept)
        room[kind] = room[kind] - here
        tool.rows, shelf.n = math.max(0, tool.rows - here), math.max(0, shelf.n - here)
        got = got + here
        left_over = left_over - here
      end
    end
  end
  return got
end
