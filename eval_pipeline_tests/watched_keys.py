"""A mapping that notes which of its keys a reader looks for: by that a test compares a reader with its table."""

from __future__ import annotations

from typing import Any


class WatchedKeys(dict[str, Any]):
    """A dict whose `keys_read` are the keys that were looked up, there or not. Copies are not watched."""

    def __init__(self, values: dict[str, Any]) -> None:
        super().__init__(values)
        self.keys_read: set[str] = set()

    def __getitem__(self, key: str) -> Any:
        self.keys_read.add(key)
        return super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        self.keys_read.add(str(key))
        return super().__contains__(key)

    def get(self, key: str, default: Any = None) -> Any:
        self.keys_read.add(key)
        return super().get(key, default)
