-- Cancel a transition: what nobody holds is cancelled, what is held is asked to stop, what may have been sent is found out.
-- ARGV  op request_id by reason
-- REPLY cancelled asked unknown ended missing corrupt
-- WRITES row args result unknown asked tools line rota waiting gate delayed expiring meta states counters events share ticket aliases queues running
-- INCLUDE prelude keys line record
local r, why = read_named(request_id)
if not r then return {why, '', ''} end
if TERMINAL[r.state] then
  -- The order that was taken and whose reply was lost finds itself in the row.
  local mine = r.state == 'cancelled' and redis.call('HGET', row_key(r.id), 'cancel_op') == op
  return {mine and 'cancelled' or 'ended', r.id, r.state}
end
local first = not r.cancel
local order = {cancel = by, cancel_op = op, cancel_reason = reason, cancel_ms = digits(now_ms)}
r.cancel = by
if HELD[r.state] or r.state == 'unknown' then
  if first then
    local write = {}
    for field, value in pairs(order) do
      write[#write + 1] = field
      write[#write + 1] = value
    end
    redis.call('HDEL', row_key(r.id), '')
    redis.call('HSET', row_key(r.id), unpack(write))
    note(r, 'cancel-asked')
    count('cancels_asked')
  end
  if r.state == 'unknown' then
    flush()
    return {'unknown', r.id, r.state}
  end
  -- Its holder is told with each turn that it takes.
  redis.call('HSET', asked_key(r.session), r.id, r.fence)
  flush()
  redis.pcall('PUBLISH', bell_key(), 'cancel')
  return {'asked', r.id, r.state}
end
redis.call('HDEL', row_key(r.id), '')
stop(r, 'cancelled', order)
flush()
return {r.state == 'cancelled' and 'cancelled' or 'unknown', r.id, r.state}
