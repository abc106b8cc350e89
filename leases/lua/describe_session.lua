-- Writes anew what the holder of an open session says of itself: for people, compared with nothing.
-- ARGV  session info
-- REPLY told gone
-- WRITES session
-- INCLUDE prelude keys

local there = redis.call('HMGET', session_key(session), 'boot', 'dead')
if not there[1] or there[2] then
  return {'gone', 0}
end

redis.call('HSET', session_key(session), 'info', info)
return {'told', 0}
