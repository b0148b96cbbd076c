# SPDX-License-Identifier: BSD-3-Clause
# Access to procfs, sysfs and devfs. Tests set ROOT to another folder.
from __future__ import annotations

import os

ROOT = "/"


def path(name: str) -> str:
    return os.path.join(ROOT, name.lstrip("/"))


def read(name: str) -> str | None:
    """Returns the text of a file without trailing newlines; None if unreadable."""
    try:
        with open(path(name), encoding="utf-8", errors="replace") as file:
            return file.read().rstrip("\n")
    except OSError:
        return None


def read_bytes(name: str) -> bytes:
    try:
        with open(path(name), "rb") as file:
            return file.read()
    except OSError:
        return b""


def number(name: str) -> int | None:
    """Returns the number in a file; None if there is none."""
    text = read(name)
    try:
        return int(text, 0) if text else None
    except ValueError:
        return None


def entries(name: str) -> list[str]:
    """Returns the sorted names in a folder; empty if unreadable."""
    try:
        return sorted(os.listdir(path(name)))
    except OSError:
        return []


def exists(name: str) -> bool:
    return os.path.exists(path(name))


def usable(name: str) -> bool:
    """Returns True if a device file can be opened for reading and writing."""
    return os.access(path(name), os.R_OK | os.W_OK)


def openable(name: str) -> bool:
    """Returns True if a device file can be opened; a cgroup denies that whatever the permissions say."""
    try:
        os.close(os.open(path(name), os.O_RDWR | os.O_CLOEXEC))
    except OSError:
        return False
    return True


def resolved(name: str) -> str | None:
    """Returns the path relative to ROOT with links resolved; None if it does not exist."""
    if not exists(name):
        return None
    return f"/{os.path.relpath(os.path.realpath(path(name)), os.path.realpath(ROOT))}"


def link(name: str) -> str | None:
    """Returns the target of a symbolic link; None if there is none."""
    try:
        return os.readlink(path(name))
    except OSError:
        return None
