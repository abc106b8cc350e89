-- The record of one transition: how it is read, how it moves, and who is told.

local FIELDS = {
  'state', 'fence', 'tool', 'class', 'mode', 'boundary', 'session', 'n', 'attempts', 'fails', 'deaths',
  'max_attempts', 'max_deaths', 'keep', 'keep_result', 'waiters', 'effect', 'op', 'first', 'epoch', 'doubt', 'again',
  'queued', 'share', 'line', 'cancel', 'timeouts', 'max_timeouts', 'more',
}
-- What few rows have; `more` says that there is one of it.
local SELDOM = {'limits', 'start_by', 'deadline', 'run', 'spent'}
local TERMINAL = {completed = true, failed = true, cancelled = true, dead = true}
local HELD = {claimed = true, attempting = true}
local REPEATABLE = {read = true, idempotent_mutate = true}
local RANK = {not_crossed = 0, maybe_crossed = 1, crossed = 2}
-- From the laxest to the strictest: where a row and a worker differ, the stricter of the two holds.
local CLASS = {read = 0, idempotent_mutate = 1, keyed_mutate = 2, non_idempotent_mutate = 3, irreversible = 4}
local MODE = {none = 0, explicit = 1, automatic = 2}
local HISTORY = 64
local EVENTS = 100000

local deltas, counts, moves, notices, spent = {}, {}, {}, {}, {}

local function count(name, by)
  counts[name] = (counts[name] or 0) + (by or 1)
end

-- Whether a row's class lets it run again though it may have had its effect; a tool may have declared that it must not.
local function repeats(r)
  return REPEATABLE[r.class] and r.again ~= '0'
end

-- Reads a row, or says why not: a missing row is never "free", and a row that no script of ours wrote is never acted on. A
-- request id that joined the row of another one answers that one's id as well.
local function read(id)
  local raw = redis.pcall('HMGET', row_key(id), unpack(FIELDS))
  if raw.err then return nil, 'corrupt' end
  local r = {id = id}
  for at, field in ipairs(FIELDS) do r[field] = raw[at] end
  if not r.state then
    if redis.call('EXISTS', row_key(id)) == 0 then return nil, 'missing' end
    local canonical = redis.call('HGET', row_key(id), 'alias')
    return nil, canonical and 'alias' or 'corrupt', canonical
  end
  for _, field in ipairs({'n', 'attempts', 'fails', 'deaths', 'max_attempts', 'max_deaths'}) do
    r[field] = tonumber(r[field])
    if not r[field] then return nil, 'corrupt' end
  end
  r.timeouts = tonumber(r.timeouts or '0')
  r.max_timeouts = tonumber(r.max_timeouts or r.max_attempts)
  r.line = r.line or 'default:2:' .. tostring(r.tool) .. ':'
  if not (r.timeouts and r.max_timeouts and parts_of(r.line)) then return nil, 'corrupt' end
  if r.more then
    local seldom = redis.call('HMGET', row_key(id), unpack(SELDOM))
    for at, field in ipairs(SELDOM) do r[field] = seldom[at] or nil end
    if not (tonumber(r.start_by or '0') and tonumber(r.deadline or '0')) then return nil, 'corrupt' end
  end
  if not (r.fence and r.tool and r.effect and CLASS[r.class] and MODE[r.mode] and RANK[r.boundary] and tonumber(r.keep or '')
      and tonumber(r.keep_result or '') and tonumber(r.first or '0')) then
    return nil, 'corrupt'
  end
  if HELD[r.state] and (r.session or '') == '' then return nil, 'corrupt' end
  return r
end

-- Reads the row that a request id names, its own or the one that it joined.
local function read_named(id)
  local r, why, canonical = read(id)
  if why == 'alias' then return read(canonical) end
  return r, why
end

-- Why a session may start nothing more: `epoch` where the data set has changed, `lost` where it has ended; nil: it may.
local function barred_word(session, epoch)
  if redis.call('HGET', meta_key(), 'epoch') ~= epoch then return 'epoch' end
  local deadline = redis.call('ZSCORE', sessions_key(), session)
  if not deadline or tonumber(deadline) <= now_ms or redis.call('HGET', session_key(session), 'dead') then return 'lost' end
end

local function history(r, what, why, write)
  r.n = r.n + 1
  if r.n > HISTORY then redis.call('HDEL', row_key(r.id), 'h' .. digits(r.n - HISTORY)) end
  write[#write + 1] = 'n'
  write[#write + 1] = digits(r.n)
  write[#write + 1] = 'h' .. digits(r.n)
  write[#write + 1] = digits(now_ms) .. ' ' .. what .. ' ' .. r.fence .. ' ' .. why
end

-- What names a row beside its own key goes when the row goes.
local function let_go(r)
  redis.call('PEXPIRE', share_key(r.share), r.keep)
  local ticket = redis.call('HGET', row_key(r.id), 'ticket')
  if ticket then redis.call('PEXPIRE', ticket_key(ticket), r.keep) end
  for _, alias in ipairs(redis.call('SMEMBERS', aliases_key(r.id))) do redis.call('PEXPIRE', row_key(alias), r.keep) end
  redis.call('PEXPIRE', aliases_key(r.id), r.keep)
end

-- A row that ended and is taken up again stays for as long as it is open.
local function hold_on(r)
  redis.call('PERSIST', row_key(r.id))
  redis.call('PERSIST', args_key(r.id))
  if not r.share then return end
  redis.call('PERSIST', share_key(r.share))
  local ticket = redis.call('HGET', row_key(r.id), 'ticket')
  if ticket then redis.call('PERSIST', ticket_key(ticket)) end
  for _, alias in ipairs(redis.call('SMEMBERS', aliases_key(r.id))) do redis.call('PERSIST', row_key(alias)) end
  redis.call('PERSIST', aliases_key(r.id))
end

-- Moves a row to a state and remembers the move for `flush`; terminal rows get their TTL here and nowhere else.
local function move(r, to, why, changes)
  local from, held_by = r.state, r.session
  local write = {'state', to}
  for field, value in pairs(changes or {}) do
    write[#write + 1] = field
    write[#write + 1] = value
    r[field] = value
  end
  history(r, to, why, write)
  redis.call('HSET', row_key(r.id), unpack(write))
  r.state = to
  if from == 'ready' and to ~= 'ready' then
    -- A claim has taken it out of its line already.
    if not r.popped then leave(r) end
    -- It may have been woken for a place that it leaves free.
    if not HELD[to] then pass_on(r) end
  end
  if from == 'delayed' and to ~= 'delayed' then redis.call('ZREM', delayed_key(), r.id) end
  if HELD[to] and not HELD[from] then occupy(r) end
  if HELD[from] and not HELD[to] then
    vacate(r)
    if r.cancel or r.deadline then redis.call('HDEL', asked_key(held_by), r.id) end
  end
  if from ~= to then
    if from then deltas[from] = (deltas[from] or 0) - 1 end
    deltas[to] = (deltas[to] or 0) + 1
  end
  moves[#moves + 1] = table.concat({r.id, from or '', to, r.fence, why}, '\t')
  if TERMINAL[from] and not TERMINAL[to] then hold_on(r) end
  if TERMINAL[to] then
    redis.call('PEXPIRE', row_key(r.id), r.keep)
    if r.share then let_go(r) end
    if r.start_by or r.deadline then redis.call('ZREM', expiring_key(), r.id) end
    if to == 'completed' then
      spent[#spent + 1] = args_key(r.id)
    else
      redis.call('PEXPIRE', args_key(r.id), r.keep)
    end
  end
  if (TERMINAL[to] or to == 'unknown') and r.waiters and r.waiters ~= '' then
    for client in string.gmatch(r.waiters, '%S+') do
      notices[client] = notices[client] or {}
      table.insert(notices[client], r.id)
    end
  end
end

-- Appends a fact that changes no state: a refused write of an old attempt, a contradiction of a final state.
local function note(r, why)
  -- Sent again after a lost reply, the same fact is noted once.
  local last = redis.call('HGET', row_key(r.id), 'h' .. digits(r.n))
  if last and string.sub(last, -#why) == why then return end
  local write = {}
  history(r, 'note', why, write)
  redis.call('HSET', row_key(r.id), unpack(write))
end

local function make_unknown(r, why, changes, body)
  changes.session = ''
  changes.unknown_ms = digits(now_ms)
  changes.asks = '0'
  if body ~= '' then redis.call('SET', result_key(r.id), body, 'PX', r.keep_result) end
  move(r, 'unknown', why, changes)
  redis.call('ZADD', unknown_key(r.tool), digits(now_ms), r.id)
  -- A tool that no worker has published is known by this, so that whoever lists what is stuck finds its rows.
  redis.call('HSETNX', tools_key(), r.tool, '{}')
  count('unknown')
end

local function finish(r, to, why, body, changes)
  -- An earlier attempt may have had its effect: that this one had none proves nothing of that one. Only a verdict does.
  if r.doubt == '1' and to ~= 'completed' and why ~= 'verdict' then return make_unknown(r, why, changes, body) end
  changes.session = ''
  if body ~= '' then
    redis.call('SET', result_key(r.id), body, 'PX', r.keep_result)
  else
    -- The error that was told with an unknown outcome is not the result of the known one.
    redis.call('DEL', result_key(r.id))
  end
  move(r, to, why, changes)
  count(to)
end

local STOPPED = {deadline = 'DeadlinePassed', expired = 'Expired'}

-- Why a row that would wait for an attempt must not: somebody cancelled it, its deadline has passed, or it should have started.
local function stop_word(r)
  if r.cancel then return 'cancelled' end
  if r.deadline and tonumber(r.deadline) <= now_ms then return 'deadline' end
  if r.start_by and r.attempts == 0 and tonumber(r.start_by) <= now_ms then return 'expired' end
end

-- Ends a row that nobody holds and that is not to run any more. What an attempt may have sent is not undone by it: that is
-- found out.
local function stop(r, why, changes)
  if r.doubt == '1' then return make_unknown(r, why, changes, '') end
  changes.error = STOPPED[why]
  finish(r, 'cancelled', why, '', changes)
end

local function make_ready(r, why, changes)
  changes = changes or {}
  local stopped = stop_word(r)
  changes.session = ''
  -- A provider's handle names an operation of the old attempt: what is asked about the next one must not find it. Only what
  -- is sent again by key is the same operation.
  if why ~= 'key' then changes.ref = '' end
  move(r, 'ready', why, changes)
  if stopped then
    -- What freed it is told first, and then what ends it: each counts as what it is.
    r.popped = true
    return stop(r, stopped, {})
  end
  -- What nobody queued waits for its caller to come again, not for a worker.
  if r.queued ~= '0' then stand(r) end
end

-- How the holder of a row stands: `held` while its session lives, `grace` when that lapsed and nobody knows yet that the holder is
-- dead, `dead` when it is declared so, when its grace is over, or when nothing of the session is left.
local function standing_of(session)
  local deadline = redis.call('ZSCORE', sessions_key(), session)
  if not deadline then return 'dead' end
  local known = redis.call('HMGET', session_key(session), 'dead', 'grace_ms')
  if known[1] then return 'dead' end
  if tonumber(deadline) > now_ms then return 'held' end
  return tonumber(deadline) + tonumber(known[2] or '0') > now_ms and 'grace' or 'dead'
end

-- What becomes of a row whose holder ended (design: "Session lost while attempting"). `history_lost` says that a mark may have
-- been written and forgotten, so that an unmarked row proves nothing.
local function lose(r, why, changes, history_lost, body)
  r.deaths = r.deaths + 1
  changes.deaths = digits(r.deaths)
  local worn_out = r.deaths >= r.max_deaths
  -- What the holder tells counts also where the store has forgotten the mark.
  local unsent = (changes.boundary or r.boundary) == 'not_crossed' and not history_lost
  if r.class == 'read' or unsent then
    if worn_out then
      changes.cause = 'deaths'
      return finish(r, 'dead', why, body, changes)
    end
  elseif repeats(r) and not worn_out then
    changes.doubt = '1'
  else
    return make_unknown(r, why, changes, body)
  end
  make_ready(r, why, changes)
end

-- Writes what was gathered: one command a counter, one event a call, one message a client, whatever the number of rows.
local function flush()
  flush_wakes()
  flush_lines()
  for state, by in pairs(deltas) do
    if by ~= 0 then redis.call('HINCRBY', states_key(), state, by) end
  end
  for name, by in pairs(counts) do redis.call('HINCRBY', counters_key(), name, by) end
  if #spent > 0 then redis.call('UNLINK', unpack(spent)) end
  if #moves > 0 then
    local seq = digits(redis.call('HINCRBY', meta_key(), 'seq', 1))
    redis.call('XADD', events_key(), 'MAXLEN', '~', EVENTS, '*',
      'seq', seq, 'at', digits(now_ms), 'moves', table.concat(moves, '\n'))
  end
  -- A message only shortens somebody's poll. A user whose rights do not reach the channels must not fail here, after the
  -- writes: nobody could tell what the error means.
  for client, ids in pairs(notices) do redis.pcall('PUBLISH', settled_key(client), table.concat(ids, '\t')) end
  if bell_rings then redis.pcall('PUBLISH', bell_key(), '1') end
end
