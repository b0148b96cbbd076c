# SPDX-License-Identifier: BSD-3-Clause
# Files of the kernel's own file systems. ROOT is another folder in tests.
import os

ROOT = "/"


def path(name):
    return os.path.join(ROOT, name.lstrip("/"))


def read(name):
    """The text of a file without its last newline; None when it cannot be read."""
    try:
        with open(path(name), encoding="utf-8", errors="replace") as file:
            return file.read().rstrip("\n")
    except OSError:
        return None


def read_bytes(name):
    try:
        with open(path(name), "rb") as file:
            return file.read()
    except OSError:
        return b""


def number(name):
    """The number in a file; None when there is none."""
    text = read(name)
    try:
        return int(text, 0) if text else None
    except ValueError:
        return None


def entries(name):
    """The sorted names in a folder; empty when it cannot be read."""
    try:
        return sorted(os.listdir(path(name)))
    except OSError:
        return []


def exists(name):
    return os.path.exists(path(name))


def usable(name):
    """Whether a device file may be opened for reading and writing."""
    return os.access(path(name), os.R_OK | os.W_OK)


def resolved(name):
    """The path behind links, below ROOT; None when there is nothing."""
    if not exists(name):
        return None
    return "/" + os.path.relpath(os.path.realpath(path(name)), os.path.realpath(ROOT))


def link(name):
    """The text of a symbolic link; None when there is none."""
    try:
        return os.readlink(path(name))
    except OSError:
        return None
