-- Opens a session: a holder's lease on being alive.
-- ARGV  session epoch:int boot ttl_ms:int grace_ms:int name info
-- REPLY opened epoch taken
-- WRITES session sessions
-- INCLUDE prelude keys

local known = redis.call('HGET', meta_key(), 'epoch')
if not known or tonumber(known) ~= epoch then
  return {'epoch', known or '0'}
end

local there = redis.call('HMGET', session_key(session), 'boot', 'dead')
if there[1] then
  -- The same boot again is a lost reply; its deadline stays, so that asking twice prolongs nothing.
  if there[1] == boot and not there[2] then
    return {'opened', known}
  end
  return {'taken', known}
end

redis.call('HSET', session_key(session), 'boot', boot, 'name', name, 'epoch', known, 'opened_ms', digits(now_ms),
  'ttl_ms', digits(ttl_ms), 'grace_ms', digits(grace_ms), 'info', info)
redis.call('ZADD', sessions_key(), digits(now_ms + ttl_ms), session)
return {'opened', known}
