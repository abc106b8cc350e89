-- Every key of the namespace, built from its tag; keys.py is the same list for Python.
local function meta_key() return tag .. ':meta' end
local function counters_key() return tag .. ':counters' end
local function states_key() return tag .. ':states' end
local function events_key() return tag .. ':events' end
local function tools_key() return tag .. ':tools' end
local function sessions_key() return tag .. ':sessions' end
local function session_key(id) return tag .. ':session:' .. id end
local function held_key(id) return tag .. ':held:' .. id end
local function ready_key(tool) return tag .. ':ready:' .. tool end
local function delayed_key() return tag .. ':delayed' end
local function unknown_key(tool) return tag .. ':unknown:' .. tool end
local function row_key(id) return tag .. ':row:' .. id end
local function args_key(id) return tag .. ':args:' .. id end
local function result_key(id) return tag .. ':result:' .. id end
local function share_key(id) return tag .. ':share:' .. id end
local function ticket_key(id) return tag .. ':ticket:' .. id end
local function aliases_key(id) return tag .. ':aliases:' .. id end
local function receipts_key() return tag .. ':receipts' end
local function receipted_key() return tag .. ':receipted' end
local function settled_key(id) return tag .. ':settled:' .. id end
local function bell_key() return tag .. ':bell' end
