-- Move the place up to which receipts follow the ledger, unless somebody else has moved it.
-- ARGV  expect to
-- REPLY moved elsewhere
-- WRITES meta
-- INCLUDE prelude keys
local at = redis.call('HGET', meta_key(), 'followed') or ''
-- The move whose reply was lost finds itself done.
if at == to then return {'moved'} end
if at ~= expect then return {'elsewhere'} end
redis.call('HSET', meta_key(), 'followed', to)
return {'moved'}
