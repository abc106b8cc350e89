-- Which row a call means, and how a new row comes to be. `find` only reads; `link` and `create` write.

-- Answers the row and how it was found: `same` under its own id, `joined` under another request id that joined it before, `link`
-- under one that names the same dispatch. Or no row and why: `missing`, `corrupt`; or `conflict` and `drift` with the row that
-- stands against the call.
local function find(id, effect, ticket, share, drift)
  local r, why, canonical = read(id)
  local how, named = 'same', r and r.effect
  if why == 'alias' then
    -- What the other id names is its own: the same dispatch under it with other arguments is another effect.
    named = redis.call('HGET', row_key(id), 'effect')
    r, why = read(canonical)
    how = 'joined'
  end
  if r then
    if named ~= effect then return nil, 'conflict', r end
    return r, how
  end
  if why ~= 'missing' then return nil, why end
  local known = share ~= '' and redis.call('GET', share_key(share))
  if known then
    r, why = read(known)
    if r and r.share == share then return r, 'link' end
    if why == 'corrupt' then return nil, why end
  end
  -- The same dispatch with other arguments is no retry of the first one.
  local first = ticket ~= '' and drift ~= 'off' and redis.call('GET', ticket_key(ticket))
  if first then
    r = read(first)
    if r then return nil, 'drift', r end
  end
  return nil, 'missing'
end

-- Lets a request id name the row that its dispatch has already.
local function link(id, r, effect)
  redis.call('HSET', row_key(id), 'alias', r.id, 'effect', effect)
  redis.call('SADD', aliases_key(r.id), id)
  local left_ms = redis.call('PTTL', row_key(r.id))
  if left_ms > 0 then
    redis.call('PEXPIRE', row_key(id), left_ms)
    redis.call('PEXPIRE', aliases_key(r.id), left_ms)
  end
  note(r, 'alias')
  count('aliased')
end

-- Names a new row by its dispatch and its ticket, where another call may come to it by them.
local function name(r, ticket, share, changes)
  if share == '' then return end
  r.share = share
  changes.share = share
  redis.call('SET', share_key(share), r.id)
  if ticket == '' then return end
  changes.ticket = ticket
  redis.call('SET', ticket_key(ticket), r.id)
end

-- Whoever waits for a row is told of its end. Past the bound a client finds its result by the poll that never depends on it.
local function await(r, client)
  if client == '' or TERMINAL[r.state] then return end
  local waiters = r.waiters or ''
  local known = string.find(' ' .. waiters .. ' ', ' ' .. client .. ' ', 1, true)
  local _, waiting = string.gsub(waiters, '%S+', '')
  if not known and waiting < 16 then
    redis.call('HSET', row_key(r.id), 'waiters', (waiters == '') and client or (waiters .. ' ' .. client))
  end
end
