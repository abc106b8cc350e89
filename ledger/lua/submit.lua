-- Record intended effects and queue them; the same effect joins, another effect under the same id is refused.
-- ARGV  op client
-- EACH  job: id effect tool effect_class mode max_attempts max_deaths delay_ms keep keep_result run step call asked body
-- REPLY ok epoch created joined conflict corrupt
-- WRITES row args ready delayed meta states counters events
-- INCLUDE prelude keys record
local epoch = redis.call('HGET', meta_key(), 'epoch')
if not epoch then return {'epoch'} end

local seen = {}

local function join(id, effect)
  local r, why = read(id)
  if not r then return why end
  if r.effect ~= effect then
    count('conflicts')
    return 'conflict', r
  end
  -- The reply to the submit that made this row was lost: the answer stays `created`.
  if r.op == op and not seen[id] then return 'created', r end
  if not TERMINAL[r.state] then
    local waiters = r.waiters or ''
    local known = string.find(' ' .. waiters .. ' ', ' ' .. client .. ' ', 1, true)
    local _, waiting = string.gsub(waiters, '%S+', '')
    -- Past the bound a client finds its result by the poll that never depends on being told.
    if not known and client ~= '' and waiting < 16 then
      redis.call('HSET', row_key(id), 'waiters', (waiters == '') and client or (waiters .. ' ' .. client))
    end
  end
  count('joined')
  return 'joined', r
end

local reply = {'ok'}
local queued = {}
for id, effect, tool, effect_class, mode, max_attempts, max_deaths, delay_ms, keep, keep_result,
  run, step, call, asked, body in each(job) do
  local word, r = join(id, effect)
  if word == 'missing' then
    word = 'created'
    r = {id = id, n = 0, fence = '0', keep = keep, waiters = client}
    redis.call('SET', args_key(id), body)
    local later = tonumber(delay_ms) > 0
    move(r, later and 'delayed' or 'ready', 'submit', {
      effect = effect, tool = tool, class = effect_class, mode = mode, fence = '0', boundary = 'not_crossed', session = '',
      attempts = '0', fails = '0', deaths = '0', max_attempts = max_attempts, max_deaths = max_deaths,
      keep = keep, keep_result = keep_result, op = op, waiters = client, created_ms = digits(now_ms),
      run = run, step = step, call = call, asked = asked,
    })
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
  reply[#reply + 1] = r and r.state or ''
end
for tool, ids in pairs(queued) do redis.call('RPUSH', ready_key(tool), unpack(ids)) end
flush()
return reply
