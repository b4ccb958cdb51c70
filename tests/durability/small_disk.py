#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: BSD-3-Clause
"""Trains on disks of every size, from full to large enough. Runs must end cleanly and resume."""

import ctypes
import errno
import os
import shutil
import subprocess
import sys
import time
from collections import Counter

import runs
from runs import CONFIG, SMALL_MODEL, Failure, Reference, Skipped, require

STEPS = 5
PAGE = 4096  # bytes
CI_STEP = 3  # pages; --full tests every size
INODES = 14  # more than a run needs for its files, folders and a temporary file
IN_NAMESPACE = "TAPESTRY_IN_NAMESPACE"  # set if the test runs in a separate mount namespace
MS_REMOUNT = 32
MNT_DETACH = 2

libc = ctypes.CDLL(None, use_errno=True)


def enter_namespace(folder):
    """Restarts the test in a namespace where it may mount file systems, and removes `folder`.
    throws Skipped if that is not allowed."""
    if IN_NAMESPACE in os.environ:
        return
    unshare = ["unshare", "-m" if os.geteuid() == 0 else "-rm"]
    if not shutil.which("unshare"):
        raise Skipped("unshare was not found; apt-get install util-linux")
    tried = subprocess.run([*unshare, "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True,
                           text=True, check=False)
    if tried.returncode != 0:
        raise Skipped(f"namespaces are not allowed here: {tried.stderr.strip()}")
    os.environ[IN_NAMESPACE] = "1"
    folder.rmdir()
    os.execvp("unshare", [*unshare, sys.executable, "-B", *sys.argv])


class Disk:
    """A file system in memory with a number of pages and inodes; 0 inodes: no limit."""

    def __init__(self, folder, pages, inodes=0):
        self.folder = folder
        folder.mkdir()
        self._mount(0, max(pages, 1), inodes)
        if pages == 0:  # a size of 0 would mean no limit: use the only page
            (folder / "taken").write_bytes(b"x")

    def grow(self):
        (self.folder / "taken").unlink(missing_ok=True)
        self._mount(MS_REMOUNT, 0, 0)

    def remove(self):
        # MNT_DETACH, because a process that another thread started may have inherited open files.
        if libc.umount2(os.fsencode(self.folder), MNT_DETACH) != 0:
            raise OSError(ctypes.get_errno(), f"umount {self.folder}")
        self.folder.rmdir()

    def used_pages(self):
        status = os.statvfs(self.folder)
        return (status.f_blocks - status.f_bfree) * status.f_bsize // PAGE

    def _mount(self, flags, pages, inodes):
        options = f"size={pages * PAGE},nr_inodes={inodes}".encode()
        if libc.mount(b"none", os.fsencode(self.folder), b"tmpfs", flags, options) != 0:
            raise OSError(ctypes.get_errno(), f"mount {self.folder}")


class Disks:
    """Runs on disks of given sizes."""

    def __init__(self, options, folder):
        config = CONFIG if options.full else SMALL_MODEL
        self.program, self.folder = options.program, folder
        self.reference = Reference(options.program, folder, STEPS, config=config)

    def make_run(self, name):
        """A run, and the folder of its run directory, where a disk can be mounted."""
        run = self.reference.run(self.program, self.folder / name)
        return run, run.folder / "runs"

    def enough_pages(self):
        """The number of pages that a run needs: for the files that it keeps and one checkpoint."""
        run, place = self.make_run("enough")
        disk = Disk(place, 1 << 20)
        require(run.execute(run.train()).code == 0, "a run on a large disk failed")
        size = run.checkpoint(STEPS).stat().st_size
        pages = disk.used_pages() + -(-size // PAGE)
        disk.remove()
        return pages

    def train_on(self, pages, inodes=0):
        """Trains on a disk of that size, then resumes after the disk has grown. Returns the exit
        code of the first run."""
        run, place = self.make_run(f"{pages}-{inodes}")
        disk = Disk(place, pages, inodes)
        outcome = run.execute(run.train())
        try:
            self._check(run, outcome)
            if inodes:
                # Without inodes for the first save, the run is rejected before it creates its log.
                require(run.steps() or not (run.directory / "train.log").exists(),
                        "a run started that could not save a checkpoint")
            disk.grow()
            self.reference.finish(run)
            self.reference.check_clean(run)
        except Failure as failure:
            disk_text = f"a disk of {pages} pages, for {inodes or 'any number of'} files"
            raise Failure(f"{disk_text}: {failure}\n{outcome}") from failure
        finally:
            disk.remove()
        shutil.rmtree(run.folder)
        return outcome.code

    def _check(self, run, outcome):
        require(outcome.code in (0, 5), "expected exit code 0 or 5")
        self.reference.check_clean(run)
        if outcome.code == 0:
            self.reference.check_finished(run)
            return
        for step in run.steps():
            self.reference.check_bytes(run, step)
        require(os.strerror(errno.ENOSPC) in outcome.err and "\nhint: " in outcome.err,
                "expected an error about missing space")


def test(options, folder):
    enter_namespace(folder)
    begin = time.monotonic()
    disks = Disks(options, folder)
    enough = disks.enough_pages()
    sizes = range(0, enough + CI_STEP, 1 if options.full else CI_STEP)
    codes = runs.each(disks.train_on, sizes, options.jobs)
    by_files = runs.each(lambda inodes: disks.train_on(enough, inodes), range(2, INODES + 1),
                         options.jobs)
    require(codes[-1] == 0 and by_files[-1] == 0, "a run failed on a disk that is large enough")
    require(codes[0] == 5 and by_files[0] == 5, "a run succeeded on a full disk")
    count = Counter(codes)
    first_enough = sizes[codes.index(0)]
    print(f"{len(codes):,} disks from 0 to {sizes[-1]:,} pages of {PAGE} bytes, "
          f"{time.monotonic() - begin:.0f} s: {count[0]:,} were enough (from {first_enough:,} "
          f"pages on), on {count[5]:,} the run ended with exit code 5")
    print(f"{len(by_files)} disks for 2 to {INODES} files: {Counter(by_files)[5]} ended with 5")
    print("no file was left over or damaged; with more space every run ended with the same bytes")


if __name__ == "__main__":
    sys.exit(runs.main(test, runs.parse_arguments(__doc__)))
