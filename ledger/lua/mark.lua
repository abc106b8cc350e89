-- Record the decision and the point of no return of attempts, before their first byte leaves.
-- ARGV  session epoch:digits
-- EACH  item: id fence:digits boundary ref
-- REPLY ok lost epoch marked stopped stale missing corrupt
-- WRITES row meta states counters events
-- INCLUDE prelude keys line record
local barred = barred_word(session, epoch)
if barred then return {barred} end

local function mark(r, boundary, ref)
  local changes = {}
  local forward = RANK[boundary] > RANK[r.boundary]
  if forward then changes.boundary = boundary end
  -- Sent again after a lost reply, the same handle is no new fact.
  if ref ~= '' and redis.call('HGET', row_key(r.id), 'ref') ~= ref then changes.ref = ref end
  -- The provider's key window runs from the first dispatch of all, not from this attempt's.
  if forward and not r.first then changes.first = digits(now_ms) end
  if not next(changes) then return end
  move(r, 'attempting', forward and boundary or 'ref', changes)
  if boundary == 'maybe_crossed' and forward then count('marked') end
end

local reply = {'ok'}
for id, fence, boundary, ref in each(item) do
  local r, word = read(id)
  if r then
    local mine = r.fence == fence and r.session == session and (r.state == 'claimed' or r.state == 'attempting')
      and RANK[boundary] ~= nil
    word = mine and 'marked' or 'stale'
    -- A cancel, or a deadline, that comes before the point of no return comes in time.
    if mine and RANK[boundary] > RANK[r.boundary] and stop_word(r) then word = 'stopped' end
    if word == 'marked' then mark(r, boundary, ref) elseif not mine then count('fences_refused') end
  end
  reply[#reply + 1] = word
end
flush()
return reply
