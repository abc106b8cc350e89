-- Keep how far running attempts say they have come; told by their holder only.
-- ARGV  session
-- EACH  item: id fence:digits told
-- REPLY ok told stale
-- WRITES row
-- INCLUDE prelude keys
local reply = {'ok'}
for id, fence, told in each(item) do
  local known = redis.pcall('HMGET', row_key(id), 'state', 'fence', 'session')
  local mine = not known.err and known[1] == 'attempting' and known[2] == fence and known[3] == session
  if mine then redis.call('HSET', row_key(id), 'progress', digits(now_ms) .. ' ' .. told) end
  reply[#reply + 1] = mine and 'told' or 'stale'
end
return reply
