-- Take a page of what a lapsed session held and give each row what its class and boundary say.
-- ARGV  session page:int
-- REPLY alive more expired gone
-- WRITES row args result line rota waiting queues gate running delayed expiring asked unknown held session sessions meta states counters events share ticket aliases tools
-- INCLUDE prelude keys line record
local deadline = redis.call('ZSCORE', sessions_key(), session)
if not deadline then return {'gone', 0} end
local mine = redis.call('HMGET', session_key(session), 'dead', 'epoch', 'ended')
if standing_of(session) ~= 'dead' then return {'alive', 0} end

-- From here on no renewal can bring the session back, not even if the server's clock steps backwards between two pages.
redis.call('HDEL', session_key(session), '')
redis.call('HSET', session_key(session), 'dead', digits(now_ms))

local history_lost = mine[2] ~= redis.call('HGET', meta_key(), 'epoch')
local page_of = redis.call('HRANDFIELD', held_key(session), page, 'WITHVALUES')
local gone, taken = {}, 0
for at = 1, #page_of, 2 do
  local id, fence = page_of[at], page_of[at + 1]
  gone[#gone + 1] = id
  local r = read(id)
  if r and r.fence == fence and r.session == session and (r.state == 'claimed' or r.state == 'attempting') then
    -- The holder may be frozen, not dead: nothing says yet that it can send no more, unless a person said so.
    lose(r, 'session-lost', {ended = mine[3] == '1' and '1' or '0'}, history_lost, '')
    count('expired')
    taken = taken + 1
  end
end
if #gone > 0 then redis.call('HDEL', held_key(session), unpack(gone)) end
local word = 'more'
if redis.call('HLEN', held_key(session)) == 0 then
  word = 'expired'
  redis.call('ZREM', sessions_key(), session)
  redis.call('DEL', session_key(session), held_key(session), asked_key(session))
  count('sessions_lost')
end
flush()
return {word, taken}
