"""The sections of a job file: tables of TOML that check what they are asked for and know their names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from crosswind.errors import InputError, JobError, did_you_mean
from crosswind.io.environment import UnsetVariableError, fill_in, is_secret_name
from crosswind.io.jobform import JobForm, JobKey
from crosswind.io.schemas import type_from_text

__all__ = ["Section"]


class Section:
    """One table of the document, which knows its name for the sake of messages.

    Parameters
    ----------
    path : Path
        The job file.
    name : str
        The name of the section, empty for the whole document.
    values : mapping
        What it holds.
    """

    def __init__(self, path: Path, name: str, values: Mapping[str, Any]) -> None:
        self.path = path
        self.name = name
        self.values = values

    def error(self, message: str) -> JobError:
        """Return an error that names the file and the section."""
        return JobError(f"{self.path}: {f'[{self.name}]: ' if self.name else ''}{message}")

    def allow_only(self, keys: Iterable[str]) -> None:
        """Refuse keys other than ``keys``."""
        allowed = tuple(keys)
        for key in self.values:
            if key not in allowed:
                kind = "key" if self.name else "section"
                hint = did_you_mean(key, allowed)
                raise self.error(f"unknown {kind} '{key}'. Allowed: {', '.join(allowed)}.{hint}")

    def check(self, form: JobForm) -> None:
        """Refuse what ``form`` does not allow: unknown keys, missing ones, values of the wrong kind."""
        self.allow_only(form.names)
        if form.either and sum(name in self.values for name in form.either) != 1:
            raise self.error(form.neither)
        for key in form.keys:
            if key.name in self.values:
                self._check_value(key)
            elif key.required:
                raise self.error(key.missing or f"the key '{key.name}' is missing.")

    def _check_value(self, key: JobKey) -> None:
        match key.kind:
            case "text" if key.allowed:
                self.choice(key.name, key.allowed)
            case "text" | "verbatim":
                self.text(key.name, verbatim=key.kind == "verbatim")
            case "texts":
                self.texts(key.name)
            case "integer":
                self.integer(key.name)
            case "flag":
                self.flag(key.name)
            case "settings":
                self.settings(key.name)
            case "types":
                if not self.types() and key.required:
                    raise self.error(key.missing)
            case "expressions":
                self.expressions(key.name)
            case "layout":
                self.layout(key.name)

    def section(self, name: str) -> Section:
        """Return the section ``name`` inside this one."""
        full = f"{self.name}.{name}" if self.name else name
        values = self.values.get(name)
        if values is None:
            raise self.error(f"the section [{full}] is missing.")
        if not isinstance(values, dict):
            raise self.error(f"'{name}' must be a section, [{full}], got {_found(values)}.")
        return Section(self.path, full, values)

    def text(self, key: str, default: str | None = None, *, verbatim: bool = False) -> str:
        """Return a text that is not empty, with variables of the environment filled in unless ``verbatim``."""
        value = self.values.get(key, default)
        if value is None:
            raise self.error(f"the key '{key}' is missing.")
        if not isinstance(value, str) or not value.strip():
            raise self.error(f"'{key}' must be a text that is not empty, got {_found(value)}.")
        return value if verbatim else self._filled(key, value)

    def _filled(self, key: str, value: str, *, secret: bool = False) -> str:
        try:
            return fill_in(value, secret=secret)
        except UnsetVariableError as unset:
            raise self.error(
                f"'{key}' asks for the environment variable {unset}, which is not set. Set it before you run the job: "
                f"export {unset}=...   (to write the characters themselves: $${{...}})"
            ) from None

    def texts(self, key: str) -> tuple[str, ...]:
        """Return a list of texts, which may be written as one text; empty where there is none."""
        value = self.values.get(key, [])
        listed = [value] if isinstance(value, str) else value
        if not isinstance(listed, list) or not all(isinstance(item, str) and item.strip() for item in listed):
            raise self.error(f"'{key}' must be a text or a list of texts, got {_found(value)}.")
        return tuple(self._filled(key, item) for item in listed)

    def integer(self, key: str, default: int | None = None, *, least: int = 1) -> int:
        """Return a whole number."""
        value = self.values.get(key, default)
        if value is None:
            raise self.error(f"the key '{key}' is missing.")
        if not isinstance(value, int) or isinstance(value, bool):
            raise self.error(f"'{key}' must be a whole number, got {_found(value)}.")
        if value < least:
            raise self.error(f"'{key}' must be at least {least}, got {value}.")
        return value

    def flag(self, key: str) -> bool:
        """Return true or false; false where there is none."""
        value = self.values.get(key, False)
        if not isinstance(value, bool):
            raise self.error(f"'{key}' must be true or false, got {_found(value)}.")
        return value

    def choice(self, key: str, allowed: tuple[str, ...], default: str | None = None) -> str:
        """Return one of ``allowed``."""
        value = self.text(key, default)
        if value not in allowed:
            written = str(self.values[key])
            raise self.error(f"'{key}' is '{written}'. Allowed: {', '.join(allowed)}.{did_you_mean(written, allowed)}")
        return value

    def layout(self, key: str) -> str | tuple[int, ...]:
        """Return the name of a layout, or the sides of a grid."""
        value = self.values.get(key, "auto")
        if not isinstance(value, list):
            return self.text(key, "auto")
        if not value or not all(isinstance(side, int) and not isinstance(side, bool) and side > 0 for side in value):
            raise self.error(f"'{key}' must be a name or a list of positive whole numbers, got {_found(value)}.")
        return tuple(value)

    def expressions(self, key: str) -> dict[str, str]:
        """Return a table of texts that is not empty."""
        table = self.section(key)
        if not table.values:
            raise table.error(
                "no column is given. Write name = 'SQL over value and timestamp', such as x = 'value % 10'."
            )
        return {name: table.text(name, verbatim=True) for name in table.values}

    def settings(self, key: str) -> dict[str, str]:
        """Return a table of plain values as texts, as Spark takes them; empty where there is none."""
        if key not in self.values:
            return {}
        table = self.section(key)
        settings = {}
        for name, value in table.values.items():
            if not isinstance(value, str | int | float):
                raise table.error(f"'{name}' must be a text, a number or true/false, got {_found(value)}.")
            if isinstance(value, bool):
                settings[name] = str(value).lower()
            else:
                settings[name] = table._setting(name, str(value))
        return settings

    def _setting(self, name: str, value: str) -> str:
        if is_secret_name(name) and "${" not in value.replace("$${", ""):
            variable = re.sub(r"\W", "_", name.rpartition(".")[2]).upper()
            raise self.error(
                f"'{name}' is a secret, and secrets do not belong in a file. Put it in the environment, and write "
                f"'{name}' = '${{{variable}}}' here."
            )
        return self._filled(name, value, secret=True)

    def types(self) -> dict[str, pa.DataType]:
        """Return the types under ``schema``, by column; empty where there are none."""
        if "schema" not in self.values:
            return {}
        schema = self.section("schema")
        types = {}
        for column in schema.values:
            try:
                types[column] = type_from_text(schema.text(column))
            except InputError as error:
                raise schema.error(f"column '{column}': {error}") from error
        return types


def _found(value: object) -> str:
    kinds = {bool: "true/false", int: "number", float: "number", str: "text", list: "array", dict: "table"}
    return f"the {kinds.get(type(value), type(value).__name__)} {value!r}"
