-- Keep the jobs of a queue or of a tool from being taken, or let them be taken again.
-- ARGV  target on said
-- REPLY paused resumed unchanged
-- WRITES paused
-- INCLUDE prelude keys line
local there = redis.call('HEXISTS', paused_key(), target) == 1
if there == (on == '1') then return {'unchanged'} end
if on == '1' then
  redis.call('HSET', paused_key(), target, digits(now_ms) .. ' ' .. said)
  return {'paused'}
end
redis.call('HDEL', paused_key(), target)
redis.pcall('PUBLISH', bell_key(), '1')
return {'resumed'}
