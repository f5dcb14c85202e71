"""``crosswind schema``: the JSON schema of job files."""

from __future__ import annotations

import json as json_module

import click

__all__ = ["schema"]


@click.command()
@click.option("--json", "as_json", is_flag=True, help="On one line; it is JSON either way.")
def schema(as_json: bool) -> None:
    """Print the JSON schema of job files.

    Editors complete and check job files with it: save it beside them, and begin them with the line

    #:schema ./crosswind.schema.json
    """
    from crosswind.io.jobschema import job_schema

    click.echo(json_module.dumps(job_schema(), indent=None if as_json else 2))
