"""actors.hosts."""
