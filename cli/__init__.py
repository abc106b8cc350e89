"""What people type: the commands of `mycelium` and `mycelium-worker`."""
