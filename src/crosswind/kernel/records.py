"""The records that Python writes and compiled code reads: words of 64 bits with names.

A kernel gets the address of a record and reads fields by name, ``record_at(address, OP).bits``. Python has the same
memory as a NumPy record, ``record["bits"]``; where it writes on every push it has the words beside it, and their
indices from :func:`word_of`, since NumPy takes its time to find a field.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = [
    "ALL",
    "BOARD",
    "BOARD_BYTES",
    "BOUND",
    "BOUND_BYTES",
    "BOUND_MEMBER",
    "BOUND_MEMBER_BYTES",
    "CHUNK",
    "CHUNK_BYTES",
    "COLUMN",
    "COLUMN_BYTES",
    "COLUMN_JOB",
    "COLUMN_JOB_BYTES",
    "COLUMN_OUT",
    "COLUMN_PLACE",
    "COLUMN_PLACE_BYTES",
    "COPY",
    "COPY_BYTES",
    "COPY_JOB",
    "COPY_JOB_BYTES",
    "EMIT",
    "FOLLOW_DONE",
    "FOLLOW_FAULTED",
    "FOLLOW_FULL",
    "FOLLOW_PAUSED",
    "FOLLOW_SHORT",
    "FORM",
    "FORM_BYTES",
    "FORM_COLUMN",
    "FORM_COLUMN_BYTES",
    "KEEP",
    "LIMITS",
    "LIMITS_BYTES",
    "LIMIT_TABLE",
    "LIMIT_TABLE_BYTES",
    "LINKED_KEY",
    "LINKED_KEY_BYTES",
    "LINKS",
    "LINKS_BYTES",
    "MASK_ROW",
    "MEMBER_PLACE",
    "MEMBER_PLACE_BYTES",
    "MEMBER_ROWS",
    "MESSAGE_FAULT",
    "MESSAGE_JOB",
    "MESSAGE_JOB_BYTES",
    "MESSAGE_KINDS",
    "MESSAGE_MATCHES",
    "NUMBER_ROW",
    "OP",
    "PAIRS",
    "PHASE",
    "PHASE_BYTES",
    "PLACE_ROW",
    "PRODUCT",
    "RESULTS",
    "SEARCH",
    "SEAT",
    "SIGNAL_ACK",
    "SIGNAL_DATA",
    "SIGNAL_EXPIRE",
    "SIGNAL_FLUSH",
    "SIGNAL_HURRY",
    "STAND",
    "START",
    "STEP_DONE",
    "STEP_IDLE",
    "STEP_MORE",
    "STEP_STUCK",
    "TASK",
    "TASK_BOX",
    "TASK_BYTES",
    "TASK_PAIRS",
    "TASK_WORDS",
    "TIME_ROW",
    "TURN",
    "TURN_BYTES",
    "TURN_UNIT",
    "TURN_UNIT_BYTES",
    "WINDOW_ROW",
    "new_record",
    "word_of",
]


def _record(*names: str | tuple[str, Any]) -> np.dtype[np.void]:
    """Return a record of words; a name with a number is that many, one with a record as many times its words."""
    fields: list[Any] = []
    for name in names:
        if isinstance(name, str):
            fields.append((name, np.int64))
        else:
            fields.append((name[0], np.int64, name[1]) if isinstance(name[1], int) else (name[0], *name[1]))
    return np.dtype(fields, align=True)


def word_of(record: np.dtype[np.void], name: str) -> int:
    """Return the index of the first word of a field."""
    return int(record.fields[name][1]) // 8 if record.fields else 0


def new_record(record: np.dtype[np.void]) -> tuple[npt.NDArray[np.int64], Any]:
    """Return a record of zeros, as words and as what has names: the same memory."""
    words = np.zeros(record.itemsize // 8, dtype=np.int64)
    return words, words.view(record)[0]


# -- combinations -------------------------------------------------------------

MASK_ROW = 0
"""Combinations are the columns of a matrix of *cells*. This row holds the terms (as bits) that they may belong to."""

WINDOW_ROW, PLACE_ROW, TIME_ROW, NUMBER_ROW = 1, 2, 3, 4
"""Rows of the first member: number of its basic window, place in it, time, sequence number."""

MEMBER_ROWS = 4
"""Rows of each member: those of the second come after those of the first."""

# -- the ops of a route (crosswind.kernel.compiled.follow) -----------------------

START, SEARCH, ALL, PRODUCT, EMIT, KEEP, STAND = 1, 2, 3, 4, 5, 6, 7
"""Kinds of ops."""

FOLLOW_DONE, FOLLOW_FAULTED, FOLLOW_FULL, FOLLOW_SHORT, FOLLOW_PAUSED = 0, -1, -2, -3, -4
"""What comes of following: done; an overflow; no room for results, for texts; or a pause."""

OP = _record(
    "kind",
    # Addresses of ops (0: none).
    "parent",
    "child",
    "sibling",
    # Addresses of the ops whose combinations are taken; those of the latter have nothing to do with the search.
    "input",
    "beside",
    # The terms that go this way.
    "bits",
    "members",
    # The combinations that were made: where, for how many there is room, how many there are.
    "cells",
    "room",
    "count",
    # Whether they are complete: then they are only noted, and put together when written down.
    "lean",
    # How many have been made, or, by a product, looked at, in all.
    "made",
    # Combinations that go on: which those of the input are, and of the other one.
    "chosen",
    "chosen_2",
    # Combinations that some term wants, and what they may meet.
    "want",
    "ends",
    "in_room",
    "bound",
    "aside",
    "limits",
    "counted",
    # The window that is searched, and which of its basic windows are; that of the second of a pair.
    "runs",
    "run_columns",
    "items",
    "first",
    "last",
    "params",
    "table",
    "table_columns",
    "lengths",
    "runs_2",
    "run_columns_2",
    "items_2",
    # Addresses of kernels, and of what they read. Where there are two, one is of combinations, one of groups of them.
    "thresholds",
    "plans",
    "plan_rows",
    "threshold_ends",
    "threshold_columns",
    "threshold_room",
    "outs",
    ("probe", 2),
    "spans",
    "order",
    "present",
    # Where the numbers are by which probes are put in order (0: they stay as they are).
    "sorts",
    "box",
    "recheck",
    "scan",
    "mask",
    "mask_table",
    "mask_probe",
    ("ins", 2),
    "n_ins",
    ("pair", 2),
    # The state of the search from word 0, of the recheck from 8, of masks from 16.
    "state",
    "work",
    # Which check found an overflow: 1 a search, 2 a recheck, 3 a mask.
    "fault",
    # Matches, and for how many there is room; from `next` on they are to be gone on with.
    "found_w",
    "found_i",
    "found_j",
    "match_room",
    "found",
    "next",
    "next_2",
    "probes",
    # Matches of groups, given to their members.
    "spread_w",
    "spread_i",
    "spread_j",
    # Columns that the search reads; bytes that are missing for texts, and in which column of which side.
    "columns",
    "n_columns",
    "need",
    "need_at",
    # Groups of combinations that look for the same.
    "refers",
    "n_refers",
    "group_table",
    "group_size",
    "group_of",
    "group_order",
    "group_starts",
    "groups",
    "loose",
    "reps",
    "given",
    "masks",
    # New tuples: where, how many, how many have been taken, how many are taken at a time.
    "times",
    "numbers",
    "start_masks",
    "size",
    "cursor",
    "step",
    # What some combination may meet of all that waits.
    "low",
    "high",
    "low_number",
    "high_number",
    # How many members a product adds.
    "grown",
    # Where results are written, and where which member goes; where pairs are noted.
    "results",
    "places",
    "pairs",
)

COLUMN_OUT = _record("values", "valids", "texts", "text_room", "hashes")
"""Where a column goes: bytes of texts and for how many there is room; hashes (0: none)."""

COLUMN = _record("member", "width", "values", "valids", "texts", "nulls", ("out", (COLUMN_OUT, 2)))
"""A column that a search reads: whose it is, bytes of a value (0: texts), where it is, and, for either side, where it
goes. The addresses are those of tables of addresses, by basic window."""

COLUMN_BYTES = COLUMN.itemsize

RESULTS = _record("at", "room", "count")
"""What a query has found: where it is written, for how many there is room, and how many there are."""

PAIRS = _record("at", "room", "count")
"""Pairs that stand: where they are noted, for how many there is room, and how many there are."""

# -- windows of terms (crosswind.kernel.compiled.combine, written by crosswind.engine.probe.bounds) ---------

TURN = _record("ordered", "units")
"""What is being joined in the order: whether anything is (there are ROWS windows), how many units there are; a
:data:`TURN_UNIT` each follows, then for any two units where it is written how many tuples of the second come before
each of those of the first that are being joined."""

TURN_UNIT = _record("base", "size")
"""The number of the first tuple of a unit that is being joined (-1: none is), and how many are."""

BOUND = _record("members", "age", "since", "count", "target", "counted")
"""What may be met in a window: how many members there are, greatest age (-1: any), since when, how many tuples wait,
the unit, whether sequence numbers matter; a :data:`BOUND_MEMBER` each follows."""

BOUND_MEMBER = _record("age", "count", "unit")
"""A member: greatest age, how many wait, its unit."""

LIMITS = _record("by_age", "by_count", "since_length", "since_sizes", "since_bits")
"""Whose windows are long enough: how many tables there are by age, and by count; then the table of beginnings. The
units of the members follow, and the tables, each a :data:`LIMIT_TABLE`."""

LIMIT_TABLE = _record("member", "length", "sizes", "bits")
"""A member's table: sizes, rising, and for each the terms whose windows are as long."""

TURN_BYTES, TURN_UNIT_BYTES = TURN.itemsize, TURN_UNIT.itemsize
BOUND_BYTES, BOUND_MEMBER_BYTES = BOUND.itemsize, BOUND_MEMBER.itemsize
LIMITS_BYTES, LIMIT_TABLE_BYTES = LIMITS.itemsize, LIMIT_TABLE.itemsize

# -- workers of a handshake's row (crosswind.kernel.compiled.crew, crosswind.kernel.compiled.handshake) ----------------

SEAT = _record(
    "index",
    # Address of the crew's flags: stop, and eight words on cancel.
    "flags",
    "event",
    # Address of the coordinator's event.
    "main",
    "capacity",
    "spins",
    "results",
    # Two rings that messages come from (0: none), two that they are handed on to, and the events there.
    ("inbox", 2),
    ("outbox", 2),
    ("next", 2),
    # Twice the addresses of runs, tuples and probes of matches, and for how many there is room.
    ("buffers", 6),
    "room",
    # Address of two words: whether the coordinator still reads a buffer; which one is being filled.
    "taken",
    "turn",
    # Address of words for states, a message and a time.
    "scratch",
    "work",
    # Microseconds to sleep at most before each message, at random: for tests of scheduling.
    "delay",
    "noise",
    "busy",
    "tasks",
    "found",
    # Matches in the buffer that is being filled, and a word on whose they are.
    "filled",
    "about",
    # Address of the task that is under way (0: none); then its phase, and whether that is to be begun.
    "now",
    "phase",
    "fresh",
    # Chunks of the first stream that are here: from, to.
    "r_low",
    "r_high",
    # Chunks of the second: from; from which on they have not been sent on; to. What has been sent but not acknowledged
    # can still be met here.
    "s_low",
    "s_sent",
    "s_high",
    # At the end of the row: chunks before these have expired.
    "r_gone",
    "s_gone",
    # Chunks before these are to be sent on whatever the neighbour has (0: none).
    "r_flush",
    "s_flush",
    "board",
    # The index of the last worker.
    "last",
    # Address of two words: messages sent to neighbours, messages handled.
    "counts",
    "handled",
    # Address of two words: tuples held of each stream; then the neighbour's on the left, and on the right.
    "sizes",
    "left_sizes",
    "right_sizes",
    # Addresses of room for bounds of sequence numbers, a chunk long; for a probe table, a pair table, a task.
    "lows",
    "highs",
    "probe",
    "pair",
    "task",
    # The message that is under way (kind 0: none): its kind, from where it came, what it says.
    "got",
    "side",
    "a",
    "b",
    # From which side the next is taken first.
    "turn_side",
    # At the end of the row: tuples of each stream that are about to go, and have been taken off the number held
    # already, so that neighbours send others while they are still met.
    ("owed", 2),
)
"""A worker's seat: which rings, buffers and events are its own, what it does, and where in the row it is."""

TASK = _record(
    "kind",
    "kernel",
    "recheck",
    "runs",
    "run_columns",
    "items",
    "params",
    "probe",
    "spans",
    "table",
    "table_columns",
    "pair",
    "lengths",
    # Room that the kernel must find in a buffer to get anywhere.
    "need",
    # Basic windows that are looked through before anything else is thought of, such as being called off.
    "slice",
    "phases",
)
"""A task; a :data:`PHASE` each follows."""

PHASE = _record("first", "last", "order", "count")
"""A phase of a task: first run, last, which probes (address and count, or first and end)."""

TASK_WORDS = 64
"""Words that there are for a task with its phases, and for a table of probes."""

TASK_BOX, TASK_PAIRS = 1, 2
"""Kinds of tasks."""

STEP_IDLE, STEP_DONE, STEP_STUCK, STEP_MORE = 0, 1, 2, 3
"""What came of a step: nothing to do, done, a buffer is missing, there is more of the task; less than 0: minus an
unknown kind of message."""

MESSAGE_MATCHES, MESSAGE_FAULT = 1, 2
"""Kinds of messages that workers post."""

MESSAGE_KINDS = 16

SIGNAL_DATA, SIGNAL_ACK, SIGNAL_EXPIRE, SIGNAL_FLUSH, SIGNAL_HURRY = 1, 2, 3, 4, 5
"""Kinds of messages in the row."""

BOARD = _record(
    # Address of the table of chunks, the number of its first, and the first that has not met everything.
    "chunks",
    "base",
    "met",
    "runs",
    "items",
    "run_columns",
    "params",
    "table",
    "table_columns",
    "lengths",
    "starts",
)
"""What describes the window of a unit to all workers."""

CHUNK = _record("first", "end", "template", "order", "count", "tuple", "about")
"""A chunk: sequence numbers from and to, a task to begin with, probes, its first tuple in its block, whose it is."""

TASK_BYTES, PHASE_BYTES = TASK.itemsize, PHASE.itemsize
BOARD_BYTES, CHUNK_BYTES = BOARD.itemsize, CHUNK.itemsize

# -- windows that are written and linked (crosswind.kernel.compiled.arrange) --------------------------------

COPY_JOB = _record("column", "target", "what")
"""What is written: which column (-2: times, -1: sequence numbers), address to write to, bytes of a value (times
``FLOAT_KEY`` where it is to be a key of floats)."""

COPY = _record("first", "end", "length", "links")
"""A copy of a window: its first job, and the one after its last; how many tuples there are, which goes on; and the
address of its :data:`LINKS` (0: none)."""

LINKS = _record("last", "cells", "before", "keys")
"""Links of a basic window (:mod:`crosswind.window.links`): address of the last tuple of each hash, how many of these
there are, address of the tuples before, how many keys; a :data:`LINKED_KEY` each follows."""

LINKED_KEY = _record("at", "width")
"""Where a key is, and its bytes."""

COPY_JOB_BYTES, COPY_BYTES = COPY_JOB.itemsize, COPY.itemsize
LINKS_BYTES, LINKED_KEY_BYTES = LINKS.itemsize, LINKED_KEY.itemsize

# -- rows (crosswind.kernel.compiled.gather) -----------------------------------------------------------------

COLUMN_JOB = _record("base", "table", "which", "rows", "out", "width", "count")
"""A column to be fetched: address of the values (or 0, then address of a table of such addresses, and of the numbers
that say which), address of the rows (0: one after the other), where in the memory, bytes of a value, count."""

MESSAGE_JOB = _record("done", "memory", "form", "count", "members", "words")
"""A message to be written: 1 if it could be done (where there are nulls it cannot); the address to write to; that of a
:data:`FORM`; rows; members; how many words follow. These are a :data:`MEMBER_PLACE` for each member of each part, or,
without members, a :data:`COLUMN_PLACE` for each column."""

MEMBER_PLACE = _record("columns", "step", "times", "nulls", "which", "rows", "count")
"""Where a member is: address of a table of where columns are, bytes in it from one to the next, address of the times,
of what says by column whether there are nulls, of the numbers of basic windows, of the rows, and how many these are.
Without numbers of basic windows (0) the table has the columns themselves, else of each the addresses in all basic
windows."""

COLUMN_PLACE = _record("base", "table", "which", "rows")
"""Where a column is: the first four of a :data:`COLUMN_JOB`."""

FORM = _record("size", "columns", "bytes_at", "rows_at", "nodes_at", "buffers_at")
"""The form of messages (:class:`crosswind.io.message.Form`): words of the head, columns; where in the head the bytes
of all columns are noted, the rows, the rows of the first column, and where that is (the others follow). A
:data:`FORM_COLUMN` each follows, then the head."""

FORM_COLUMN = _record("width", "member", "index")
"""Bytes of a value; whose the column is, and which of its columns (-1: its times)."""

MESSAGE_JOB_BYTES, MEMBER_PLACE_BYTES, COLUMN_PLACE_BYTES = (
    MESSAGE_JOB.itemsize,
    MEMBER_PLACE.itemsize,
    COLUMN_PLACE.itemsize,
)
COLUMN_JOB_BYTES, FORM_BYTES, FORM_COLUMN_BYTES = COLUMN_JOB.itemsize, FORM.itemsize, FORM_COLUMN.itemsize
