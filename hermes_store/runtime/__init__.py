"""What a long-running program needs around a store: queued usage, shared handles, and a store for asyncio."""
