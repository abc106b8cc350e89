-- How one attempt ends. `judge` only reads and says what will be done; `settle` then does it.

-- A settlement that was applied and whose reply was lost finds its own trace: the answer is the same, and nothing changes.
local AGAIN = {
  completed = {completed = true},
  failed = {failed = true, dead = true},
  unknown = {unknown = true},
  released = {ready = true, delayed = true, unknown = true, cancelled = true},
  retry = {ready = true, delayed = true, dead = true, unknown = true, cancelled = true},
  timed_out = {ready = true, delayed = true, dead = true, unknown = true, cancelled = true},
  not_done = {ready = true, delayed = true, dead = true, unknown = true, cancelled = true},
  cancelled = {cancelled = true, unknown = true},
  died = {ready = true, unknown = true, dead = true, cancelled = true},
}

-- Answers a reply word, and what to do: true to settle, 'ended' to record that much, false for nothing.
local function judge(r, fence, verb, session)
  if r.fence ~= fence or not AGAIN[verb] then return 'stale', false end
  if r.state == 'attempting' or r.state == 'claimed' then
    if r.session ~= session then return 'stale', false end
    -- No result without a recorded decision: such a body never had leave to run.
    if r.state == 'claimed' and verb == 'completed' then return 'stale', false end
    return 'settled', true
  end
  -- An earlier attempt in doubt is not settled by what this one did not do.
  if r.state == 'unknown' and verb == 'failed' and r.doubt == '1' then return 'settled', 'ended' end
  if r.state == 'unknown' and (verb == 'completed' or verb == 'failed') then return 'late', true end
  -- A holder that was taken for lost tells that its attempt is over: it can send no more, which a verdict may need to know.
  if r.state == 'unknown' and AGAIN[verb].unknown then return 'settled', 'ended' end
  if AGAIN[verb][r.state] then return 'settled', false end
  return 'stale', false
end

local function make_later(r, why, changes, delay_ms)
  if delay_ms <= 0 or stop_word(r) then return make_ready(r, why, changes) end
  changes.session = ''
  changes.ref = ''
  move(r, 'delayed', why, changes)
  redis.call('ZADD', delayed_key(), digits(now_ms + delay_ms), r.id)
end

local function sent_by(r, changes)
  return r.class ~= 'read' and changes.boundary ~= 'not_crossed'
end

-- Another attempt, as far as the class allows it and the attempts last. Failures and timeouts are counted apart.
local function try_again(r, counter, most, changes, delay_ms, body)
  local sent = sent_by(r, changes)
  if sent and not repeats(r) then return make_unknown(r, 'retry-unsafe', changes, body) end
  r[counter] = r[counter] + 1
  changes[counter] = digits(r[counter])
  local cause = counter == 'fails' and 'attempts' or counter
  if r[counter] >= most then
    if sent then return make_unknown(r, cause, changes, body) end
    changes.cause = cause
    return finish(r, 'dead', cause, body, changes)
  end
  count('retried')
  if sent then changes.doubt = '1' end
  make_later(r, 'retry', changes, delay_ms)
end

local function release(r, changes, delay_ms, body)
  if sent_by(r, changes) then
    if not repeats(r) then return make_unknown(r, 'release-unsafe', changes, body) end
    changes.doubt = '1'
  end
  if sent_by(r, changes) or delay_ms > 0 then
    -- It did start, in time: what it asks for now is another try.
    redis.call('HDEL', row_key(r.id), 'start_by')
    r.start_by = nil
  end
  r.attempts = r.attempts - 1
  changes.attempts = digits(r.attempts)
  count('released')
  -- What it was to spend was not spent. Whoever says when to come again may have asked its provider.
  for _, limit in ipairs(delay_ms <= 0 and limits_of(r) or {}) do
    if limit.cost_ms then unspend(limit.key, limit.cost_ms, tonumber(r.spent or '0')) end
  end
  make_later(r, 'released', changes, delay_ms)
end

local function cancel(r, changes, body)
  if sent_by(r, changes) then return make_unknown(r, 'cancelled-late', changes, body) end
  finish(r, 'cancelled', 'cancelled', body, changes)
end

local function settle(r, verb, error, delay_ms, over, boundary, ref, body)
  if verb == 'ended' then
    if over == '1' then redis.call('HSET', row_key(r.id), 'ended', '1') end
    return
  end
  -- A mark may be further than this settlement knows, and a boundary only moves forward; but whoever gives back unstarted
  -- work, or proves that nothing was done, says that nothing was sent, mark or no mark, and only the holder can know that.
  if verb ~= 'released' and verb ~= 'not_done' and (RANK[boundary] or 1) < RANK[r.boundary] then boundary = r.boundary end
  if r.state == 'unknown' then redis.call('ZREM', unknown_key(r.tool), r.id) end
  -- `over` is the holder's word that nothing of the attempt can still send; what was cut short may leave a thread behind.
  local changes = {boundary = boundary, ended = over}
  if boundary == 'not_crossed' and r.first and r.doubt ~= '1' then
    -- Nothing was ever sent under its key: the key's window begins with the first dispatch that is one.
    redis.call('HDEL', row_key(r.id), 'first')
    r.first = nil
  end
  if ref ~= '' then changes.ref = ref end
  if error ~= '' then changes.error = error end
  if verb == 'completed' then
    if r.class ~= 'read' then changes.boundary = 'crossed' end
    if error == '' and r.attempts > 1 then changes.error = '' end
    return finish(r, 'completed', 'settled', body, changes)
  end
  if verb == 'failed' then return finish(r, 'failed', 'settled', body, changes) end
  if verb == 'released' then return release(r, changes, delay_ms, body) end
  if verb == 'retry' or verb == 'not_done' then return try_again(r, 'fails', r.max_attempts, changes, delay_ms, body) end
  if verb == 'timed_out' then return try_again(r, 'timeouts', r.max_timeouts, changes, delay_ms, body) end
  if verb == 'cancelled' then return cancel(r, changes, body) end
  if verb == 'died' then
    count('host_deaths')
    return lose(r, 'host-died', changes, false, body)
  end
  make_unknown(r, 'settled', changes, body)
end
