-- Let a transition that ended without an effect run again, as a person asks: its counts begin anew, its history goes on.
-- ARGV  op request_id by reason
-- REPLY requeued open completed forgotten missing corrupt
-- WRITES row meta line rota waiting queues states counters events share ticket aliases args delayed
-- INCLUDE prelude keys line record
local r, why = read_named(request_id)
if not r then return {why, '', ''} end
if redis.call('HGET', row_key(r.id), 'requeue_op') == op then return {'requeued', r.id, r.state} end
if not TERMINAL[r.state] then return {'open', r.id, r.state} end
if r.state == 'completed' then return {'completed', r.id, r.state} end
if redis.call('EXISTS', args_key(r.id)) == 0 then return {'forgotten', r.id, r.state} end

-- What stopped it stops it no more.
redis.call('HDEL', row_key(r.id), 'cancel', 'cancel_op', 'cancel_reason', 'cancel_ms', 'cause', 'start_by', 'deadline', 'first')
r.cancel, r.start_by, r.deadline = nil, nil, nil
-- The fence moves, so that nothing an old attempt still sends is taken for the new one's.
r.fence = digits(redis.call('HINCRBY', meta_key(), 'fence', 1))
-- Who asks for it as a job wants a worker to have it.
r.queued = '1'
make_ready(r, 'requeued', {
  fence = r.fence, queued = '1', boundary = 'not_crossed', fails = '0', deaths = '0', timeouts = '0', attempts = '0', error = '',
  doubt = '',
  auth = 'operator', requeue_op = op, requeued_by = by, requeue_reason = reason, requeued_ms = digits(now_ms),
})
count('requeued')
flush()
return {'requeued', r.id, r.state}
