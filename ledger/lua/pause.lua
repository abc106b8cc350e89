-- Keep the jobs of a queue or of a tool from being taken, or let them be taken again.
-- ARGV  target on said
-- REPLY paused resumed unchanged
-- WRITES paused gates
-- INCLUDE prelude keys
local there = redis.call('HEXISTS', paused_key(), target) == 1
if there == (on == '1') then return {'unchanged'} end
if on == '1' then
  redis.call('HSET', paused_key(), target, digits(now_ms) .. ' ' .. said)
  return {'paused'}
end
redis.call('HDEL', paused_key(), target)
-- Those that were put aside for it go back to their lines, a page a turn.
if redis.call('EXISTS', gate_key('p:' .. target)) == 1 then redis.call('ZADD', gates_key(), digits(now_ms), 'p:' .. target) end
redis.pcall('PUBLISH', bell_key(), '1')
return {'resumed'}
