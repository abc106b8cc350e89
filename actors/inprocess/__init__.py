"""Calls that run where they are made: the ledger without a queue.

    decorators, tasks ── what a program writes: `@ledger`, `@ledger_sync`, `@task_ledger`
    action_ledger     ── what it may hold in its hands: claim, decide, complete, fail, wait, release
    desk              ── what an operator may do from plain code
    calls             ── one call from its arguments to its settlement, in plain and in async code
    service           ── the verbs, on the portal's loop
    gatekeeper        ── claims, asks the gate, waits, asks the provider
    keeper            ── the session: opened, renewed and replaced, whatever the program's own loop does
    attempt           ── what `side_effect()` finds while a body runs

All server work is done by one thread with a loop and connections of its own (`actors/portal.py`), so that a body that
blocks its loop stops no renewal, and plain code can wait for the server from inside a running loop.
"""
