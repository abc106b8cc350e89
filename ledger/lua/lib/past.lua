-- What people put their names to is never overwritten without being kept.

-- Answers the row's `past` with one line more, for what stands in these fields; nothing where nobody has said anything yet.
local function past_with(r, what, fields)
  local was = redis.call('HMGET', row_key(r.id), 'past', unpack(fields))
  if not was[2] then return nil end
  local line = {what}
  for at = 2, #fields + 1 do line[at] = was[at] or '' end
  return (was[1] and was[1] .. '\n' or '') .. cjson.encode(line)
end
