"""The lab: verdicts, noise, the papers' models and chips."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

VERDICTS = "lab/test_verdicts.py"

ENTRIES = [
    Mutant(
        "simulation-always-right",
        "verdict.py",
        "if worst > ERROR_MAX:",
        "if worst > 10 * ERROR_MAX:",
        "a simulation that is 74 % off agrees with its paper",
        f"{VERDICTS}::test_a_value_is_inside_its_tolerance_or_outside_or_too_near",
    ),
    Mutant(
        "near-is-agreement",
        "verdict.py",
        "verdict = AGREES if all(inside) else",
        "verdict = AGREES if any(inside) else",
        "two runs of the same machine give two verdicts",
        f"{VERDICTS}::test_a_value_is_inside_its_tolerance_or_outside_or_too_near",
    ),
    Mutant(
        "agreement-outvotes",
        "verdict.py",
        "    if DIFFERS in found:\n        return DIFFERS\n",
        "",
        "a figure agrees though one of its statements does not",
        f"{VERDICTS}::test_a_figure_differs_if_one_check_does",
    ),
    Mutant(
        "noise-is-not-heard",
        "verdict.py",
        "others > OTHERS_MAX and check.verdict",
        "others > 1e9 and check.verdict",
        "verdicts are given on what others have disturbed",
        f"{VERDICTS}::test_a_noisy_machine_has_no_verdict_on_what_was_timed",
    ),
    Mutant(
        "own-work-is-noise",
        "noise.py",
        "(busy - self._busy) - (_own_s() - self._own)",
        "(busy - self._busy)",
        "no machine is ever quiet",
        f"{VERDICTS}::test_what_others_do_is_counted",
    ),
    Mutant(
        "messages-for-nothing",
        "row.py",
        "taken = self._hop_s  # to take",
        "taken = 0.0  # to take",
        "a row of any number of workers scales, whatever messages cost",
        "lab/test_simulations.py::test_messages_take_a_row_that_never_waits_its_time",
    ),
    Mutant(
        "published-model-without-transfer",
        "celljoin/model.py",
        "return (self.issue_ns * windows + self.fetch_ns * size)",
        "return (self.issue_ns * windows)",
        "equation 3 is not the paper's",
        "lab/test_celljoin.py::test_equations_3_and_4_are_the_papers",
    ),
    Mutant(
        "times-swapped",
        "wjsp/form.py",
        "for time in (least, greatest):",
        "for time in (greatest, least):",
        "the least timestamp of a tuple is read as its greatest",
        "lab/test_wjsp.py::test_a_tuple_of_the_prototype_has_152_bits",
    ),
]
