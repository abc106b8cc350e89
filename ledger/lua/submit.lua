-- Record intended effects and queue them; the same effect joins, another effect under the same id is refused.
-- ARGV  op client
-- EACH  job: id effect ticket share drift tool effect_class mode again max_attempts max_deaths max_timeouts line limits facets start_by deadline run due keep keep_result about asked key body
-- REPLY ok epoch created joined conflict drift corrupt late
-- WRITES row args delayed expiring line rota waiting queues meta states counters events share ticket aliases
-- INCLUDE prelude keys line record identity
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
    if r.state == 'ready' then stand(r) end
  end
  await(r, client)
  count('joined')
  return 'joined', r
end

-- An instant is the server's: `+n` is so many milliseconds from now, `n` an absolute one, nothing is none.
local function instant(text)
  if text == '' then return nil end
  if string.sub(text, 1, 1) == '+' then return now_ms + tonumber(string.sub(text, 2)) end
  return tonumber(text)
end

local reply = {'ok'}
for id, effect, ticket, share, drift, tool, effect_class, mode, again, max_attempts, max_deaths, max_timeouts, line, limits,
  facets, start_by, deadline, run, due, keep, keep_result, about, asked, key, body in each(job) do
  local word, r = join(id, effect, ticket, share, drift, body)
  local due_ms, start_by_ms, deadline_ms = instant(due), instant(start_by), instant(deadline)
  local ends_ms = math.min(start_by_ms or math.huge, deadline_ms or math.huge)
  if word == 'missing' and ends_ms <= math.max(now_ms, due_ms or 0) then
    word = 'late'
  elseif word == 'missing' then
    word = 'created'
    r = {
      id = id, n = 0, fence = '0', keep = keep, waiters = client, effect = effect, tool = tool, line = line, attempts = 0,
      limits = limits ~= '' and limits or nil, deadline = deadline_ms and digits(deadline_ms),
      start_by = start_by_ms and digits(start_by_ms),
    }
    redis.call('SET', args_key(id), body)
    local later = due_ms and due_ms > now_ms
    local changes = {
      effect = effect, tool = tool, class = effect_class, mode = mode, fence = '0', boundary = 'not_crossed', session = '',
      attempts = '0', fails = '0', deaths = '0', max_attempts = max_attempts, max_deaths = max_deaths,
      max_timeouts = max_timeouts, line = line, keep = keep, keep_result = keep_result, op = op, created_ms = digits(now_ms),
    }
    -- What is empty or no takes no room.
    if client ~= '' then changes.waiters = client end
    if about ~= '' then changes.about = about end
    if asked == '1' then changes.asked = asked end
    if again == '0' then changes.again = again end
    if key ~= '' then changes.key = key end
    if facets ~= '' then changes.facets = facets end
    if run ~= '' then changes.run = run end
    changes.limits, changes.start_by, changes.deadline = r.limits, r.start_by, r.deadline
    if changes.limits or changes.start_by or changes.deadline or changes.run then changes.more = '1' end
    name(r, ticket, share, changes)
    move(r, later and 'delayed' or 'ready', 'submit', changes)
    count('submitted')
    if later then redis.call('ZADD', delayed_key(), digits(due_ms), id) else stand(r) end
    if ends_ms < math.huge then redis.call('ZADD', expiring_key(), digits(ends_ms), id) end
  end
  seen[id] = true
  reply[#reply + 1] = word
  reply[#reply + 1] = r and r.id or id
  reply[#reply + 1] = r and r.state or ''
end
flush()
return reply
