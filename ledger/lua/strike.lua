-- Keep the jobs of a tool that have one value for one argument from being taken, or let them be taken again.
-- ARGV  strike on said
-- REPLY struck lifted unchanged
-- WRITES strikes gates
-- INCLUDE prelude keys
local there = redis.call('HEXISTS', strikes_key(), strike) == 1
if there == (on == '1') then return {'unchanged'} end
if on == '1' then
  redis.call('HSET', strikes_key(), strike, digits(now_ms) .. ' ' .. said)
  return {'struck'}
end
redis.call('HDEL', strikes_key(), strike)
-- Those that were put aside go back to their lines, a page a turn.
if redis.call('EXISTS', gate_key('s:' .. strike)) == 1 then redis.call('ZADD', gates_key(), digits(now_ms), 's:' .. strike) end
redis.pcall('PUBLISH', bell_key(), '1')
return {'lifted'}
