-- Where a ready row waits: in its line, or aside under the key of a limit that has no room for it. One of the two, never both.
--
-- A line is a sorted set of rows of one queue, priority, tool and tenant, by their order. `rota` has the tenants of one queue,
-- priority and tool, by the round in which each is served next; `waiting` counts the rows of a queue by priority and tool.

-- So many rows come back from under a gate at once at the most; the next turn looks at more.
local WAKE = 100
local FULL_AGAIN_MS = 10000
-- For so long a tenant's last turn is remembered where its rows wait under keys.
local REST_MS = 3600000
-- Under a gate a level counts as so many submissions: one of a higher level comes before those that were submitted so much earlier.
local AHEAD = 100000

local entering, entered, waking = {}, {}, {}
local bell_rings = false

local function parts_of(line)
  return string.match(line, '^([^:]*):(%d):([^:]*):(.*)$')
end

-- Puts a row into its line when the script flushes: at the end, or where it stood before.
local function stand(r, order)
  local line = entering[r.line]
  if not line then
    line = {}
    entering[r.line] = line
    entered[#entered + 1] = r.line
  end
  line[#line + 1] = {r.id, order}
  bell_rings = true
end

local function flush_line(line)
  local late = 0
  for _, place in ipairs(entering[line]) do
    if not place[2] then late = late + 1 end
  end
  local order = late > 0 and redis.call('HINCRBY', meta_key(), 'order', late) - late or 0
  local places = {}
  for _, place in ipairs(entering[line]) do
    if not place[2] then order = order + 1 end
    places[#places + 1] = place[2] or digits(order)
    places[#places + 1] = place[1]
  end
  local added = 0
  -- Lua unpacks a few thousand values at most.
  for at = 1, #places, 2000 do
    added = added + redis.call('ZADD', line_key(line), unpack(places, at, math.min(at + 1999, #places)))
  end
  if added == 0 then return end
  local queue, level, tool, tenant = parts_of(line)
  if redis.call('HINCRBY', waiting_key(queue), level .. ':' .. tool, added) == added then
    redis.call('SADD', queues_key(), queue)
  end
  local rota = rota_key(queue .. ':' .. level .. ':' .. tool)
  if redis.call('ZSCORE', rota, tenant) then return end
  -- At the end of the round that is being served: who comes and goes never gets two turns where the others get one. Who was
  -- woken for a key is next, if it has not had its turn in this round.
  local first = tonumber(redis.call('ZRANGE', rota, 0, 0, 'WITHSCORES')[2])
  local pass = first and first + 1 or 0
  if first and late < #entering[line] then
    local rested = queue .. ':' .. level .. ':' .. tool
    pass = math.max(first - 1, tonumber(redis.call('ZSCORE', rested_key(rested), tenant) or first - 1))
    redis.call('ZREM', rested_key(rested), tenant)
  end
  redis.call('ZADD', rota, digits(pass), tenant)
end

local function flush_lines()
  for _, line in ipairs(entered) do flush_line(line) end
  entering, entered = {}, {}
end

local function fewer_waiting(queue, shelf, by)
  if redis.call('HINCRBY', waiting_key(queue), shelf, -by) <= 0 then redis.call('HDEL', waiting_key(queue), shelf) end
end

-- Where a row stands among those that wait under a gate, by its order in its line.
local function place_of(line, order)
  local _, level = parts_of(line)
  return tonumber(order) + level * AHEAD
end

-- Takes a ready row out of where it waits, for another reason than a claim.
local function leave(r)
  local gate = redis.call('HGET', row_key(r.id), 'gate')
  if gate then
    redis.call('HDEL', row_key(r.id), 'gate')
    redis.call('ZREM', gate_key(gate), r.id)
    return
  end
  if redis.call('ZREM', line_key(r.line), r.id) == 0 then return end
  local queue, level, tool, tenant = parts_of(r.line)
  fewer_waiting(queue, level .. ':' .. tool, 1)
  if redis.call('EXISTS', line_key(r.line)) == 0 then
    redis.call('ZREM', rota_key(queue .. ':' .. level .. ':' .. tool), tenant)
  end
end

-- ── limits: the row has them one a line, `c at_most key` or `r units per_ms most cost key` ──

local function limits_of(r)
  local limits = {}
  for line in string.gmatch(r.limits or '', '[^\n]+') do
    local at_most, held_by = string.match(line, '^c\t(%d+)\t(.*)$')
    if at_most then
      limits[#limits + 1] = {gate = 'c:' .. held_by, key = held_by, at_most = tonumber(at_most)}
    else
      local units, per_ms, most, cost, key = string.match(line, '^r\t(%d+)\t(%d+)\t(%d+)\t(%d+)\t(.*)$')
      if units then
        local each_ms = tonumber(per_ms) / tonumber(units)
        limits[#limits + 1] = {gate = 'r:' .. key, key = key, cost_ms = tonumber(cost) * each_ms, most_ms = tonumber(most) * each_ms}
      end
    end
  end
  return limits
end

-- When a bucket is full again, by the server's clock, and since when it is not: what is spent and not refilled yet lies between
-- now and then.
local function full_at(key)
  local full, since = string.match(redis.call('GET', rate_key(key)) or '', '^(%S+) (%S+)$')
  full, since = tonumber(full), tonumber(since)
  if not (full and since) or full <= now_ms then return now_ms, now_ms end
  return full, since
end

local function fill(key, full, since)
  if full <= now_ms then
    redis.call('DEL', rate_key(key))
  else
    redis.call('SET', rate_key(key), string.format('%.3f %.0f', full, since), 'PX', digits(math.ceil(full - now_ms) + 1))
  end
end

local function spend(key, ms)
  local full, since = full_at(key)
  fill(key, full + ms, since)
end

-- What was spent and has been refilled since is not given back: that would be more than can be saved up.
local function unspend(key, ms, spent_ms)
  local full, since = full_at(key)
  if spent_ms < since then return end
  fill(key, full - ms, since)
  if redis.call('ZSCORE', gates_key(), 'r:' .. key) then redis.call('ZADD', gates_key(), digits(now_ms), 'r:' .. key) end
end

local pauses

-- The order that keeps the rows of a line from being taken, if one stands.
local function pause_of(line)
  if not pauses then
    pauses = {}
    for _, order in ipairs(redis.call('HKEYS', paused_key())) do pauses[order] = true end
  end
  local queue, _, tool = parts_of(line)
  return pauses['queue:' .. queue] and 'queue:' .. queue or pauses['tool:' .. tool] and 'tool:' .. tool
end

-- Takes one row from under a gate. It goes back to its place in its line; or, if it could not be taken there, under the pause that
-- keeps it: a place that it was woken for is another's. Answers whether it is in its line.
local function come_back(gate, id, place)
  redis.call('ZREM', gate_key(gate), id)
  local known = redis.pcall('HMGET', row_key(id), 'state', 'tool', 'line', 'gate')
  if known[4] ~= gate then return false end
  local line = known[3] or 'default:2:' .. tostring(known[2]) .. ':'
  local back = known[1] == 'ready' and parts_of(line)
  local paused = back and pause_of(line)
  if paused then
    redis.call('HSET', row_key(id), 'gate', 'p:' .. paused)
    redis.call('ZADD', gate_key('p:' .. paused), place, id)
    return false
  end
  redis.call('HDEL', row_key(id), 'gate')
  if back then stand({id = id, line = line}, digits(tonumber(place) - place_of(line, 0))) end
  return back
end

-- The first rows that were put under a gate come back, as many as can be taken.
local function wake(gate, most)
  local woken, looked = 0, 0
  while woken < most and looked < WAKE do
    local first = redis.call('ZRANGE', gate_key(gate), 0, math.min(most - woken, WAKE - looked) - 1, 'WITHSCORES')
    if #first == 0 then return end
    for at = 1, #first, 2 do
      if come_back(gate, first[at], first[at + 1]) then woken = woken + 1 end
    end
    looked = looked + #first / 2
  end
end

local occupying = {}

-- What a row holds of its limits while somebody holds it. By ids, so that saying it twice is saying it once.
local function occupy(r)
  if not r.limits then return end
  occupying[r.id] = true
  for _, limit in ipairs(limits_of(r)) do
    if limit.at_most then redis.call('SADD', running_key(limit.key), r.id) end
  end
end

local function vacate(r)
  if not r.limits then return end
  for _, limit in ipairs(limits_of(r)) do
    if limit.at_most and redis.call('SREM', running_key(limit.key), r.id) == 1 then waking[#waking + 1] = limit.gate end
  end
end

-- A place of a key that a row was woken for, and does not take, is the next one's.
local function pass_on(r, limits, but)
  for _, limit in ipairs(limits or limits_of(r)) do
    if limit.at_most and limit.gate ~= but and redis.call('SCARD', running_key(limit.key)) < limit.at_most then
      waking[#waking + 1] = limit.gate
    end
  end
end

-- One of those that wait takes each place that was left.
local function flush_wakes()
  local places, gates = {}, {}
  for _, gate in ipairs(waking) do
    if not places[gate] then gates[#gates + 1] = gate end
    places[gate] = (places[gate] or 0) + 1
  end
  for _, gate in ipairs(gates) do wake(gate, places[gate]) end
  waking = {}
end
