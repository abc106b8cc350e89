-- One turn of a worker: settle what ended, then claim up to the free slots, in one step.
-- ARGV  session epoch:digits lane op slots:int solo:int
-- EACH  ended: id fence:digits verb error delay_ms:int over boundary ref body
-- EACH  known: tool effect_class mode again alone
-- EACH  queue: name share:int most:int
-- REPLY ok lost epoch settled late stale missing corrupt
-- WRITES row args result delayed expiring line rota waiting aging gate gates full running rate asked unknown held session meta states counters events queues tools share ticket aliases
-- INCLUDE prelude keys line record settle pick

-- This very turn has claimed and its reply was lost: what it settled and granted is told again, and nothing is done.
local last = redis.call('HMGET', session_key(session), 'op' .. lane, 'got' .. lane, 'said' .. lane)
local again = last[1] == op

local wait, metered = 0, false

-- What keeps something that waits: 0 nothing, 1 an order or a key, 2 a bucket that fills by itself.
local function held_back_word()
  return metered and 2 or held_back and 1 or 0
end

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
  local waited, kept = string.match(last[3] or '', '(%d+) (%d)$')
  wait, held_back, metered = tonumber(waited or '0'), kept ~= '0', kept == '2'
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

-- What was settled may make room for what this turn claims.
flush_wakes()
flush_lines()

local granted = {}

-- ── claim ──
local function grant(r, fence)
  local decided = r.mode ~= 'automatic'
  -- A verdict, a person or a key that let it run again is told with the claim that uses the permission up.
  local allowed = r.fence ~= '0' and redis.call('HGET', row_key(r.id), 'auth')
  if allowed == '' then allowed = nil end
  r.fence = fence
  r.attempts = r.attempts + 1
  -- A class that marks nothing, or a tool that marks for itself, has its decision with the claim; for all others the decision
  -- comes with the mark, so that a death before it leaves a row that is simply ready again.
  move(r, decided and 'attempting' or 'claimed', allowed or 'claim', {
    fence = fence, session = session, attempts = digits(r.attempts), boundary = 'not_crossed', ended = '0', epoch = epoch,
    class = r.class, mode = r.mode, again = r.again or nil, auth = allowed and '' or nil, error = r.attempts > 1 and '' or nil,
    spent = r.spent or nil,
  })
end

-- What is sent as the provider's key is on the row where a parameter carries it; a read sends none.
local function tell(r, body)
  local key = r.class ~= 'read' and redis.call('HGET', row_key(r.id), 'key') or ''
  local left_ms = r.deadline and digits(tonumber(r.deadline) - now_ms) or ''
  for _, value in ipairs({r.id, r.fence, digits(r.attempts), r.tool, parts_of(r.line), r.class, r.mode, r.effect, r.first or '',
    key, left_ms, r.run or '', body or ''}) do
    granted[#granted + 1] = value
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

local taken, aside = {}, 0

-- Whether a row that was taken out of its line is granted. If not, it has left `ready`, or it waits under a gate.
local function accept(id, order, tool)
  local r, why = read(id)
  if not r then
    if why == 'corrupt' then count('corrupt') end
    return false
  end
  if r.state ~= 'ready' or r.tool ~= tool.name then return false end
  r.popped = true
  local stopped = stop_word(r)
  if stopped then
    stop(r, stopped, {})
    return false
  end
  local limits, place = limits_of(r), place_of(r.line, order)
  -- A limit costs about half a look.
  looks = looks - math.floor(#limits / 2)
  local gate, look_ms = gate_of(r, limits, place)
  if gate then
    put_aside(r, place, gate, look_ms, limits)
    aside = aside + 1
    return false
  end
  if not tighten(r, tool.class, tool.mode, tool.again) then return false end
  for _, limit in ipairs(limits) do
    if limit.cost_ms then
      spend(limit.key, limit.cost_ms)
      r.spent = digits(now_ms)
    end
  end
  -- Held from here on, also for the limits of those that are looked at after it.
  occupy(r)
  keyed = keyed or #limits > 0
  taken[#taken + 1] = r
  return true
end

-- When the first of an index is due; never, if it has none.
local function due_at(index)
  return tonumber(redis.call('ZRANGE', index, 0, 0, 'WITHSCORES')[2] or math.huge)
end

-- Rows and gates whose time has come are claimed by this very turn, without waiting for a sweep.
local function take_due()
  if due_at(delayed_key()) > now_ms and due_at(gates_key()) > now_ms then return end
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', delayed_key(), '-inf', now_ms, 'LIMIT', 0, 32)) do
    redis.call('ZREM', delayed_key(), id)
    local r = read(id)
    if r and r.state == 'delayed' then make_ready(r, 'due') end
  end
  -- More than can be claimed now need not come back now.
  open_gates(slots + solo)
  flush_lines()
end

-- In two rounds: first each queue its share, in the caller's order, then whoever has more.
local function take()
  local tools, room, got = {}, {['0'] = math.min(slots, MOST), ['1'] = solo}, {}
  looks = 2 * (slots + solo) + 32
  for name, effect_class, mode, again, alone in each(known) do
    tools[#tools + 1] = {name = name, class = effect_class, mode = mode, again = again, solo = alone}
  end
  learn_orders()
  take_due()
  for round = 1, 2 do
    for name, share, most in each(queue) do
      local left = math.min(round == 1 and tonumber(share) or math.huge, tonumber(most)) - (got[name] or 0)
      if left > 0 and looks > 0 and room['0'] + room['1'] > 0 then
        got[name] = (got[name] or 0) + take_queue(name, tools, room, left, accept)
      end
    end
  end
  flush_wakes()
  return room
end

-- After how long there may be more; 0: when somebody rings, or at the next poll.
local function wait_ms(room, gate_ms)
  if room['0'] + room['1'] == 0 then return 0 end
  if aside > 0 or looks <= 0 then return 1 end
  if sampled then return 50 end
  local soonest = math.min(due_at(delayed_key()), gate_ms)
  return soonest < math.huge and math.max(1, soonest - now_ms) or 0
end

local function claim()
  local room = take()
  local gate_ms = due_at(gates_key())
  wait = wait_ms(room, gate_ms)
  metered = gate_ms < math.huge
  held_back = held_back or aside > 0 or metered
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
    'said' .. lane, table.concat(verdicts, ' ') .. ' ' .. digits(wait) .. ' ' .. digits(held_back_word()))
  count('claimed', #taken)
  bodies = redis.call('MGET', unpack(bodies))
  for at, r in ipairs(taken) do tell(r, bodies[at]) end
end

if word == 'ok' and again then
  tell_again(last[2])
elseif word == 'ok' and slots + solo > 0 then
  claim()
end
flush()

-- What the holder is asked to cancel is told with every turn until it has ended.
local asked = redis.call('HGETALL', asked_key(session))
local reply = {word, digits(now_ms), digits(wait), held_back_word(), #verdicts, #asked / 2}
for _, part in ipairs({verdicts, asked, granted}) do
  for _, value in ipairs(part) do reply[#reply + 1] = value end
end
return reply
