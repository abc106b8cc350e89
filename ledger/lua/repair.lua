-- Fill in what a damaged row lacks with the strictest that it can mean; a row without a state stays as it is.
-- ARGV  request_id effect_class mode keep:digits keep_result:digits
-- REPLY repaired whole missing hopeless
-- WRITES row meta states counters events
-- INCLUDE prelude keys record
local r, why, canonical = read(request_id)
if why == 'alias' then
  request_id = canonical
  r, why = read(canonical)
end
if r then return {'whole'} end
if why == 'missing' then return {'missing'} end
local raw = redis.pcall('HMGET', row_key(request_id), unpack(FIELDS))
if raw.err then return {'hopeless'} end
local row = {}
for at, field in ipairs(FIELDS) do row[field] = raw[at] end
local OPEN = {delayed = true, ready = true, parked = true, claimed = true, attempting = true, unknown = true}
-- What a row is of cannot be guessed: without these nothing says which effect it speaks of.
if not (row.effect and row.tool and (OPEN[row.state] or TERMINAL[row.state])) then return {'hopeless'} end

local write = {}
local function fill(field, good, value)
  if good then return end
  write[#write + 1] = field
  write[#write + 1] = value
  row[field] = value
end
local function number(field, least)
  fill(field, row[field] and tonumber(row[field]), least)
end
local HARMLESS = {failed = true, cancelled = true, dead = true, claimed = true, delayed = true, parked = true}
fill('boundary', RANK[row.boundary],
  row.state == 'completed' and 'crossed' or (HARMLESS[row.state] and 'not_crossed' or 'maybe_crossed'))
fill('class', CLASS[row.class], effect_class)
fill('mode', MODE[row.mode], mode)
fill('keep', row.keep, keep)
fill('keep_result', row.keep_result, keep_result)
fill('fence', row.fence, digits(redis.call('HINCRBY', meta_key(), 'fence', 1)))
number('n', '0')
number('attempts', '1')
number('fails', '0')
number('deaths', '0')
number('max_attempts', '1')
number('max_deaths', '1')
redis.call('HSET', row_key(request_id), unpack(write))
r = read(request_id)
note(r, 'repaired')
count('repaired')
flush()
return {'repaired'}
