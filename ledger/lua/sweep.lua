-- Move a page of whatever time has moved: rows that are due, rows past their time, keys to make sure of; name lapsed sessions.
-- ARGV  page:int
-- REPLY ok
-- WRITES row args result unknown tools asked line rota waiting queues gate full running delayed expiring meta states counters events share ticket aliases
-- INCLUDE prelude keys line record pick

local cancels = false

-- An index is left first, also by what has no row any more: that needs no memory, and a full server lets the script go on.
local function promote(id)
  redis.call('ZREM', delayed_key(), id)
  local r = read(id)
  if not (r and r.state == 'delayed') then return false end
  make_ready(r, 'due')
  return true
end

-- Ends what must not start, or not go on, any more; what is held is asked to stop.
local function end_overdue(id)
  redis.call('ZREM', expiring_key(), id)
  local r = read(id)
  if not r or TERMINAL[r.state] then return false end
  local stopped = stop_word(r)
  if stopped and not HELD[r.state] and r.state ~= 'unknown' then
    stop(r, stopped, {})
    return true
  end
  if not r.deadline then return false end
  if tonumber(r.deadline) > now_ms then
    redis.call('ZADD', expiring_key(), r.deadline, id)
  elseif HELD[r.state] then
    redis.call('HSET', asked_key(r.session), id, r.fence)
    cancels = true
  end
  return false
end

-- A key that was full may have room after all, if a row under it was removed by hand.
local function look_at_full(gate)
  redis.call('ZREM', full_key(), gate)
  local head = redis.call('ZRANGE', gate_key(gate), 0, 0)[1]
  local r = head and read(head)
  local room = head and not r and 1 or 0
  for _, limit in ipairs(r and limits_of(r) or {}) do
    if limit.gate == gate and has_room(limit) then room = limit.at_most - redis.call('SCARD', running_key(limit.key)) end
  end
  -- More than there are places: who was woken before may stand in a line that nobody serves.
  if room > 0 then wake(gate, WAKE) end
  if redis.call('EXISTS', gate_key(gate)) == 1 then
    redis.call('ZADD', full_key(), digits(now_ms + FULL_AGAIN_MS), gate)
  end
  return room > 0
end

local function each_due(index, take)
  local due = redis.call('ZRANGEBYSCORE', index, '-inf', now_ms, 'LIMIT', 0, page)
  local moved = 0
  for _, member in ipairs(due) do
    if take(member) then moved = moved + 1 end
  end
  return moved, #due >= page
end

local promoted, more_due = each_due(delayed_key(), promote)
local overdue, more_overdue = each_due(expiring_key(), end_overdue)
local woken, more_full = each_due(full_key(), look_at_full)
flush()
if cancels then redis.pcall('PUBLISH', bell_key(), 'cancel') end
local reply = {'ok', (more_due or more_overdue or more_full) and 1 or 0, promoted, overdue, woken}
for _, lapsed in ipairs(redis.call('ZRANGEBYSCORE', sessions_key(), '-inf', now_ms, 'LIMIT', 0, page)) do
  reply[#reply + 1] = lapsed
end
return reply
