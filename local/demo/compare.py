"""What differs between two inventories of a pod."""

import base64
import json
import zlib
from typing import Any

Inventory = dict[str, list[Any]]

FIELDS = ("type", "mode", "owner", "mtime", "content", "xattrs")


def read_inventory(printed: bytes) -> Inventory:
    """The inventory from what `pod/inventory.py` printed."""
    inventory: Inventory = json.loads(zlib.decompress(base64.b64decode(printed)))
    return inventory


def differences(before: Inventory, after: Inventory) -> list[str]:
    """One line for each path that is missing, new or different, and in what."""
    lines = [f"missing: {path!r}" for path in sorted(before.keys() - after.keys())]
    lines += [f"new: {path!r}" for path in sorted(after.keys() - before.keys())]
    for path in sorted(before.keys() & after.keys()):
        changed = [
            f"{field} {old!r} -> {new!r}"
            for field, old, new in zip(FIELDS, before[path], after[path], strict=True)
            if old != new
        ]
        if changed:
            lines.append(f"different: {path!r}: {'; '.join(changed)}")
    return lines


def total_bytes(inventory: Inventory) -> int:
    """The sizes of all regular files, hard links counted once."""
    seen: set[str] = set()
    total = 0
    for path, entry in inventory.items():
        detail = entry[4]
        if isinstance(detail, list) and (detail[2] or path) not in seen:
            seen.add(detail[2] or path)
            total += detail[0]
    return total
