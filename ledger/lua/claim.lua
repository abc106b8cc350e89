-- Take one intended effect for this very holder: record it if it is new, run it again if a ruling on it still stands.
-- ARGV  session epoch:digits op client request_id effect ticket share drift tool effect_class mode again max_attempts max_deaths keep keep_result about asked key own boundary expect auth window_ms:int body
-- REPLY granted known conflict drift corrupt lost epoch
-- WRITES row args result line rota waiting queues gate running delayed expiring asked unknown held meta states counters events share ticket aliases tools
-- INCLUDE prelude keys line record identity
local barred = barred_word(session, epoch)
if barred then return {barred} end

local r, how, other = find(request_id, effect, ticket, share, drift)
if not r and how ~= 'missing' then
  if how == 'conflict' or how == 'drift' then count('conflicts') end
  flush()
  return {how, other and other.id or request_id, other and other.state or ''}
end

local function view(word)
  local reply = {word, digits(now_ms), r.id, HELD[r.state] and standing_of(r.session) or 'nobody'}
  local more = redis.call('HMGET', row_key(r.id), 'key', 'ended', 'ref', 'error', 'asked', 'unknown_ms', 'asks', 'cancel')
  for _, value in ipairs({r.state, r.fence, digits(r.n), r.class, r.mode, r.boundary, digits(r.attempts), digits(r.deaths),
    digits(r.max_deaths), r.again or '', r.doubt or '', r.first or '', r.effect, r.session or ''}) do
    reply[#reply + 1] = value
  end
  for at = 1, 7 do reply[#reply + 1] = more[at] or '' end
  reply[#reply + 1] = more[8] and '1' or ''
  return reply
end

-- The claim that was granted and whose reply was lost is told again (L9).
if r and HELD[r.state] and r.session == session and redis.call('HGET', row_key(r.id), 'claim_op') == op then
  return view('granted')
end

-- ── what a ruling may ask for: it was made on the row as it was shown, and only on that ──
-- The caller rules (`gates.py`); what no ruling may do is held here as well: nothing that is held, completed or never to be run
-- again, no failed effect of a class that a person must look at, and nothing that may have had its effect but a read, a class
-- that may repeat, or a key inside its window (E6). Where row and caller differ, the stricter declaration counts.
local strict = r and {
  class = CLASS[effect_class] > CLASS[r.class] and effect_class or r.class,
  mode = MODE[mode] > MODE[r.mode] and mode or r.mode,
  again = again == '0' and '0' or r.again,
}

local function by_key()
  if strict.class ~= 'keyed_mutate' or not r.first then return false end
  local known = redis.call('HGET', row_key(r.id), 'key')
  if not known then return false end
  local age_ms = now_ms - tonumber(r.first)
  -- A first dispatch in the future says that the clock was set back, and by how much nobody knows.
  return (key == '' or key == known) and age_ms >= 0 and age_ms < window_ms
end

local function may_run()
  if digits(r.n) ~= expect then return false end
  -- Whoever asked for the cancel was told that it does not run again. What has limits is left to those who take it in turn.
  if stop_word(r) or r.limits then return false end
  if r.state == 'failed' then return CLASS[strict.class] < CLASS.non_idempotent_mutate end
  if r.state ~= 'ready' and r.state ~= 'unknown' then return false end
  if r.state == 'ready' and (r.doubt ~= '1' or strict.class == 'read') then return true end
  if r.deaths >= r.max_deaths then return false end
  return repeats(strict) or (r.state == 'ready' or auth == 'key') and by_key()
end

-- The first write of a claim, and one that a full server refuses: a claim is refused whole, or not at all.
local function next_fence()
  return digits(redis.call('HINCRBY', meta_key(), 'fence', 1))
end

local function grant(why, changes)
  -- What this dispatch sends as its key: what was sent before, while that is in doubt or the caller leaves the key out; else
  -- the caller's choice.
  local doubted = r.doubt == '1' or changes.doubt == '1'
  local known = redis.call('HEXISTS', row_key(r.id), 'key') == 1
  if key ~= '' and not (doubted and known) then changes.key = key end
  if key == '' and own == '1' and not known then changes.key = r.effect end
  r.fence = changes.fence
  r.attempts = r.attempts + 1
  changes.attempts = digits(r.attempts)
  changes.session = session
  changes.epoch = epoch
  changes.ended = '0'
  changes.claim_op = op
  changes.boundary = boundary == '' and 'not_crossed' or boundary
  if boundary == 'maybe_crossed' then
    if not r.first then
      changes.first = digits(now_ms)
      r.first = changes.first
    end
    count('marked')
  end
  r.session = session
  r.boundary = changes.boundary
  -- Without a boundary the decision is still to be asked for; with one it came with the claim.
  move(r, boundary == '' and 'claimed' or 'attempting', why, changes)
  redis.call('HSET', held_key(session), r.id, r.fence)
  count('claimed')
end

if not r then
  r = {
    id = request_id, n = 0, fence = '0', keep = keep, effect = effect, tool = tool, class = effect_class, mode = mode,
    again = again == '0' and again or nil, attempts = 0, deaths = 0, max_deaths = tonumber(max_deaths), queued = '0',
  }
  local changes = {
    fence = next_fence(), effect = effect, tool = tool, class = effect_class, mode = mode, fails = '0', deaths = '0',
    max_attempts = max_attempts, max_deaths = max_deaths, keep = keep, keep_result = keep_result,
    created_ms = digits(now_ms), queued = '0',
  }
  -- What is empty or no takes no room.
  if about ~= '' then changes.about = about end
  if asked == '1' then changes.asked = asked end
  if again == '0' then changes.again = again end
  if body ~= '' then redis.call('SET', args_key(request_id), body) end
  name(r, ticket, share, changes)
  grant('claim', changes)
  count('submitted')
elseif may_run() then
  local changes = {fence = next_fence()}
  if how == 'link' then link(request_id, r, effect) end
  -- Whoever allowed a row that is ready, a verdict or a person, is told with the claim that uses it up.
  local allowed = r.state == 'ready' and redis.call('HGET', row_key(r.id), 'auth')
  if allowed == 'verdict' or allowed == 'operator' or allowed == 'key' then auth = allowed end
  for field, value in pairs(strict) do
    if value ~= r[field] then changes[field] = value end
    r[field] = value
  end
  if r.state == 'unknown' then
    redis.call('ZREM', unknown_key(r.tool), r.id)
    if CLASS[r.class] > 0 then changes.doubt = '1' end
  end
  if auth ~= 'key' and r.doubt ~= '1' and changes.doubt ~= '1' and r.state == 'failed' then
    -- A failure proves that nothing was sent: the key's window begins with the next dispatch.
    redis.call('HDEL', row_key(r.id), 'first')
    r.first = nil
  end
  -- A provider's handle names an operation of the old attempt; only what is sent again by key is the same operation.
  if auth ~= 'key' then redis.call('HDEL', row_key(r.id), 'ref') end
  -- What an earlier attempt left is told of that one only.
  for _, field in ipairs({'auth', 'error', 'decision', 'said', 'evidence'}) do changes[field] = '' end
  grant(auth, changes)
else
  if how == 'link' then link(request_id, r, effect) end
  await(r, client)
  flush()
  return view('known')
end
flush()
return view('granted')
