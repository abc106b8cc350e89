-- Every key of the namespace, built from its tag; keys.py is the same list for Python.
local function meta_key() return tag .. ':meta' end
local function counters_key() return tag .. ':counters' end
local function states_key() return tag .. ':states' end
local function events_key() return tag .. ':events' end
local function tools_key() return tag .. ':tools' end
local function schedules_key() return tag .. ':schedules' end
local function sessions_key() return tag .. ':sessions' end
local function session_key(id) return tag .. ':session:' .. id end
local function tree_key(id) return tag .. ':tree:' .. id end
local function held_key(id) return tag .. ':held:' .. id end
local function line_key(line) return tag .. ':line:' .. line end
local function rota_key(shelf) return tag .. ':rota:' .. shelf end
local function rested_key(shelf) return tag .. ':rested:' .. shelf end
local function waiting_key(queue) return tag .. ':waiting:' .. queue end
local function aging_key(queue) return tag .. ':aging:' .. queue end
local function queues_key() return tag .. ':queues' end
local function paused_key() return tag .. ':paused' end
local function strikes_key() return tag .. ':strikes' end
local function gate_key(gate) return tag .. ':gate:' .. gate end
local function gates_key() return tag .. ':gates' end
local function full_key() return tag .. ':full' end
local function running_key(key) return tag .. ':running:' .. key end
local function rate_key(key) return tag .. ':rate:' .. key end
local function expiring_key() return tag .. ':expiring' end
local function asked_key(id) return tag .. ':asked:' .. id end
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
