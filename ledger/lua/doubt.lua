-- Put a ready row that may have been sent, and may not be sent again, where unknown ones are looked after.
-- ARGV  request_id expect:digits error
-- REPLY unknown changed missing corrupt
-- WRITES row result unknown tools meta states counters events line rota waiting queues gate running
-- INCLUDE prelude keys line record
local r, why = read_named(request_id)
if not r then return {why} end
-- Sent again after a lost reply, it is there already.
if r.state == 'unknown' then return {'unknown'} end
if r.state ~= 'ready' or r.doubt ~= '1' or digits(r.n) ~= expect then return {'changed'} end
make_unknown(r, 'unsendable', {error = error}, '')
flush()
return {'unknown'}
