-- Hand out a page of the unknown transitions whose provider is due to be asked, and put off their next asking.
-- ARGV  page:int put_off_ms:int
-- EACH  known: tool
-- REPLY ok
-- WRITES unknown
-- INCLUDE prelude keys line record
local reply = {'ok', digits(now_ms)}
local left = page
for tool in each(known) do
  local ids = left > 0 and redis.call('ZRANGEBYSCORE', unknown_key(tool), '-inf', now_ms, 'LIMIT', 0, left) or {}
  for _, id in ipairs(ids) do
    local r = read(id)
    if r and r.state == 'unknown' then
      -- Asking twice is harmless (R1); the put-off only keeps many reconcilers from asking at once.
      redis.call('ZADD', unknown_key(tool), digits(now_ms + put_off_ms), id)
      local more = redis.call('HMGET', row_key(id), 'ref', 'unknown_ms', 'ended', 'asks', 'key')
      for _, value in ipairs({id, r.fence, tool, r.class, r.effect, digits(r.attempts)}) do reply[#reply + 1] = value end
      for at = 1, 5 do reply[#reply + 1] = more[at] or '' end
      reply[#reply + 1] = r.first or ''
      reply[#reply + 1] = redis.call('MGET', args_key(id))[1] or ''
      left = left - 1
    else
      redis.call('ZREM', unknown_key(tool), id)
    end
  end
end
return reply
