-- Record what a provider said of an unknown transition, if it is still the one that was asked about.
-- ARGV  request_id fence:digits said by evidence asks next_ms:int window_ms:int body
-- REPLY settled refused missing corrupt window
-- WRITES row args result line rota waiting queues gate running delayed expiring asked unknown meta states counters events share ticket aliases tools
-- INCLUDE prelude keys line record rerun
local r, why = read(request_id)
if not r then return {why, ''} end
-- The verdict that was recorded and whose reply was lost finds itself in the row.
local told = said .. ' ' .. by .. ' ' .. fence
if r.state ~= 'unknown' or r.fence ~= fence then
  local last = redis.call('HGET', row_key(request_id), 'told')
  return {last == told and 'settled' or 'refused', r.state}
end
-- E6: only a keyed class is sent again by itself, with the same key, inside the window that the tool declares.
local resend = said == 'resend'
-- A first dispatch in the future says that the clock was set back, and by how much nobody knows.
local age_ms = r.first and now_ms - tonumber(r.first)
local young = age_ms and age_ms >= 0 and age_ms < window_ms
-- What nobody queued would wait, ready and in doubt, for a caller who may never come: that one asks for it by itself.
-- And what was cancelled, or is past its deadline, is not sent again to find out.
if resend and (stop_word(r) or not (r.class == 'keyed_mutate' and young and r.attempts < r.max_attempts and r.queued ~= '0'
    and redis.call('HEXISTS', row_key(r.id), 'key') == 1)) then
  return {'window', r.state}
end

local function rerun(auth)
  if r.attempts >= r.max_attempts then
    redis.call('ZREM', unknown_key(r.tool), request_id)
    -- Proved not executed, and no attempt left: that is a failure, and a true one.
    return finish(r, 'failed', 'verdict', body, {told = told, evidence = evidence, said = '', error = 'NotExecuted'})
  end
  run_again(r, auth, {told = told, evidence = evidence})
end

if said == 'completed' then
  redis.call('ZREM', unknown_key(r.tool), request_id)
  finish(r, 'completed', 'verdict', body, {told = told, evidence = evidence, said = '', error = '', boundary = 'crossed'})
elseif said == 'not_executed' then
  rerun('verdict')
elseif resend then
  rerun('key')
else
  -- Sent again after a lost reply, or said by two at once: one asking counts once.
  if redis.call('HGET', row_key(request_id), 'asks') ~= asks then return {'settled', r.state} end
  redis.call('HINCRBY', row_key(request_id), 'asks', 1)
  redis.call('HSET', row_key(request_id), 'said', evidence)
  redis.call('ZADD', unknown_key(r.tool), digits(now_ms + next_ms), request_id)
end
count('verdict_' .. said)
if said ~= 'unknown' then count('reconciled') end
flush()
return {'settled', r.state}
