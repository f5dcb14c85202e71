"""The JSON schema of job files, for editors that complete and check TOML as it is typed."""

from __future__ import annotations

from typing import Any

from crosswind.io.jobform import JOB, SECTIONS, SINKS, SOURCES, SPARK, JobForm, JobKey

__all__ = ["job_schema"]

_TEXT: dict[str, Any] = {"type": "string", "pattern": "\\S"}
_KINDS: dict[str, dict[str, Any]] = {
    "text": _TEXT,
    "verbatim": _TEXT,
    "texts": {"anyOf": [_TEXT, {"type": "array", "items": _TEXT}]},
    "integer": {"type": "integer", "minimum": 1},
    "flag": {"type": "boolean"},
    "settings": {"type": "object", "additionalProperties": {"type": ["string", "number", "boolean"]}},
    "types": {"type": "object", "additionalProperties": _TEXT},
    "expressions": {"type": "object", "minProperties": 1, "additionalProperties": _TEXT},
    "layout": {"anyOf": [_TEXT, {"type": "array", "items": {"type": "integer", "minimum": 1}}]},
}


def job_schema() -> dict[str, Any]:
    """Return the JSON schema (draft 2020-12) of job files.

    Examples
    --------
    >>> from crosswind.io.jobschema import job_schema
    >>> job_schema()["properties"]["job"]["properties"]["engine"]["enum"]
    ['spark', 'local']
    """
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Crosswind job file",
        "type": "object",
        "properties": {
            "job": _table(JOB),
            "streams": {
                "type": "object",
                "description": "A section for each stream of the query.",
                "minProperties": 1,
                "additionalProperties": {"oneOf": [_table(form) for form in SOURCES.values()]},
            },
            "sink": {"oneOf": [_table(form, kind) for kind, form in SINKS.items()]},
            "spark": _table(SPARK),
        },
        "required": [name for name in SECTIONS if name != "spark"],
        "additionalProperties": False,
    }


def _table(form: JobForm, kind: str = "") -> dict[str, Any]:
    table: dict[str, Any] = {
        "type": "object",
        "description": form.about,
        "properties": {key.name: _value(key, kind) for key in form.keys},
        "required": [key.name for key in form.keys if key.required],
        "additionalProperties": False,
    }
    if form.either:
        table["oneOf"] = [{"required": [name]} for name in form.either]
    return table


def _value(key: JobKey, kind: str) -> dict[str, Any]:
    value = {**_KINDS[key.kind], "description": key.about}
    if key.kind == "flag" and kind:
        value["const"] = kind == key.name  # it is what tells sinks apart
    if key.allowed:
        value = {"enum": list(key.allowed), "description": key.about}
    if key.default is not None:
        value["default"] = key.default
    return value
