-- Ends a session in good order; only one that holds nothing.
-- ARGV  session
-- REPLY closed holding gone
-- WRITES session sessions counters
-- INCLUDE prelude keys

local there = redis.call('HMGET', session_key(session), 'boot', 'dead')
if not there[1] or there[2] then
  return {'gone', 0}
end

local holding = redis.call('HLEN', held_key(session))
if holding > 0 then
  return {'holding', holding}
end

-- DEL goes first: it frees memory, and lets what follows run on a full server.
redis.call('DEL', session_key(session))
redis.call('ZREM', sessions_key(), session)
redis.call('HINCRBY', counters_key(), 'sessions_closed', 1)
return {'closed', 0}
