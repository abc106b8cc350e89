"""The main job on real input: an airline agent's recorded tool calls, replayed against an airline that fails by rule.

`provider` is the airline, `tools` what the agent calls, `lookup` how doubt is settled, `calls` the recorded data,
`guarded` and `unguarded` two ways to run the calls, and `show` puts them on one stage and counts effects.
"""
