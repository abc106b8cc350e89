-- Prolongs a session that is still alive; one write, whatever it holds.
-- ARGV  session epoch:int ttl_ms:int
-- REPLY renewed lost epoch
-- WRITES session sessions
-- INCLUDE prelude keys

local known = redis.call('HGET', meta_key(), 'epoch')
if not known or tonumber(known) ~= epoch then
  return {'epoch', 0}
end

local deadline = tonumber(redis.call('ZSCORE', sessions_key(), session) or 0)
local there = redis.call('HMGET', session_key(session), 'boot', 'dead')
if deadline <= now_ms or not there[1] or there[2] then
  return {'lost', 0}
end

-- HDEL goes first, for a field that is never there: a full server refuses commands that may grow (ZADD is one) only until a
-- script has written, and a renewal needs no memory.
redis.call('HDEL', session_key(session), '-')
redis.call('ZADD', sessions_key(), digits(math.max(deadline, now_ms + ttl_ms)), session)
return {'renewed', redis.call('HLEN', held_key(session))}
