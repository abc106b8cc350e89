"""Where one request or reply of the Redis protocol ends in a stream of bytes. Reads lengths only, never values."""

from __future__ import annotations

_BULK = b"$!="
_ITEMS_PER_COUNT = {b"*": 1, b"~": 1, b">": 1, b"%": 2, b"|": 2}


def frame_end(data: bytes | bytearray, at: int = 0) -> int | None:
    """The index after the value that starts at `at`, or None when its end has not arrived.

    An attribute (`|`) belongs to the reply after it. A line that is no value is an inline command.
    """
    line_end = data.find(b"\r\n", at)
    if line_end < 0:
        return None
    kind, end = bytes(data[at : at + 1]), line_end + 2
    if kind in _BULK:
        length = int(data[at + 1 : line_end])
        end += length + 2 if length >= 0 else 0
        return end if end <= len(data) else None
    for _ in range(_items(kind, data[at + 1 : line_end])):
        item_end = frame_end(data, end)
        if item_end is None:
            return None
        end = item_end
    return end


def _items(kind: bytes, count: bytes | bytearray) -> int:
    if kind not in _ITEMS_PER_COUNT:
        return 0
    return max(int(count), 0) * _ITEMS_PER_COUNT[kind] + (kind == b"|")
