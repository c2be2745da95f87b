"""Takes the free memory of a virtual machine back from its host before a measurement.

A guest with free page reporting returns memory to its host about two seconds after it was freed. The next program that
touches it waits for the host, up to 3 ms per megabyte: more than decoding takes, and at random. Elsewhere this costs less
than a second and changes nothing.
"""

import mmap
import os

# Most programs here take less.
DEFAULT_BYTES = 2 << 30
# Linux 5.14; Python 3.11 has no name for it.
MADV_POPULATE_WRITE = 23


def take_back(size=DEFAULT_BYTES):
    """Touches this many bytes of free memory, at most half of what is available, and frees them again."""
    pages = os.sysconf("SC_AVPHYS_PAGES")
    size = min(size, pages * mmap.PAGESIZE // 2) // mmap.PAGESIZE * mmap.PAGESIZE
    if size == 0:
        return

    with mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        memory.madvise(mmap.MADV_HUGEPAGE)
        try:
            memory.madvise(MADV_POPULATE_WRITE)
        except OSError:
            for start in range(0, size, mmap.PAGESIZE):
                memory[start] = 1
