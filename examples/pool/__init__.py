"""What a worker pool does, a few lines each: `python -m mycelium.examples.pool.limits`, and so on.

Each is a whole program: a worker in memory runs the calls, on a server of its own.
"""
