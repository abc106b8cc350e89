-- Record what a person verified of an unknown transition: it happened, or it was not executed. Once.
-- ARGV  op request_id expect:digits verified by reason presumed_ms:int override body
-- REPLY released already held lapsed alive open terminal changed missing corrupt
-- WRITES row args result line rota waiting queues gate running delayed expiring asked unknown meta states counters events share ticket aliases tools
-- INCLUDE prelude keys line record rerun past
local r, why = read_named(request_id)
if not r then return {why, ''} end
local last = redis.call('HMGET', row_key(r.id), 'release_op', 'resolution', 'resolved_fence', 'ended', 'unknown_ms')
-- The release that was recorded and whose reply was lost finds itself in the row.
if last[1] == op then return {'released', r.state} end
if HELD[r.state] then
  local standing = standing_of(r.session)
  return {standing == 'held' and 'held' or (standing == 'grace' and 'alive' or 'lapsed'), r.state}
end
-- What was verified of an attempt holds for it: whoever comes second hears so. Only a later attempt can be in doubt again.
if last[2] and last[3] == r.fence then return {'already', r.state} end
if r.state ~= 'unknown' then return {TERMINAL[r.state] and 'terminal' or 'open', r.state} end
if digits(r.n) ~= expect then return {'changed', r.state} end
-- That it was not executed holds only where nothing of it can be sent any more (R3). Of an attempt before the last one nobody
-- told how it ended: there only time counts.
local over = last[4] == '1' and r.doubt ~= '1' or now_ms - tonumber(last[5] or '0') >= presumed_ms
if verified == 'not_executed' and not over then
  if override ~= '1' then return {'alive', r.state} end
  reason = reason .. ' [heartbeat overridden]'
end

local changes = {
  past = past_with(r, 'release', {'resolution', 'resolved_by', 'resolution_reason', 'resolved_ms', 'released_from'}),
  release_op = op, resolution = verified, resolved_by = by, resolution_reason = reason, resolved_ms = digits(now_ms),
  released_from = r.state, evidence = reason,
}
count('released_by_operator')
if verified == 'completed' then
  redis.call('ZREM', unknown_key(r.tool), r.id)
  changes.error = ''
  changes.said = ''
  changes.boundary = 'crossed'
  finish(r, 'completed', 'operator', body, changes)
else
  run_again(r, 'operator', changes)
end
redis.call('HSET', row_key(r.id), 'resolved_fence', r.fence)
flush()
return {'released', r.state}
