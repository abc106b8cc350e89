-- Take one transition from a holder that has ended, and give it what its class and boundary say.
-- ARGV  request_id
-- REPLY taken held grace free missing corrupt
-- WRITES row args result line rota waiting queues gate running delayed expiring asked unknown held tools meta states counters events share ticket aliases
-- INCLUDE prelude keys line record
local r, why = read_named(request_id)
if not r then return {why} end
if not HELD[r.state] then return {'free'} end
local standing = standing_of(r.session)
if standing ~= 'dead' then return {standing} end
local known = redis.call('HMGET', session_key(r.session), 'epoch', 'ended')
local history_lost = (known[1] or r.epoch) ~= redis.call('HGET', meta_key(), 'epoch')
redis.call('HDEL', held_key(r.session), '', r.id)
lose(r, 'session-lost', {ended = known[2] == '1' and '1' or '0'}, history_lost, '')
count('expired')
flush()
return {'taken'}
