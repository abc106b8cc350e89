"""How a worker stands: the rules that say whether it is ready, and how it is told over HTTP."""
