-- Move schedules on to the due times that were taken, never back; one that is not known yet begins now.
-- EACH  step: schedule at last
-- REPLY ok
-- WRITES schedules
-- INCLUDE prelude keys
local reply = {'ok'}
for schedule, at, last in each(step) do
  local told = redis.call('HGET', schedules_key(), schedule)
  local told_at, told_last = string.match(told or '', '^(%d+) (%d+)$')
  if not told_at then
    told_at, told_last = digits(now_ms), '0'
  end
  -- Instants in milliseconds are below 2^53: as numbers they lose nothing.
  if tonumber(at) > tonumber(told_at) then told_at = at end
  if tonumber(last) > tonumber(told_last) then told_last = last end
  local new = told_at .. ' ' .. told_last
  if new ~= told then redis.call('HSET', schedules_key(), schedule, new) end
  reply[#reply + 1] = told_at
  reply[#reply + 1] = told_last
end
return reply
