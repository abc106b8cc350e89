-- Founds an empty data set, adopts one, or begins a new epoch where another server run holds the data.
-- ARGV  run_id
-- REPLY founded adopted advanced schema
-- WRITES meta
-- INCLUDE prelude keys

local known = redis.call('HMGET', meta_key(), 'epoch', 'run_id', 'fence', 'schema')
local epoch, last_run, fence, schema = known[1], known[2], known[3], known[4]

if epoch and schema ~= '1' then
  return {'schema', epoch, fence or '0', schema or ''}
end
-- A server that does not name its run cannot be told from the last one.
if epoch and (run_id == '' or run_id == last_run) then
  return {'adopted', epoch, fence, schema}
end

-- Fences start at microseconds: they grow over a total loss too, as nobody claims a million a second for ever. They are
-- compared as text, since they may pass what a Lua number holds.
local micros = digits(now_ms * 1000)
if not fence or #micros > #fence or (#micros == #fence and micros > fence) then
  fence = micros
end

-- HDEL goes first, for a field that is never there: a full server refuses commands that may grow only until a script has
-- written, and the new epoch must not wait for memory.
redis.call('HDEL', meta_key(), '-')
if not epoch then
  redis.call('HSET', meta_key(), 'epoch', '1', 'run_id', run_id, 'fence', fence, 'seq', '0', 'schema', '1')
  return {'founded', '1', fence, '1'}
end
epoch = digits(tonumber(epoch) + 1)
redis.call('HSET', meta_key(), 'epoch', epoch, 'run_id', run_id, 'fence', fence)
return {'advanced', epoch, fence, schema}
