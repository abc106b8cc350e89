-- Make a page of the delayed rows that are due ready.
-- ARGV  page:int
-- REPLY ok
-- WRITES row ready delayed meta states counters events
-- INCLUDE prelude keys record
local due = redis.call('ZRANGEBYSCORE', delayed_key(), '-inf', now_ms, 'LIMIT', 0, page)
local moved = 0
for _, id in ipairs(due) do
  redis.call('ZREM', delayed_key(), id)
  local r = read(id)
  if r and r.state == 'delayed' then
    make_ready(r, 'due')
    moved = moved + 1
  end
end
flush()
return {'ok', moved, #due}
