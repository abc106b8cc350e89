"""A worker: `tree` declares its actors in one place, `life` takes it from start to exit code; else one noun a file."""
