"""The API with threads. All but `_io` is made from `_async`: see make_sync.py."""
