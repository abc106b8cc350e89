-- How a row that was unknown comes to run once more: on a verdict, on a person's word, or with the provider's key.

-- `auth` is who allowed it; it is told in the row and with the next claim.
local function run_again(r, auth, changes)
  redis.call('ZREM', unknown_key(r.tool), r.id)
  -- Proved not executed: nothing was ever sent under the key, and its window begins with the next dispatch.
  if auth ~= 'key' then redis.call('HDEL', row_key(r.id), 'first') end
  -- The fence moves first, so that nothing the old attempt still sends to the store is taken for the new one's (R5, R6).
  changes.fence = digits(redis.call('HINCRBY', meta_key(), 'fence', 1))
  changes.auth = auth
  changes.said = ''
  changes.boundary = 'not_crossed'
  changes.doubt = auth == 'key' and '1' or ''
  r.fence = changes.fence
  make_ready(r, auth, changes)
end
