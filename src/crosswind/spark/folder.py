"""The folder of a checkpoint: the logs of offsets and commits that Spark keeps there, as text."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import fs as files

from crosswind.errors import InputError, SnapshotError

__all__ = ["CheckpointFolder", "FolderDraft"]

_PARTITIONS = "spark.sql.shuffle.partitions"
_VERSION = "v1"
_VERSIONED = re.compile(r"(\.?)(\d+)(\.(?:zip|changelog|delta|snapshot)(?:\.crc)*)")
"""The files of a version of the state: a point if hidden, the version, the rest."""


class CheckpointFolder:
    """A checkpoint in a file system: a local path, or a URI that Arrow can open (``hdfs://``, ``s3://``, ...).

    Parameters
    ----------
    path : str or Path
        The ``checkpointLocation`` of a streaming query.
    """

    def __init__(self, path: Any) -> None:
        self.path = str(path).rstrip("/") or "/"
        plain = self.path.removeprefix("file://").removeprefix("file:") if self.path.startswith("file:") else self.path
        try:
            if "://" in plain:
                self.files, self.root = files.FileSystem.from_uri(plain)
                self.uri = plain
            else:
                self.files, self.root = files.LocalFileSystem(), str(Path(plain).resolve())
                self.uri = f"file://{self.root}"
            is_there = self.files.get_file_info(self.root).type == files.FileType.Directory
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"the checkpoint {self.path} cannot be opened: {error}") from None
        if not is_there:
            raise InputError(
                f"there is no checkpoint at {self.path}: no such folder. Give the checkpointLocation of a query that "
                f"has run."
            )

    @property
    def is_local(self) -> bool:
        """Whether it is on this machine's own disk."""
        return isinstance(self.files, files.LocalFileSystem)

    # -- logs ------------------------------------------------------------------

    def planned(self) -> int:
        """Return the last micro-batch whose offsets are known."""
        return self._last("offsets")

    def committed(self) -> int:
        """Return the last micro-batch that was committed; raise InputError if there is none."""
        done = self._last("commits")
        if self._last("offsets") < 0:
            raise InputError(
                f"{self.path} is no checkpoint of a streaming query, or it has not run: it has no log of offsets. Give "
                f"the checkpointLocation of a query that has run."
            )
        if done < 0:
            raise InputError(f"the query of the checkpoint {self.path} has not finished its first micro-batch.")
        if self._last("offsets") < done:
            raise self._damaged(f"offsets/{done}", "it is missing, and the micro-batch is committed")
        return done

    def _last(self, log: str) -> int:
        return max((int(name) for name in self.names(log) if name.isdigit()), default=-1)

    def offsets(self, batch: int) -> tuple[dict[str, Any], list[str]]:
        """Return the settings and watermark of a micro-batch, and the offsets of its sources."""
        name = f"offsets/{batch}"
        lines = self.read(name).splitlines()
        return self._description(name, lines), lines[2:]

    def commit(self, batch: int) -> dict[str, Any]:
        """Return what is known of a committed micro-batch."""
        name = f"commits/{batch}"
        return self._description(name, self.read(name).splitlines())

    def watermark(self, batch: int) -> int:
        """Return Spark's watermark, in milliseconds, of the micro-batch after ``batch``."""
        after = int(self.commit(batch).get("nextBatchWatermarkMs", 0))
        return max(after, int(self.offsets(batch)[0].get("batchWatermarkMs", 0)))

    def partitions(self, batch: int) -> int:
        """Return into how many partitions the state is divided."""
        conf = self.offsets(batch)[0].get("conf", {})
        try:
            return int(conf[_PARTITIONS])
        except (LookupError, ValueError):
            raise self._damaged(f"offsets/{batch}", "it does not tell the number of partitions") from None

    def _description(self, name: str, lines: list[str]) -> dict[str, Any]:
        if lines and lines[0] != _VERSION:
            raise SnapshotError(
                f"the checkpoint {self.path} was written by another version of Spark: {name} is of version "
                f"{lines[0][:20]!r}, this one reads {_VERSION}."
            )
        try:
            content = json.loads(lines[1])
        except (LookupError, ValueError):
            raise self._damaged(name, "it is not what Spark writes") from None
        return content if isinstance(content, dict) else {}

    def _damaged(self, name: str, how: str) -> SnapshotError:
        return SnapshotError(
            f"the checkpoint {self.path} is damaged: {name}: {how}. Restore the folder from a copy, or start with a "
            f"new checkpointLocation."
        )

    def query_id(self) -> str:
        """Return by what Spark knows the query."""
        try:
            return str(json.loads(self.read("metadata"))["id"])
        except (LookupError, ValueError, TypeError):
            raise self._damaged("metadata", "it does not name the query") from None

    # -- files -----------------------------------------------------------------

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder, none if it is missing."""
        selector = files.FileSelector(f"{self.root}/{folder}", allow_not_found=True)
        return [entry.base_name for entry in self.files.get_file_info(selector)]

    def read(self, name: str) -> str:
        """Return a file as text."""
        try:
            with self.files.open_input_stream(f"{self.root}/{name}") as stream:
                return bytes(stream.read()).decode()
        except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
            raise self._damaged(name, " ".join(str(error).split())) from None


class FolderDraft:
    """A new checkpoint in the making: it has its name only when all of it is there.

    Parameters
    ----------
    source : CheckpointFolder
        The checkpoint that it is made from.
    path : str or Path, optional
        A folder that does not exist yet, in the same file system. If it is left out the new checkpoint takes the place
        of the old one, which is kept under another name.
    """

    def __init__(self, source: CheckpointFolder, path: Any = None) -> None:
        self._source, self._files = source, source.files
        self.path = source.path if path is None else str(path).rstrip("/")
        self._root = source.root if path is None else self._rooted()
        self._uri = f"file://{self._root}" if source.is_local else self.path
        self._before = f"{source.root}.before-{source.committed()}" if path is None else None
        self._part, self._made = f"{self._root}.part", 0
        for name, taken in (("to", None if path is None else self._root), ("the way back", self._before)):
            if taken is not None and not self._is_missing(taken):
                raise InputError(f"{name}: {taken} exists already; give a folder that does not exist yet as to=.")

    def _rooted(self) -> str:
        """Return where ``path`` is in the file system of the source."""
        local = self.path.removeprefix("file://").removeprefix("file:")
        if self._source.is_local and "://" not in local:
            return str(Path(local).resolve())
        try:
            other, root = files.FileSystem.from_uri(self.path)
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"to={self.path!r} cannot be opened: {error}") from None
        if type(other) is not type(self._files):
            raise InputError(f"to={self.path!r} is in another file system than the checkpoint {self._source.path}.")
        return str(root)

    def __enter__(self) -> FolderDraft:
        if not self._is_missing(self._part):
            raise InputError(
                f"{self._part} is there: another rescale is at work, or one was interrupted. If none is, delete it."
            )
        self._files.create_dir(self._part)
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        try:
            if kind is None:
                self._edit_states(self._moved)
                self._put_in_place()
        finally:
            self._files.delete_dir(self._part)

    def _put_in_place(self) -> None:
        """Give the new checkpoint its name; whatever comes in between, an interrupt too, the old one has it back."""
        try:
            if self._before is not None:
                self._files.move(self._root, self._before)
            self._files.move(f"{self._part}/checkpoint", self._root)
        except BaseException:
            if self._before is not None and self._is_missing(self._root):
                self._files.move(self._before, self._root)
            raise

    def _is_missing(self, path: str) -> bool:
        return bool(self._files.get_file_info(path).type == files.FileType.NotFound)

    @property
    def uri(self) -> str:
        """Where it is while it is in the making, as Spark writes it."""
        return f"{self._uri}.part/checkpoint"

    def scratch(self) -> str:
        """Return the URI of a folder of its own, which goes away with the draft."""
        self._made += 1
        return f"{self._uri}.part/scratch-{self._made}"

    def copy(self, without: Sequence[int] = ()) -> None:
        """Copy the checkpoint, save the partitions of the operators ``without``."""
        root = self._source.root
        for entry in self._files.get_file_info(files.FileSelector(root, recursive=True)):
            name = entry.path.removeprefix(root).lstrip("/")
            parts = name.split("/")
            left_out = parts[0] == "state" and len(parts) > 3 and int(parts[1]) in without and parts[2].isdigit()
            if entry.type == files.FileType.File and not left_out:
                self._files.create_dir(f"{self._part}/checkpoint/{name}".rpartition("/")[0])
                self._files.copy_file(entry.path, f"{self._part}/checkpoint/{name}")

    def take_state(self, made: str, operator: int, version: int) -> None:
        """Take version 1 of the state that was written at ``made`` as ``version`` of an operator."""
        root = f"{self._part}{made.removeprefix(f'{self._uri}.part')}"
        for entry in self._files.get_file_info(files.FileSelector(root, recursive=True)):
            partition, _, name = entry.path.removeprefix(root).lstrip("/").partition("/")
            if entry.type != files.FileType.File or not partition.isdigit():
                continue
            if not name.startswith("SSTs/"):  # 1.zip, or .1.zip.crc
                hidden, _, rest = name.rpartition("1.zip")
                name = f"{hidden}{version}.zip{rest}"
            place = f"{self._part}/checkpoint/state/{operator}/{partition}/{name}"
            self._files.create_dir(place.rpartition("/")[0])
            self._files.move(entry.path, place)

    def set_partitions(self, batch: int, partitions: int) -> None:
        """Say in the logs that the state has so many partitions."""

        def told(content: dict[str, Any]) -> None:
            content["conf"][_PARTITIONS] = str(partitions)

        def divided(content: dict[str, Any]) -> None:
            for store in content.get("stateStoreInfo", []):
                store["numPartitions"] = partitions

        self._edit_log("offsets", batch, told)
        self._edit_states(divided)

    def fold(self, batch: int, partitions: int) -> None:
        """Let the micro-batch after ``batch``, in which Spark has repartitioned the state, become ``batch`` itself.

        Spark's file sink never sees that micro-batch, and fails some batches later because it is missing.
        """
        for log in ("offsets", "commits"):
            self._remove(f"{log}/{batch}")
            self._files.move(f"{self._part}/checkpoint/{log}/{batch + 1}", f"{self._part}/checkpoint/{log}/{batch}")
            self._remove(f"{log}/{batch + 1}")
        root = f"{self._part}/checkpoint/state/"
        for entry in self._files.get_file_info(files.FileSelector(root, recursive=True)):
            if entry.type != files.FileType.File:
                continue
            parts = entry.path.removeprefix(root).split("/")
            version = _VERSIONED.fullmatch(parts[-1])
            if parts[1] == "_metadata":
                self._fold_metadata("/".join(parts), batch)
            elif parts[1].isdigit() and (int(parts[1]) >= partitions or (version and int(version[2]) < batch + 2)):
                self._files.delete_file(entry.path)
            elif version and int(version[2]) == batch + 2:
                folded = f"{version[1]}{batch + 1}{version[3]}"
                self._files.move(entry.path, f"{entry.path.rpartition('/')[0]}/{folded}")

    def _fold_metadata(self, name: str, batch: int) -> None:
        """Let what was said of the state after the next micro-batch be said after ``batch``."""
        folder, _, base = name.rpartition("/")
        if base == str(batch + 1):
            self._remove(f"state/{folder}/{batch}")
            root = f"{self._part}/checkpoint/state/{folder}"
            self._files.move(f"{root}/{base}", f"{root}/{batch}")
            self._remove(f"state/{folder}/{base}")

    def lag(self, batch: int, milliseconds: int) -> None:
        """Move Spark's watermark: it was behind that of the join by ``milliseconds`` more than it is to be."""

        def moved(content: dict[str, Any]) -> None:
            for name in ("batchWatermarkMs", "nextBatchWatermarkMs"):
                if content.get(name, 0) > 0:
                    content[name] = max(1, content[name] + milliseconds)

        if milliseconds:
            self._edit_log("offsets", batch, moved)
            self._edit_log("commits", batch, moved)

    # -- files -----------------------------------------------------------------

    def _names(self, folder: str) -> list[str]:
        selector = files.FileSelector(f"{self._part}/checkpoint/{folder}", allow_not_found=True)
        return [entry.base_name for entry in self._files.get_file_info(selector)]

    def _edit_log(self, log: str, batch: int, change: Callable[[dict[str, Any]], None]) -> None:
        """Change what a log says of ``batch`` and those after it."""
        for name in self._names(log):
            if name.isdigit() and int(name) >= batch:
                self._edit(f"{log}/{name}", change)

    def _edit_states(self, change: Callable[[dict[str, Any]], None]) -> None:
        """Change what is said of the state of each operator."""
        for name in self._names("state"):
            for version in self._names(f"state/{name}/_metadata/v2"):
                if version.isdigit():
                    self._edit(f"state/{name}/_metadata/v2/{version}", change)

    def _moved(self, content: dict[str, Any]) -> None:
        """Spark notes where schemas of state are with their whole path."""
        root = f"file:{self._root}" if self._source.is_local else self._uri
        for store in content.get("stateStoreInfo", []):
            paths = store.get("stateSchemaFilePaths", [])
            store["stateSchemaFilePaths"] = [f"{root}/state/{path.rpartition('/state/')[2]}" for path in paths]

    def _edit(self, name: str, change: Callable[[dict[str, Any]], None]) -> None:
        """Change the description in the second line of a file; its checksums go."""
        path = f"{self._part}/checkpoint/{name}"
        with self._files.open_input_stream(path) as stream:
            lines = bytes(stream.read()).decode().split("\n")
        content = json.loads(lines[1])
        change(content)
        lines[1] = json.dumps(content, separators=(",", ":"))
        self._remove(name)
        with self._files.open_output_stream(path) as out:
            out.write("\n".join(lines).encode())

    def _remove(self, name: str) -> None:
        """Remove a file and its checksums, as far as they are there."""
        folder, _, base = f"{self._part}/checkpoint/{name}".rpartition("/")
        for entry in self._files.get_file_info(files.FileSelector(folder)):
            if entry.base_name.removeprefix(".").removesuffix(".crc").removesuffix(".crc") == base:
                self._files.delete_file(entry.path)
