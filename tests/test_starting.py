"""How a job begins: ``init``, ``check``, ``schema``, secrets from the environment, shell completion."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from urllib.parse import quote

import jsonschema
import pytest
from click.testing import CliRunner

from crosswind.cli.main import crosswind
from crosswind.errors import JobError
from crosswind.io import environment
from crosswind.io.job import load_job
from crosswind.io.jobform import JOB, SINKS, SOURCES, SPARK
from crosswind.io.jobschema import job_schema
from tests import test_job

ROOT = Path(__file__).parent.parent
VALIDATOR = jsonschema.Draft202012Validator(job_schema())
STRUCTURE = re.compile(r"unknown (key|section)|must be|is missing|Allowed: (spark|parquet|csv|earliest|jsonl)|not both")
"""Mistakes that a schema can find; others need the files, the query, or the values."""


def invoke(*arguments: str):
    return CliRunner().invoke(crosswind, list(arguments))


@pytest.fixture(autouse=True)
def forget_secrets(monkeypatch):
    monkeypatch.setattr(environment, "_filled_in", {})


# -- the schema is that of the files ------------------------------------------------------------


def job_files() -> list[tuple[str, str]]:
    found = [(path.name, path.read_text()) for path in (ROOT / "examples").rglob("*.toml")]
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        blocks = re.findall(r"^```toml file=(\S+)\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE)
        found += [(f"{page.name}:{name}", text) for name, text in blocks if name != "wrong.toml"]
    return found


@pytest.mark.parametrize(("name", "text"), job_files(), ids=lambda value: value if len(value) < 60 else "")
def test_the_schema_takes_what_documentation_and_examples_show(name, text):
    VALIDATOR.validate(tomllib.loads(text))


def wrong_jobs():
    """Yield the job files of test_job.py that are refused, and how."""
    for name, base in (
        ("test_a_mistake_is_reported_with_its_place", test_job.MINIMAL),
        ("test_a_mistake_in_a_job_for_spark_is_reported_with_its_place", test_job.ON_SPARK),
    ):
        (mark,) = getattr(test_job, name).pytestmark
        for old, new, message in mark.args[1]:
            yield pytest.param(base.replace(old, new, 1), message, id=message[:40])


@pytest.mark.parametrize(("text", "message"), list(wrong_jobs()))
def test_the_schema_refuses_what_the_loader_refuses_for_its_form(text, message, tmp_path):
    (tmp_path / "r.csv").write_text("x,ts\n1,10\n")
    (tmp_path / "job.toml").write_text(text)
    with pytest.raises(JobError) as caught:
        load_job(tmp_path / "job.toml")
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return
    if STRUCTURE.search(str(caught.value)) and "unknown type" not in str(caught.value):
        assert not VALIDATOR.is_valid(document), f"the loader says: {caught.value}"


def test_the_schema_takes_the_largest_job(tmp_path):
    source = Path(test_job.__file__).read_text()
    for text in re.findall(r'load\(\s*folder,\s*"""(.*?)"""', source, re.DOTALL):
        VALIDATOR.validate(tomllib.loads(text))


def test_every_key_is_on_the_page_of_job_files():
    page = (ROOT / "docs" / "jobs.md").read_text()
    keys = {key.name for form in [JOB, SPARK, *SOURCES.values(), *SINKS.values()] for key in form.keys}
    missing = sorted(name for name in keys if f"`{name}`" not in page)
    assert not missing, f"docs/jobs.md does not name {missing}"


def test_schema_prints_it():
    assert json.loads(invoke("schema").stdout) == job_schema()
    assert json.loads(invoke("schema", "--json").stdout) == job_schema()


# -- init and check -----------------------------------------------------------------------------


def test_a_starter_is_written_and_in_order_and_runs(tmp_path):
    folder = tmp_path / "try"
    done = invoke("init", str(folder), "--json")
    assert json.loads(done.stdout)["written"][0] == "job.toml"
    VALIDATOR.validate(tomllib.loads((folder / "job.toml").read_text()))
    checked = invoke("check", str(folder / "job.toml"))
    assert (checked.exit_code, "in order" in checked.stdout) == (0, True), checked.output
    ran = invoke("run", str(folder / "job.toml"), "--json")
    assert json.loads(ran.stdout)["results"] > 10, ran.output


def test_a_starter_does_not_write_over_anything(tmp_path):
    (tmp_path / "job.toml").write_text("mine")
    done = invoke("init", str(tmp_path))
    assert done.exit_code == 1
    assert "job.toml is there already. Name another folder" in done.stderr
    assert (tmp_path / "job.toml").read_text() == "mine"
    assert not (tmp_path / "alarms.csv").exists()
    assert invoke("init", "--force", str(tmp_path)).exit_code == 0


def test_check_finds_mistakes_in_the_query_and_warns(tmp_path):
    (tmp_path / "r.csv").write_text("x,ts\n1,10\n")
    (tmp_path / "s.csv").write_text("a,ts\n1,10\n")
    text = (
        '[job]\nengine = "local"\nquery = "SELECT R.x FROM R [RANGE 5], R [RANGE 5] AS q WHERE R.x * q.x > 9"\n'
        '[streams.R]\npath = "r.csv"\n[streams.S]\npath = "s.csv"\n[sink]\nconsole = true\n'
    )
    path = tmp_path / "job.toml"
    path.write_text(text)
    findings = json.loads(invoke("check", "--json", str(path)).stdout)
    assert findings["ok"] is True
    assert findings["streams"]["R"]["columns"] == {"x": "int64", "ts": "int64"}
    assert findings["warnings"][0] == "[streams.S] is not used by the query"
    assert "every pair is compared" in findings["warnings"][1]
    path.write_text(text.replace("R.x *", "R.y *"))
    failed = invoke("check", "--json", str(path))
    assert failed.exit_code == 1
    assert json.loads(failed.stdout)["ok"] is False
    assert "y" in json.loads(failed.stdout)["error"]
    assert invoke("check", str(path)).stderr.startswith("error: ")


def test_check_says_what_only_spark_can_tell(tmp_path):
    path = tmp_path / "job.toml"
    path.write_text(test_job.ON_SPARK)
    done = invoke("check", str(path))
    assert done.exit_code == 0, done.output
    assert "the columns of S are known to Spark only" in done.stdout
    assert "topic r at localhost:9092" in done.stdout


# -- secrets ------------------------------------------------------------------------------------

WITH_OPTIONS = """
[job]
query = "SELECT * FROM R [NOW], R [NOW] AS q WHERE '${KEPT}' = '${KEPT}'"
[streams.R]
kafka = "${SERVERS}"
topic = "r"
schema = { x = "int32", ts = "timestamp[ms]" }
options = { "kafka.ssl.key.password" = "${KEY_PASSWORD}", plain = "a$${b}" }
[sink]
memory = "found"
"""


def test_values_come_from_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("SERVERS", "one:9092")
    monkeypatch.setenv("KEY_PASSWORD", "hunter2hunter2")
    path = tmp_path / "job.toml"
    path.write_text(WITH_OPTIONS)
    job = load_job(path)
    (source,) = job.sources
    assert source.servers == "one:9092"
    assert source.options == {"kafka.ssl.key.password": "hunter2hunter2", "plain": "a${b}"}
    assert "'${KEPT}'" in job.query
    for command in (["check"], ["check", "--json"], ["explain"]):
        done = invoke(*command, str(path))
        assert done.exit_code == 0, done.output
        assert "hunter2" not in done.output


def test_secrets_are_taken_out_of_errors(tmp_path, monkeypatch):
    monkeypatch.setenv("SERVERS", "one:9092")
    monkeypatch.setenv("KEY_PASSWORD", "hunter2hunter2")
    path = tmp_path / "job.toml"
    path.write_text(WITH_OPTIONS.replace("[NOW] AS q", "[NOW] AS hunter2hunter2, T [NOW]"))
    done = invoke("check", str(path))
    assert done.exit_code == 1
    assert "hunter2hunter2" not in done.output
    assert "${KEY_PASSWORD}" in done.output


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("", "", r"'kafka' asks for the environment variable SERVERS, which is not set. .*export SERVERS="),
        ("${KEY_PASSWORD}", "abc", "'kafka.ssl.key.password' is a secret.*environment, and write .*PASSWORD"),
        ("${KEY_PASSWORD}", "$${KEY_PASSWORD}", "is a secret, and secrets do not belong in a file"),
    ],
)
def test_a_secret_that_is_missing_or_written_out_is_refused(tmp_path, monkeypatch, old, new, message):
    monkeypatch.delenv("SERVERS", raising=False)
    text = WITH_OPTIONS.replace(old, new, 1) if old else WITH_OPTIONS
    (tmp_path / "job.toml").write_text(text.replace("${SERVERS}", "a:1") if old else text)
    with pytest.raises(JobError, match=message) as caught:
        load_job(tmp_path / "job.toml")
    assert "abc" not in str(caught.value)


LEAKY = """
[job]
name = "job of ${API_KEY}"
query = "SELECT * FROM R [NOW], R [NOW] AS q"
engine = "local"
[streams.R]
path = "${MY_SECRET}/r*.csv"
[sink]
path = "${MY_SECRET}/out.csv"
"""


def test_secrets_in_paths_are_shown_as_variables(tmp_path, monkeypatch):
    folder = tmp_path / "p4ssw0rd of mine"
    folder.mkdir()
    (folder / "r1.csv").write_text("x,ts\n1,1\n")
    monkeypatch.setenv("MY_SECRET", folder.name)
    monkeypatch.setenv("API_KEY", "k3y-k3y-k3y")
    path = tmp_path / "job.toml"
    path.write_text(LEAKY)
    wrong = {
        "no such file": ("r*.csv", "none*.csv"),
        "not its format": ('csv"\n[sink]', 'csv"\nformat = "parquet"\n[sink]'),
        "no such column": ('csv"\n[sink]', 'csv"\ntime = "when"\n[sink]'),
        "no such folder": ("/out.csv", "/none/out.csv"),
    }
    for old, new in (("", ""), *wrong.values()):
        path.write_text(LEAKY.replace(old, new))
        for command in (["check"], ["check", "--json"], ["explain"], ["run", "--log", "json"], ["run", "--json"]):
            done = invoke(*command, str(path))
            assert done.exit_code == bool(old), done.output
            assert "p4ssw0rd" not in done.output
            assert "k3y" not in done.output
            assert "${MY_SECRET}" in done.output or command == ["explain"]
    path.write_text(LEAKY)
    shown = repr(load_job(path))
    assert "p4ssw0rd" not in shown
    assert "${MY_SECRET}/out.csv" in shown


def test_secrets_in_options_do_not_show_in_check_or_repr(tmp_path, monkeypatch):
    """``check`` shows servers and topics, which may hold what an option holds, too."""
    monkeypatch.setenv("SERVERS", "one:9092")
    monkeypatch.setenv("KEY_PASSWORD", "hunter2hunter2")
    path = tmp_path / "job.toml"
    path.write_text(WITH_OPTIONS.replace('topic = "r"', 'topic = "r-${KEY_PASSWORD}"'))
    for command in (["check"], ["check", "--json"]):
        done = invoke(*command, str(path))
        assert done.exit_code == 0, done.output
        assert "topic r-${KEY_PASSWORD} at one:9092" in done.output
        assert "hunter2" not in done.output
    assert "hunter2" not in repr(load_job(path))
    assert "'kafka.ssl.key.password': '${KEY_PASSWORD}'" in repr(load_job(path))


SECRET_NAMES = [
    "password",
    "kafka.ssl.key.password",
    "keyStorePassword",
    "passphrase",
    "ssl.passphrase",
    "passwd",
    "db_pwd",
    "apikey",
    "api_key",
    "api-key",
    "apiKey",
    "x.api.key",
    "credential",
    "my.credentials",
    "token",
    "sasl.token",
    "auth_token",
    "tokens",
    "accessToken",
    "secret",
    "client.secret",
    "clientSecret",
    "secretKey",
    "aws.secret.access.key",
    "access.key",
    "accessKeyId",
    "account.key",
    "fs.azure.account.key.me",
    "ssl.keystore.key",
    "private_key",
    "kafka.sasl.jaas.config",
]

PLAIN_NAMES = [
    "kafka.security.protocol",
    "fs.s3a.aws.credentials.provider",
    "sasl.oauthbearer.token.endpoint.url",
    "maxOffsetsPerTrigger",
    "spark.security.credentials.kafka.enabled",
    "ssl.truststore.location",
    "key",
    "keyword",
    "spark.redaction.regex",
]


@pytest.mark.parametrize("name", SECRET_NAMES)
def test_these_options_are_secrets(tmp_path, monkeypatch, name):
    monkeypatch.setenv("SERVERS", "one:9092")
    path = tmp_path / "job.toml"
    for written in ('"abc"', "123456"):
        path.write_text(re.sub("options = .*", f'options = {{ "{name}" = {written} }}', WITH_OPTIONS))
        with pytest.raises(JobError, match=f"'{name}' is a secret, and secrets do not belong in a file") as caught:
            load_job(path)
        assert not {"abc", "123456"} & set(str(caught.value).split())


@pytest.mark.parametrize("name", PLAIN_NAMES)
def test_these_options_are_none(name):
    assert not environment.is_secret_name(name)


@pytest.mark.parametrize(
    "shown",
    ["{plain}", "cannot open '{plain}'", "{plain!r}", "file:/{address}/x.csv", '{{"value": {json}}}', "line 2: {line}"],
    ids=["plain", "in quotes", "repr", "address", "json", "a line"],
)
def test_secrets_are_recognised_however_they_are_written(monkeypatch, shown):
    secret = "a 'quoted' \"one\"\\with\na second line"
    monkeypatch.setenv("ANY", secret)
    environment.fill_in("${ANY}", secret=True)
    forms = {"plain": secret, "address": quote(secret), "json": json.dumps(secret), "line": secret.splitlines()[1]}
    told = environment.redact(shown.format(**forms))
    assert "second" not in told
    assert "quoted" not in told
    assert "${ANY}" in told


def test_a_password_inside_a_login_is_hidden_alone(monkeypatch):
    monkeypatch.setenv("LOGIN", 'ScramLoginModule required username="me" password="hunter2hunter2";')
    environment.fill_in("${LOGIN}", secret=True)
    assert environment.redact("refused: me with hunter2hunter2") == "refused: me with ${LOGIN}"


def test_a_traceback_has_no_secrets(tmp_path):
    code = (
        "import sys\nfrom crosswind.cli import main\nfrom crosswind.io import environment\n"
        "def fail(**_):\n    environment.fill_in('${TOKEN}')\n    raise RuntimeError('with s3cret-s3cret')\n"
        "main.crosswind = fail\nmain.main()\n"
    )
    environ = {**os.environ, "TOKEN": "s3cret-s3cret"}
    done = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 1
    assert "RuntimeError: with ${TOKEN}" in done.stderr
    assert "s3cret" not in done.stderr.replace("'with s3cret-s3cret'", "")


# -- the rest -----------------------------------------------------------------------------------


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_a_script(shell):
    assert "_CROSSWIND_COMPLETE" in invoke("completion", shell).stdout
    assert json.loads(invoke("completion", shell, "--json").stdout)["shell"] == shell


def test_completion_completes():
    done = CliRunner().invoke(
        crosswind,
        prog_name="crosswind",
        env={"_CROSSWIND_COMPLETE": "bash_complete", "COMP_WORDS": "crosswind ch", "COMP_CWORD": "1"},
    )
    assert "check" in done.stdout


def test_every_command_speaks_json():
    def leaves(command, name=""):
        for child in getattr(command, "commands", {}).values():
            yield from leaves(child, f"{name} {child.name}".strip())
        if not hasattr(command, "commands"):
            yield name, command

    silent = [name for name, command in leaves(crosswind) if all("--json" not in p.opts for p in command.params)]
    assert not silent, f"no --json: {silent}"


def test_a_secret_that_begins_with_another_one_is_taken_out_whole(monkeypatch):
    monkeypatch.setenv("SHORT", "hunter")
    monkeypatch.setenv("LONG", "hunter-and-gatherer")
    for name in ("SHORT", "LONG"):
        environment.fill_in(f"${{{name}}}", secret=True)
    assert environment.redact("got hunter-and-gatherer, hunter") == "got ${LONG}, ${SHORT}"
