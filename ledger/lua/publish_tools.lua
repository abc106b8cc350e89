-- Say which tools a worker can run, for people and for listings; nothing is decided by it.
-- EACH  known: tool descriptor
-- REPLY ok
-- WRITES tools
-- INCLUDE prelude keys
for tool, descriptor in each(known) do redis.call('HSET', tools_key(), tool, descriptor) end
return {'ok'}
