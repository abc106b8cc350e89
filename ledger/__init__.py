"""What happened: one durable record for each intended effect, moved only by compare-and-set scripts.

    identity ── canonical arguments, request id, effect id: what makes two calls the same
    binding  ── what a tool declares of itself, and what follows from its effect class
    states   ── the closed sets: states, boundaries, classes, words of settlement

    submit ───▶ delayed ─▶ ready ─▶ claimed ─▶ attempting ─▶ completed | failed | dead
                             ▲         │            │
                             └─ sweep ◀┴────────────┴─────▶ unknown ─▶ verdict: completed, or ready once more

    submit   records and queues            turn     settles what ended and claims what is ready, in one call
    mark     the point of no return        sweep    lapsed sessions, due rows
    verdict  what a provider said          record   one transition, read whole       listing  many of them

Each verb is one script in `lua/`; what scripts share is in `lua/lib/`: `record.lua` is the only place where a row is
read, moved and told of, `settle.lua` the only one where an attempt ends.
"""
