"""The command line."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

CLI = "test_cli.py"
STARTING = "test_starting.py"

ENTRIES = [
    Mutant(
        "secrets-in-errors",
        "main.py",
        "raise _Failure(redact(str(error))) from error",
        "raise _Failure(str(error)) from error",
        "errors show secrets",
        f"{STARTING}::test_secrets_are_taken_out_of_errors test_starting.py",
    ),
    Mutant(
        "interrupted-is-success",
        "main.py",
        "ctx.exit(EXIT_INTERRUPTED)",
        "ctx.exit(0)",
        "a job that Ctrl-C stopped looks as if it had ended well",
        f"{CLI}::test_an_interruption_stops_the_demo_with_what_was_done",
    ),
    Mutant(
        "broken-pipe-is-success",
        "main.py",
        "ctx.exit(EXIT_BROKEN_PIPE)",
        "ctx.exit(0)",
        "a reader that went away is not told to the shell",
        f"{CLI}::test_a_reader_that_goes_away_is_no_error",
    ),
    Mutant(
        "nearest-rank",
        "report.py",
        "max(0, -int(-q * len(ranked) // 1) - 1)",
        "max(0, int(q * len(ranked) // 1) - 1)",
        "quantiles are one rank too low",
        f"{CLI}::test_figures",
    ),
    Mutant(
        "rejected-not-reported",
        "run.py",
        "progress.rejected = dict(stats.rejected)",
        "progress.rejected = {}",
        "tuples without a time are left out without a word",
        f"{CLI}::test_run_reports_what_was_left_out",
    ),
    Mutant(
        "committed-before-the-end",
        "run.py",
        "            writer.write(join.finish())\n            writer.commit()",
        "            writer.commit()\n            writer.write(join.finish())",
        "the last results are not in the file",
        f"{CLI}::test_run_writes_what_comes_out_in_the_end",
    ),
    Mutant(
        "stream-given-twice",
        "explain.py",
        "        if name in found:\n",
        "        if name in ():\n",
        "of two columns lists for a stream the last one wins",
        f"{CLI}::test_wrong_usage_is_explained",
    ),
    Mutant(
        "unused-stream",
        "check.py",
        "unused = [name for name in known if name not in",
        "unused = [name for name in () if name not in",
        "a stream that the query does not read is not told",
        f"{STARTING}::test_check_finds_mistakes_in_the_query_and_warns",
    ),
    Mutant(
        "secrets-printed",
        "report.py",
        "click.echo(redact(text), err=err)",
        "click.echo(text, err=err)",
        "check and explain print secrets",
        STARTING,
    ),
    Mutant(
        "secrets-in-tracebacks",
        "main.py",
        "sys.stderr.write(redact(",
        "sys.stderr.write(str(",
        "an unexpected error prints secrets",
        STARTING,
    ),
    Mutant(
        "fallen-behind",
        "replay.py",
        "measured.behind_s_max = max(measured.behind_s_max, clock.now() - due)",
        "measured.behind_s_max = min(measured.behind_s_max, clock.now() - due)",
        "the demo does not say that it fell behind",
        f"{CLI}::test_replay_keeps_the_streams_pace_as_far_as_the_join_does",
    ),
    Mutant(
        "sigterm-kills",
        "main.py",
        "    heed_termination()\n",
        "",
        "SIGTERM ends a job without clearing up",
        "test_sinks.py::test_a_job_that_is_ended_leaves_nothing_behind",
    ),
    Mutant(
        "reports-tell-secrets",
        "report.py",
        "click.echo(redact(text), err=err)",
        "click.echo(text, err=err)",
        "check prints a secret that errors hide",
        "test_starting.py::test_secrets_in_options_do_not_show_in_check_or_repr",
    ),
]
