-- One turn of a worker: settle what ended, then claim up to the free slots, in one step.
-- ARGV  session epoch:digits lane op slots:int
-- EACH  ended: id fence:digits verb error delay_ms:int over boundary ref body
-- EACH  known: tool effect_class mode again
-- REPLY ok lost epoch settled late stale missing corrupt
-- WRITES row args result ready delayed unknown held session meta states counters events
-- INCLUDE prelude keys record settle

-- This very turn has claimed and its reply was lost: what it settled and granted is told again, and nothing is done.
local last = redis.call('HMGET', session_key(session), 'op' .. lane, 'got' .. lane, 'said' .. lane)
local again = last[1] == op

-- ── check: nothing is written up to here ──
local verdicts, moving, leaving = {}, {}, {}
local function judge_all()
  for id, fence, verb, error, delay_ms, over, boundary, ref, body in each(ended) do
    local r, why = read(id)
    local word, moves_row = why, false
    if r then word, moves_row = judge(r, fence, verb, session) end
    verdicts[#verdicts + 1] = word
    if moves_row == 'ended' then
      moving[#moving + 1] = {r, 'ended', '', 0, over}
    elseif moves_row then
      moving[#moving + 1] = {r, verb, error, tonumber(delay_ms), over, boundary, ref, body}
    elseif word == 'stale' then
      moving[#moving + 1] = {r, nil, verb, fence}
    end
    -- What this session holds stays held, also under a newer fence, so that it is found when the session ends.
    local kept = word == 'stale' and r.session == session
    if not kept then leaving[#leaving + 1] = id end
  end
end

if again then
  for said in string.gmatch(last[3] or '', '%a+') do verdicts[#verdicts + 1] = said end
else
  judge_all()
end

local word = barred_word(session, epoch) or 'ok'

-- ── settle ──
-- HDEL first, with a field that is never there: it needs no memory, and once a script has written, a full server lets it
-- write on. A settlement must never fail for want of memory. A row that another holds is only forgotten here, never touched.
if #moving + #leaving > 0 then redis.call('HDEL', held_key(session), '', unpack(leaving)) end
local done = {}
for _, m in ipairs(moving) do
  local r, verb = m[1], m[2]
  if verb == nil then
    note(r, 'refused-' .. m[3] .. '-' .. m[4])
    count('fences_refused')
  elseif not done[r.id] then
    done[r.id] = true
    settle(unpack(m))
  end
end

local reply = {word, digits(now_ms), #verdicts}
for _, verdict in ipairs(verdicts) do reply[#reply + 1] = verdict end

-- ── claim ──
local function grant(r, fence)
  local decided = r.mode ~= 'automatic'
  -- A verdict, a person or a key that let it run again is told with the claim that uses the permission up.
  local allowed = r.attempts > 0 and redis.call('HGET', row_key(r.id), 'auth')
  if allowed == '' then allowed = nil end
  r.fence = fence
  r.attempts = r.attempts + 1
  -- A class that marks nothing, or a tool that marks for itself, has its decision with the claim; for all others the decision
  -- comes with the mark, so that a death before it leaves a row that is simply ready again.
  move(r, decided and 'attempting' or 'claimed', allowed or 'claim', {
    fence = fence, session = session, attempts = digits(r.attempts), boundary = 'not_crossed', ended = '0', epoch = epoch,
    class = r.class, mode = r.mode, again = r.again or nil, auth = allowed and '' or nil, error = r.attempts > 1 and '' or nil,
  })
end

-- What is sent as the provider's key is on the row where a parameter carries it; a read sends none.
local function tell(r, body)
  local key = r.class ~= 'read' and redis.call('HGET', row_key(r.id), 'key') or ''
  for _, value in ipairs({r.id, r.fence, digits(r.attempts), r.tool, r.class, r.mode, r.effect, r.first or '', key, body or ''}) do
    reply[#reply + 1] = value
  end
end

-- The same grants again, as far as they still stand.
local function tell_again(got)
  for fence, id in string.gmatch(got, '(%d+)\t([^\n]+)') do
    local r = read(id)
    if r and r.fence == fence and r.session == session then tell(r, redis.call('MGET', args_key(id))[1]) end
  end
end

-- A tool may have been declared anew since the call was submitted. The stricter class and the stricter mode hold from here on,
-- also for whoever has to judge the attempt when its holder is gone. Answers whether the row may still be granted: what may
-- have had its effect, and may not repeat any more, may not.
local function tighten(r, effect_class, mode, again)
  local repeated = repeats(r)
  if CLASS[effect_class] > CLASS[r.class] then r.class = effect_class end
  if MODE[mode] > MODE[r.mode] then r.mode = mode end
  if again == '0' then r.again = '0' end
  if r.doubt ~= '1' or repeats(r) or not repeated then return true end
  make_unknown(r, 'declared-anew', {class = r.class, mode = r.mode, again = r.again or nil}, '')
  return false
end

-- Lua unpacks a few thousand values at most, and a turn should be short.
local MOST = 1000

-- Ids of rows that left `ready` some other way are dropped here; the bound keeps a turn short whatever lies in a list.
local function take()
  local taken, seen, left = {}, {}, math.min(slots, MOST)
  for tool, effect_class, mode, again in each(known) do
    for _ = 1, 4 do
      local ids = left > 0 and redis.call('LPOP', ready_key(tool), left)
      if not ids or #ids == 0 then break end
      for _, id in ipairs(ids) do
        local r, why = read(id)
        if r and r.state == 'ready' and r.tool == tool and not seen[id] then
          seen[id] = true
          if tighten(r, effect_class, mode, again) then
            taken[#taken + 1] = r
            left = left - 1
          end
        elseif why == 'corrupt' then
          count('corrupt')
        end
      end
    end
    if left == 0 then break end
  end
  return taken
end

local function claim()
  local taken = take()
  if #taken == 0 then return end
  local fence = redis.call('HINCRBY', meta_key(), 'fence', #taken) - #taken
  local holding, bodies, got = {}, {}, {}
  for at, r in ipairs(taken) do
    grant(r, digits(fence + at))
    holding[#holding + 1] = r.id
    holding[#holding + 1] = r.fence
    bodies[at] = args_key(r.id)
    got[at] = r.fence .. '\t' .. r.id
  end
  redis.call('HSET', held_key(session), unpack(holding))
  redis.call('HSET', session_key(session), 'op' .. lane, op, 'got' .. lane, table.concat(got, '\n'),
    'said' .. lane, table.concat(verdicts, ' '))
  count('claimed', #taken)
  bodies = redis.call('MGET', unpack(bodies))
  for at, r in ipairs(taken) do tell(r, bodies[at]) end
end

if word == 'ok' and again then
  tell_again(last[2])
elseif word == 'ok' and slots > 0 then
  claim()
end
flush()
return reply
