-- Take a person's word that the holder of a transition is dead.
-- ARGV  op request_id by reason presumed_ms:int override
-- REPLY declared alive over nobody terminal missing corrupt
-- WRITES row args result line rota waiting queues gate running delayed expiring asked unknown held session tools meta states counters events share ticket aliases
-- INCLUDE prelude keys line record past
local r, why = read_named(request_id)
if not r then return {why, '', ''} end
local last = redis.call('HMGET', row_key(r.id), 'dead_op', 'ended', 'unknown_ms')
-- The word that was taken and whose reply was lost finds itself in the row.
if last[1] == op then return {'declared', r.state, ''} end
if TERMINAL[r.state] then return {'terminal', r.state, ''} end
if not HELD[r.state] and r.state ~= 'unknown' then return {'nobody', r.state, ''} end
if r.state == 'unknown' and last[2] == '1' then return {'over', r.state, ''} end

-- Of an unknown row nothing was heard since it became unknown; a holder is heard with each renewal.
local silent_ms, lapsed, known = now_ms - tonumber(last[3] or '0'), true, {}
if HELD[r.state] then
  local deadline = redis.call('ZSCORE', sessions_key(), r.session)
  known = redis.call('HMGET', session_key(r.session), 'ttl_ms', 'dead', 'epoch')
  -- What was declared dead before, or is gone, has nothing to say.
  silent_ms = presumed_ms
  if deadline and not known[2] then
    silent_ms = now_ms - (tonumber(deadline) - tonumber(known[1] or '0'))
    lapsed = tonumber(deadline) <= now_ms
  end
end
if not lapsed or silent_ms < presumed_ms then
  if override ~= '1' then return {'alive', r.state, digits(math.max(0, silent_ms))} end
  reason = reason .. ' [heartbeat overridden]'
end

local changes = {
  past = past_with(r, 'dead', {'dead_by', 'dead_reason', 'dead_ms'}),
  dead_op = op, dead_by = by, dead_reason = reason, dead_ms = digits(now_ms), ended = '1',
}
count('declared_dead')
if r.state == 'unknown' then
  local write = {}
  for field, value in pairs(changes) do
    write[#write + 1] = field
    write[#write + 1] = value
  end
  redis.call('HSET', row_key(r.id), unpack(write))
  note(r, 'declared-dead')
else
  redis.call('HDEL', held_key(r.session), '', r.id)
  -- All that the session holds is lost with it: it can be renewed no more, and whoever sweeps finds it dead.
  if redis.call('ZSCORE', sessions_key(), r.session) then
    redis.call('HSET', session_key(r.session), 'dead', digits(now_ms), 'ended', '1')
  end
  lose(r, 'declared-dead', changes, (known[3] or r.epoch) ~= redis.call('HGET', meta_key(), 'epoch'), '')
end
flush()
return {'declared', r.state, ''}
