"""What threads share: atomic words, single-producer single-consumer rings, and sleep.

Workers run compiled code without the GIL and talk through rings in plain memory. A ring
has one writer and one reader, so that an acquire and a release are all it needs
(Handshake Join §4.2). Who finds nothing to do spins briefly, yields, and then sleeps on
a condition of the C library until somebody who has written for it wakes it. It
announces the sleep and looks once more before it does, so no wake-up is lost; and it
never sleeps longer than :data:`NAP_MS` without looking again.

All memory is named by addresses: words are 64 bits.
"""

from __future__ import annotations

import platform

import numpy as np

from crosswind.kernel.compiled.runtime import fetch, store
from crosswind.kernel.jit import intrinsic, jit
from crosswind.loading import on_demand

__all__ = [
    "EVENT_WORDS",
    "MESSAGE",
    "RING_HEAD",
    "add_atomic",
    "call_box",
    "call_mask",
    "call_recheck",
    "call_scan",
    "call_thresholds",
    "event_init",
    "load_acquire",
    "masks_at",
    "move",
    "nanoseconds",
    "pause",
    "pop",
    "push",
    "reals_at",
    "record_at",
    "rest",
    "row_at",
    "store_release",
    "table_at",
    "usleep",
    "vector_at",
    "wake",
    "words_at",
]

ir = on_demand("llvmlite.ir")
types = on_demand("numba.core.types")
cgutils = on_demand("numba.core.cgutils")
arrayobj = on_demand("numba.np.arrayobj")

MESSAGE = 4
"""Words in a message."""

RING_HEAD = 16
"""Words before the messages of a ring: what has been read, and eight further on (another cache line) written."""

EVENT_WORDS = 32
"""Words of an event: the announcement, a mutex, a condition, and room for a time."""

NAP_MS = 200
YIELDS = 4


def _word():
    return ir.IntType(64)


@intrinsic
def load_acquire(typingctx, address, index):
    """Read word ``index`` at ``address``; what its writer wrote before it is visible after it."""

    def codegen(context, builder, signature, args):
        return builder.load_atomic(_place(builder, args), "acquire", 8)

    return types.int64(types.int64, types.int64), codegen


@intrinsic
def store_release(typingctx, address, index, value):
    """Write word ``index`` at ``address``, after everything that was written before."""

    def codegen(context, builder, signature, args):
        builder.store_atomic(args[2], _place(builder, args), "release", 8)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), codegen


@intrinsic
def add_atomic(typingctx, address, index, value):
    """Add to word ``index`` at ``address``; return what it was."""

    def codegen(context, builder, signature, args):
        return builder.atomic_rmw("add", _place(builder, args), args[2], "seq_cst")

    return types.int64(types.int64, types.int64, types.int64), codegen


@intrinsic
def _fence(typingctx):
    def codegen(context, builder, signature, args):
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return types.void(), codegen


@intrinsic
def pause(typingctx):
    """Tell the processor that this is a loop that waits."""

    def codegen(context, builder, signature, args):
        if platform.machine().lower() in ("x86_64", "amd64"):
            of = ir.FunctionType(ir.VoidType(), [])
            builder.call(cgutils.get_or_insert_function(builder.module, of, "llvm.x86.sse2.pause"), [])
        return context.get_dummy_value()

    return types.void(), codegen


def _place(builder, args):
    return builder.gep(builder.inttoptr(args[0], _word().as_pointer()), [args[1]])


# -- the C library -------------------------------------------------------------


def _library_call(name, arguments):
    """Return signature and code of a call of the C library with that many word arguments; int result."""

    def codegen(context, builder, signature, args):
        of = ir.FunctionType(ir.IntType(32), [_word()] * len(args))
        function = cgutils.get_or_insert_function(builder.module, of, name)
        return builder.sext(builder.call(function, args), _word())

    return types.int64(*([types.int64] * arguments)), codegen


@intrinsic
def _sched_yield(typingctx):
    return _library_call("sched_yield", 0)


@intrinsic
def usleep(typingctx, microseconds):
    """Sleep."""
    return _library_call("usleep", 1)


@intrinsic
def _clock_gettime(typingctx, clock, at):
    return _library_call("clock_gettime", 2)


@intrinsic
def _mutex_init(typingctx, at, attributes):
    return _library_call("pthread_mutex_init", 2)


@intrinsic
def _mutex_lock(typingctx, at):
    return _library_call("pthread_mutex_lock", 1)


@intrinsic
def _mutex_unlock(typingctx, at):
    return _library_call("pthread_mutex_unlock", 1)


@intrinsic
def _condition_init(typingctx, at, attributes):
    return _library_call("pthread_cond_init", 2)


@intrinsic
def _condition_wait(typingctx, at, mutex, until):
    return _library_call("pthread_cond_timedwait", 3)


@intrinsic
def _condition_signal(typingctx, at):
    return _library_call("pthread_cond_signal", 1)


# -- sleeping and waking ---------------------------------------------------------

_MUTEX = 64
_CONDITION = 128
_TIME = 192


@jit()
def nanoseconds(scratch):
    """Return the time of the monotonic clock; ``scratch`` has two words."""
    _clock_gettime(1, scratch)
    return fetch(scratch, 0, np.int64) * 1_000_000_000 + fetch(scratch, 1, np.int64)


@jit()
def event_init(event):
    """Prepare an event: zeros before."""
    _mutex_init(event + _MUTEX, 0)
    _condition_init(event + _CONDITION, 0)


@jit()
def wake(event):
    """Wake whoever sleeps on ``event``, if anybody does."""
    _fence()
    if load_acquire(event, 0) == 1:
        _mutex_lock(event + _MUTEX)
        store_release(event, 0, 0)
        _condition_signal(event + _CONDITION)
        _mutex_unlock(event + _MUTEX)


@jit()
def rest(event, turn, spins):
    """Wait a little, the longer the more turns found nothing; return the next turn.

    The caller looks for work between any two calls, and begins again with turn 0 when it
    has found some.
    """
    if turn < spins:
        pause()
        return turn + 1
    if turn < spins + YIELDS:
        _sched_yield()
        return turn + 1
    if turn == spins + YIELDS:
        store_release(event, 0, 1)
        _fence()
        return turn + 1
    _mutex_lock(event + _MUTEX)
    if load_acquire(event, 0) == 1:
        _clock_gettime(0, event + _TIME)
        later = fetch(event, _TIME // 8 + 1, np.int64) + NAP_MS * 1_000_000
        store(event, _TIME // 8, fetch(event, _TIME // 8, np.int64) + later // 1_000_000_000)
        store(event, _TIME // 8 + 1, later % 1_000_000_000)
        _condition_wait(event + _CONDITION, event + _MUTEX, event + _TIME)
        store_release(event, 0, 0)
    _mutex_unlock(event + _MUTEX)
    return spins


# -- rings -------------------------------------------------------------------------


@jit()
def push(ring, capacity, a, b, c, d):
    """Write a message; False if the ring is full. ``capacity`` is a power of two."""
    tail = fetch(ring, 8, np.int64)
    if tail - load_acquire(ring, 0) >= capacity:
        return False
    at = RING_HEAD + MESSAGE * (tail & (capacity - 1))
    store(ring, at, a)
    store(ring, at + 1, b)
    store(ring, at + 2, c)
    store(ring, at + 3, d)
    store_release(ring, 8, tail + 1)
    return True


@jit()
def pop(ring, capacity, out):
    """Read a message into the words at ``out``; False if there is none."""
    head = fetch(ring, 0, np.int64)
    if head == load_acquire(ring, 8):
        return False
    at = RING_HEAD + MESSAGE * (head & (capacity - 1))
    for k in range(MESSAGE):
        store(out, k, fetch(ring, at + k, np.int64))
    store_release(ring, 0, head + 1)
    return True


@jit()
def move(source, target, capacity, scratch):
    """Move one message from ring to ring, if there is one and room for it."""
    if fetch(target, 8, np.int64) - load_acquire(target, 0) >= capacity or not pop(source, capacity, scratch):
        return False
    push(
        target,
        capacity,
        fetch(scratch, 0, np.int64),
        fetch(scratch, 1, np.int64),
        fetch(scratch, 2, np.int64),
        fetch(scratch, 3, np.int64),
    )
    return True


# -- arrays at addresses, and kernels at addresses ---------------------------------


def _array_at(context, builder, of, address, shape):
    array = context.make_array(of)(context, builder)
    size = context.get_abi_sizeof(context.get_data_type(of.dtype))
    strides, step = [], ir.Constant(_word(), size)
    for length in reversed(shape):
        strides.insert(0, step)
        step = builder.mul(step, length)
    arrayobj.populate_array(
        array,
        data=builder.inttoptr(address, array.data.type),
        shape=shape,
        strides=strides,
        itemsize=ir.Constant(_word(), size),
        meminfo=None,
    )
    return array._getvalue()


@intrinsic
def vector_at(typingctx, address, count):
    """Return the ``count`` words at ``address`` as an array."""
    of = types.Array(types.int64, 1, "C")

    def codegen(context, builder, signature, args):
        return _array_at(context, builder, of, args[0], [args[1]])

    return of(types.int64, types.int64), codegen


@intrinsic
def record_at(typingctx, address, dtype):
    """Return the record at ``address``: its fields are read and written where they are."""
    of = dtype.dtype

    def codegen(context, builder, signature, args):
        return builder.inttoptr(args[0], context.get_value_type(of))

    return of(types.int64, dtype), codegen


@intrinsic
def table_at(typingctx, address, rows, columns):
    """Return the words at ``address`` as an array of two dimensions."""
    of = types.Array(types.int64, 2, "C")

    def codegen(context, builder, signature, args):
        return _array_at(context, builder, of, args[0], [args[1], args[2]])

    return of(types.int64, types.int64, types.int64), codegen


@intrinsic
def reals_at(typingctx, address, rows, columns):
    """Return the doubles at ``address`` as an array of two dimensions."""
    of = types.Array(types.float64, 2, "C")

    def codegen(context, builder, signature, args):
        return _array_at(context, builder, of, args[0], [args[1], args[2]])

    return of(types.int64, types.int64, types.int64), codegen


@intrinsic
def row_at(typingctx, address, count):
    """Return the ``count`` doubles at ``address`` as an array."""
    of = types.Array(types.float64, 1, "C")

    def codegen(context, builder, signature, args):
        return _array_at(context, builder, of, args[0], [args[1]])

    return of(types.int64, types.int64), codegen


@intrinsic
def words_at(typingctx, address, rows, columns):
    """Return the unsigned words at ``address`` as an array of two dimensions."""
    of = types.Array(types.uint64, 2, "C")

    def codegen(context, builder, signature, args):
        return _array_at(context, builder, of, args[0], [args[1], args[2]])

    return of(types.int64, types.int64, types.int64), codegen


@intrinsic
def masks_at(typingctx, address, count):
    """Return the ``count`` unsigned words at ``address`` as an array."""
    of = types.Array(types.uint64, 1, "C")

    def codegen(context, builder, signature, args):
        return _array_at(context, builder, of, args[0], [args[1]])

    return of(types.int64, types.int64), codegen


def _call(letters):
    """Return signature and code of a call of a compiled kernel by its address.

    Its arguments are named by letters: int64 (i), an array of int64 of one dimension (v) or two (t), of uint64 (m and
    u), of float64 (r and f). Every compiled function has a second entrance that passes arrays as plain structures; that
    is the one to be called. So one loop serves all kernels, and is compiled once.
    """
    arrays = {"v": (types.int64, 1), "t": (types.int64, 2), "m": (types.uint64, 1), "u": (types.uint64, 2)}
    arrays |= {"r": (types.float64, 1), "f": (types.float64, 2)}
    arguments = [types.int64 if letter == "i" else types.Array(*arrays[letter], "C") for letter in letters]

    def codegen(context, builder, signature, args):
        of = ir.FunctionType(_word(), [context.get_value_type(kind) for kind in arguments])
        return builder.call(builder.inttoptr(args[0], of.as_pointer()), args[1:])

    return types.int64(types.int64, *arguments), codegen


@intrinsic
def call_box(typingctx, kernel, runs, params, n_runs, probe, spans, order, n_probe, work, out_w, out_i, out_j, state):
    """Call the kernel of :mod:`crosswind.kernel.generated.box` at address ``kernel``."""
    return _call("tfivvvitvvvv")


@intrinsic
def call_scan(typingctx, kernel, win, lens, n_win, probe, n_probe, out_w, out_i, out_j, state):
    """Call the scan of :mod:`crosswind.kernel.generated.scan` at address ``kernel``."""
    return _call("tvivivvvv")


@intrinsic
def call_recheck(typingctx, kernel, win, probe, out_w, out_i, out_j, count, state):
    """Call the recheck of :mod:`crosswind.kernel.generated.scan` at address ``kernel``."""
    return _call("tvvvviv")


@intrinsic
def call_thresholds(typingctx, kernel, probe, n, outs, spans, plans, ends, f):
    """Call the kernel of :mod:`crosswind.kernel.generated.thresholds` at address ``kernel``."""
    return _call("vivvuur")


@intrinsic
def call_mask(typingctx, kernel, win, probe, out_w, out_i, out_j, count, given, table, masks, state):
    """Call the kernel of :mod:`crosswind.kernel.generated.mask` at address ``kernel``."""
    return _call("tvvvviivmv")
