"""What runs: tools and their hosts, the worker, and the client.

    a tool      tool · arguments · load                declared, checked and found
                effect · context                       what its body may say and ask
    a client    client · submissions · gathering       what is asked for, checked before anything is written
                job · waiting · outcome · sync         what came of it
    a worker    worker ─ the tree, and its life        settings · messages
                ├─ lease_manager                       the session
                ├─ turns · slots · attempt · settling  the main loop
                ├─ marks                               points of no return
                ├─ host                                one child process, from `hosts/`
                ├─ sweeper                             what time has moved
                ├─ reconciler                          what nobody saw the end of
                └─ health · vitals · exposition · web  what it tells: ready or not, and metrics
                orders · orphans · exits               signals, what process 1 inherits, exit codes

`runtime/` is the actor library and knows nothing of the rest; `hosts/` is both sides of a tool host's socket.
"""
