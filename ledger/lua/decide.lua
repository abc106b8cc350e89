-- Record what was decided about a claimed transition: it may be attempted, or it is denied and has failed without an effect.
-- ARGV  session epoch:digits op request_id fence:digits allowed decision boundary
-- REPLY decided denied before stale lost epoch missing corrupt
-- WRITES row args result unknown held meta states counters events share ticket aliases line rota waiting queues gate running asked expiring tools
-- INCLUDE prelude keys line record
local barred = barred_word(session, epoch)
if barred then return {barred} end
local r, why = read_named(request_id)
if not r then return {why} end
if r.fence ~= fence then return {'stale'} end
-- The decision that was recorded and whose reply was lost finds itself in the row.
local last = redis.call('HMGET', row_key(r.id), 'decide_op', 'decision')
if last[1] == op then return {allowed == '1' and 'decided' or 'denied'} end
if r.session ~= session then return {'stale'} end
if r.state ~= 'claimed' then return {last[2] and r.state == 'attempting' and 'before' or 'stale'} end
if RANK[boundary] == nil then return {'stale'} end

local changes = {decision = decision, decide_op = op}
if allowed == '1' then
  if boundary == 'maybe_crossed' then
    changes.boundary = boundary
    if not r.first then changes.first = digits(now_ms) end
    count('marked')
  end
  move(r, 'attempting', 'decided', changes)
  flush()
  return {'decided'}
end
redis.call('HDEL', held_key(session), '', r.id)
changes.error = 'Denied'
changes.ended = '1'
finish(r, 'failed', 'denied', '', changes)
count('denied')
flush()
return {'denied'}
