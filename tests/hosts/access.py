"""POSIX access lists of files, as extended attributes."""

from __future__ import annotations

import struct

ACL = "system.posix_acl_access"
_NOBODY = 0xFFFFFFFF


def access_list(reader: int) -> bytes:
    """Return a list with which an account may read a file (linux/posix_acl_xattr.h)."""
    owner, group, mask, other = (1, 6, _NOBODY), (4, 4, _NOBODY), (16, 4, _NOBODY), (32, 4, _NOBODY)
    entries = (owner, (2, 4, reader), group, mask, other)
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)
