"""Cycles and instructions of the inner loop, by the processor's own counters where Linux hands them out."""

from __future__ import annotations

import ctypes
import os
import platform
import struct
from collections.abc import Callable

__all__ = ["cycles_per_instruction"]

_CALL = {"x86_64": 298, "aarch64": 241}
_SIZE = 112
_CYCLES, _INSTRUCTIONS = 0, 1
_DISABLED, _NO_KERNEL, _NO_HYPERVISOR = 1 << 0, 1 << 5, 1 << 6
_RESET, _ENABLE, _DISABLE = 0x2403, 0x2400, 0x2401


def cycles_per_instruction(run: Callable[[], object]) -> float | None:
    """Return the cycles per instruction of ``run``; None where counters cannot be read, as in virtual machines."""
    number = _CALL.get(platform.machine()) if platform.system() == "Linux" else None
    if number is None:
        return None
    libc = ctypes.CDLL(None, use_errno=True)
    counters: list[int] = []
    try:
        for event in (_CYCLES, _INSTRUCTIONS):
            attributes = ctypes.create_string_buffer(_SIZE)
            struct.pack_into("IIQ", attributes, 0, 0, _SIZE, event)
            struct.pack_into("Q", attributes, 40, _DISABLED | _NO_KERNEL | _NO_HYPERVISOR)
            opened = libc.syscall(number, attributes, 0, -1, -1, 0)
            if opened < 0:
                return None
            counters.append(opened)
        for action in (_RESET, _ENABLE):
            for counter in counters:
                libc.ioctl(counter, action, 0)
        run()
        for counter in counters:
            libc.ioctl(counter, _DISABLE, 0)
        cycles, instructions = (struct.unpack("Q", os.read(counter, 8))[0] for counter in counters)
    finally:
        for counter in counters:
            os.close(counter)
    return cycles / instructions if instructions else None
