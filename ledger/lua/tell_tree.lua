-- Keeps what a worker tells of its actors, for people, until a while after its last word; nothing is decided by it.
-- ARGV  session every_ms:int keep_ms:int body
-- REPLY told gone
-- WRITES tree
-- INCLUDE prelude keys

local there = redis.call('HMGET', session_key(session), 'boot', 'dead')
if not there[1] or there[2] then
  return {'gone'}
end

redis.call('HSET', tree_key(session), 'told_ms', digits(now_ms), 'every_ms', digits(every_ms), 'body', body)
redis.call('PEXPIRE', tree_key(session), digits(keep_ms))
return {'told'}
