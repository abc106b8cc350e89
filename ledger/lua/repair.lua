-- Fill in what a damaged row lacks with the strictest that it can mean; a row without a state stays as it is.
-- ARGV  request_id effect effect_class mode keep:digits keep_result:digits
-- REPLY repaired whole missing hopeless
-- WRITES row args result line rota waiting queues gate running delayed expiring asked unknown held tools meta states counters events share ticket aliases
-- INCLUDE prelude keys line record
local r, why, canonical = read(request_id)
if why == 'alias' then
  request_id = canonical
  r, why = read(canonical)
end
if r then return {'whole'} end
if why == 'missing' then return {'missing'} end
local raw = redis.pcall('HMGET', row_key(request_id), unpack(FIELDS))
if raw.err then return {'hopeless'} end
local row = {}
for at, field in ipairs(FIELDS) do row[field] = raw[at] end
local OPEN = {delayed = true, ready = true, parked = true, claimed = true, attempting = true, unknown = true}
-- What a row is of cannot be guessed: without these nothing says which effect it speaks of.
if not (row.effect and row.tool and (OPEN[row.state] or TERMINAL[row.state])) then return {'hopeless'} end

-- The history goes on after the last entry that is left: numbered from the start again, it would overwrite what happened.
local function last_entry()
  local last = 0
  for _, field in ipairs(redis.call('HKEYS', row_key(request_id))) do
    last = math.max(last, tonumber(string.match(field, '^h(%d+)$') or '0'))
  end
  return digits(last)
end

local write, filled = {}, {}
local function fill(field, good, value)
  if good then return end
  write[#write + 1] = field
  write[#write + 1] = value
  filled[#filled + 1] = field
  row[field] = value
end
local function number(field, least)
  fill(field, tonumber(row[field] or ''), least)
end
local HARMLESS = {failed = true, cancelled = true, dead = true, claimed = true, delayed = true, parked = true}
fill('boundary', RANK[row.boundary],
  row.state == 'completed' and 'crossed' or (HARMLESS[row.state] and 'not_crossed' or 'maybe_crossed'))
-- The caller's declaration is this row's only if it speaks of the same effect; of another one's nothing is known but the worst.
local same = row.effect == effect
fill('class', CLASS[row.class], same and effect_class or 'irreversible')
fill('mode', MODE[row.mode], same and mode or 'automatic')
number('keep', keep)
number('keep_result', keep_result)
number('n', last_entry())
number('attempts', '1')
number('fails', '0')
number('deaths', '0')
number('max_attempts', '1')
number('max_deaths', '1')
fill('timeouts', tonumber(row.timeouts or '0'), '0')
fill('max_timeouts', tonumber(row.max_timeouts or '1'), '1')
fill('line', not row.line or parts_of(row.line), 'default:2:' .. row.tool .. ':')
for _, field in ipairs({'start_by', 'deadline'}) do
  if not tonumber(redis.call('HGET', row_key(request_id), field) or '0') then fill(field, false, '1') end
end
-- A first dispatch at the beginning of time leaves no window of any key open.
fill('first', tonumber(row.first or '0'), '0')
local orphan = HELD[row.state] and (row.session or '') == ''
if orphan then fill('session', false, '-') end
local refenced = not row.fence
if refenced then fill('fence', false, digits(redis.call('HINCRBY', meta_key(), 'fence', 1))) end
redis.call('HSET', row_key(request_id), unpack(write))
r = read(request_id)
-- Each repair is told, also where the same field is lost again: what was filled in is no record of what happened.
local told = {}
history(r, 'note', 'repaired-' .. table.concat(filled, ','), told)
redis.call('HSET', row_key(request_id), unpack(told))
count('repaired')
if orphan then
  -- Nobody can say any more who holds it, and nothing that it shows is proof of what its holder did.
  lose(r, 'session-lost', {ended = '0'}, true, '')
  count('expired')
elseif refenced and HELD[r.state] and redis.call('ZSCORE', sessions_key(), r.session) then
  -- Its holder can settle it no more; whoever sweeps that session still finds it.
  redis.call('HSET', held_key(r.session), r.id, r.fence)
end
-- Whoever came upon it while it was damaged has dropped it from where it is found.
local function found_in(index)
  return redis.call('ZSCORE', index, request_id)
end
if r.state == 'ready' and r.queued ~= '0' and redis.call('HEXISTS', row_key(request_id), 'gate') == 0
    and not found_in(line_key(r.line)) then
  stand(r)
elseif r.state == 'delayed' and not found_in(delayed_key()) then
  redis.call('ZADD', delayed_key(), digits(now_ms), request_id)
elseif r.state == 'unknown' and not found_in(unknown_key(r.tool)) then
  redis.call('ZADD', unknown_key(r.tool), digits(now_ms), request_id)
end
if (r.start_by or r.deadline) and not TERMINAL[r.state] then redis.call('ZADD', expiring_key(), digits(now_ms), request_id) end
flush()
return {'repaired'}
