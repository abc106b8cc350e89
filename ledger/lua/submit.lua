-- Record intended effects and queue them; the same effect joins, another effect under the same id is refused.
-- ARGV  op client
-- EACH  job: id effect ticket share drift tool effect_class mode again max_attempts max_deaths delay_ms keep keep_result about asked key body
-- REPLY ok epoch created joined conflict drift corrupt
-- WRITES row args ready delayed meta states counters events share ticket aliases
-- INCLUDE prelude keys record identity
local epoch = redis.call('HGET', meta_key(), 'epoch')
if not epoch then return {'epoch'} end

local seen = {}

local function join(id, effect, ticket, share, drift, body)
  local r, how, other = find(id, effect, ticket, share, drift)
  if not r then
    if how == 'conflict' or how == 'drift' then count('conflicts') end
    return how, other
  end
  -- The reply to the submit that made this row was lost: the answer stays `created`.
  if r.op == op and how == 'same' and not seen[id] then return 'created', r end
  if how == 'link' then link(id, r, effect) end
  -- What was claimed in process and is asked for as a job is one from here on: when it is ready, a worker may have it.
  if r.queued == '0' and not TERMINAL[r.state] then
    r.queued = '1'
    redis.call('HSET', row_key(r.id), 'queued', '1')
    -- A worker reads arguments from here; what runs in process need not have left any that it can read.
    redis.call('SET', args_key(r.id), body, 'NX')
    if r.state == 'ready' then
      redis.call('RPUSH', ready_key(r.tool), r.id)
      bell_rings = true
    end
  end
  await(r, client)
  count('joined')
  return 'joined', r
end

local reply = {'ok'}
local queued = {}
for id, effect, ticket, share, drift, tool, effect_class, mode, again, max_attempts, max_deaths, delay_ms, keep,
  keep_result, about, asked, key, body in each(job) do
  local word, r = join(id, effect, ticket, share, drift, body)
  if word == 'missing' then
    word = 'created'
    r = {id = id, n = 0, fence = '0', keep = keep, waiters = client, effect = effect}
    redis.call('SET', args_key(id), body)
    local later = tonumber(delay_ms) > 0
    local changes = {
      effect = effect, tool = tool, class = effect_class, mode = mode, fence = '0', boundary = 'not_crossed', session = '',
      attempts = '0', fails = '0', deaths = '0', max_attempts = max_attempts, max_deaths = max_deaths,
      keep = keep, keep_result = keep_result, op = op, created_ms = digits(now_ms),
    }
    -- What is empty or no takes no room.
    if client ~= '' then changes.waiters = client end
    if about ~= '' then changes.about = about end
    if asked == '1' then changes.asked = asked end
    if again == '0' then changes.again = again end
    if key ~= '' then changes.key = key end
    name(r, ticket, share, changes)
    move(r, later and 'delayed' or 'ready', 'submit', changes)
    count('submitted')
    if later then
      redis.call('ZADD', delayed_key(), digits(now_ms + tonumber(delay_ms)), id)
    else
      queued[tool] = queued[tool] or {}
      table.insert(queued[tool], id)
      bell_rings = true
    end
  end
  seen[id] = true
  reply[#reply + 1] = word
  reply[#reply + 1] = r and r.id or id
  reply[#reply + 1] = r and r.state or ''
end
for tool, ids in pairs(queued) do redis.call('RPUSH', ready_key(tool), unpack(ids)) end
flush()
return reply
