"""Tests in separate Linux namespaces, where they may mount file systems and add networks."""

import contextlib
import ctypes
import os
import shutil
import subprocess
import sys

from runs import Skipped

IN_NAMESPACES = "TAPESTRY_IN_NAMESPACES"  # set once the test has separate namespaces
MS_REMOUNT = 32
MNT_DETACH = 2

libc = ctypes.CDLL(None, use_errno=True)


def enter_namespaces(kinds, trial, folder):
    """Starts the test again in separate namespaces, and removes the folder of this attempt.

    kinds   of namespaces, as options of unshare: "m" for mounts, "n" for networks
    trial   a command that works only where the namespaces are allowed
    throws  Skipped where they are not.
    """
    if IN_NAMESPACES in os.environ:
        return
    flags = [f"-{kinds}" if os.geteuid() == 0 else f"-r{kinds}"]
    if not shutil.which("unshare"):
        raise Skipped("unshare was not found; apt-get install util-linux")
    tried = subprocess.run(["unshare", *flags, *trial], capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        raise Skipped(f"namespaces are not allowed here: {tried.stderr.strip()}")
    os.environ[IN_NAMESPACES] = "1"
    folder.rmdir()
    os.execvp("unshare", ["unshare", *flags, sys.executable, "-B", *sys.argv])


class Disk:
    """A file system in memory with this number of pages and files."""

    PAGE = 4096  # bytes

    def __init__(self, folder, pages, inodes=0):
        self.folder = folder
        folder.mkdir()
        self._mount(0, max(pages, 1), inodes)
        if pages == 0:  # a size of 0 means no limit; so the only page is taken
            (folder / "taken").write_bytes(b"x")

    def fill(self):
        """Takes the space that is left, until grow()."""
        with open(self.folder / "taken", "ab", buffering=0) as file, contextlib.suppress(OSError):
            while file.write(bytes(self.PAGE)):
                pass

    def grow(self):
        (self.folder / "taken").unlink(missing_ok=True)
        self._mount(MS_REMOUNT, 0, 0)

    def remove(self):
        # A process that another thread starts holds our open files for a moment.
        if libc.umount2(os.fsencode(self.folder), MNT_DETACH) != 0:
            raise OSError(ctypes.get_errno(), f"umount {self.folder}")
        self.folder.rmdir()

    def used_pages(self):
        status = os.statvfs(self.folder)
        return (status.f_blocks - status.f_bfree) * status.f_bsize // self.PAGE

    def _mount(self, flags, pages, inodes):
        options = f"size={pages * self.PAGE},nr_inodes={inodes}".encode()
        if libc.mount(b"none", os.fsencode(self.folder), b"tmpfs", flags, options) != 0:
            raise OSError(ctypes.get_errno(), f"mount {self.folder}")
