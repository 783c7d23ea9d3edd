"""The API in asyncio. `_sync` is made from it: see make_sync.py."""
