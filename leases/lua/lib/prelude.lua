-- What every script has: the server's time, read once, and the walk over its repeated arguments.

-- TIME moves inside a script on older servers: it is read once. `now` is 0 but in tests.
local now_ms = now
if now_ms == 0 then
  local t = redis.call('TIME')
  now_ms = t[1] * 1000 + math.floor(t[2] / 1000)
end

-- cjson and tostring write large numbers as %.14g; this writes every digit.
local function digits(n)
  return string.format('%.0f', n)
end

-- Iterates over a group of repeated arguments: `for id, fence in each(item) do`.
local function each(group)
  local at, left = group.at - group.width, group.n
  return function()
    if left == 0 then return nil end
    left = left - 1
    at = at + group.width
    return unpack(ARGV, at, at + group.width - 1)
  end
end
