"""The paper's claims: reproduced, in part, not reproduced, not run, or not to be tested here."""

from typing import Any

from reticent.lab.bench.checks import NOT_REPRODUCED, NOT_RUN, REPRODUCED, UNDECIDED
from reticent.lab.bench.paper_claims import UNTESTABLE, summary
from reticent.lab.bench.run import Run
from tests.lab.tiny import by_digest, done


def verdicts(*results: dict[str, Any]) -> dict[str, tuple[str, ...]]:
    return {row[0]: row[1:] for row in summary(by_digest(list(results))).rows}


def base_and_oracle(data: str, base: float, oracle: float) -> list[dict[str, Any]]:
    runs = {labels: Run(data=data, learner="cosine-paper", labels=labels) for labels in ("base", "oracle")}
    return [done(runs["base"], base), done(runs["oracle"], oracle)]


def test_every_claim_has_a_verdict():
    found = verdicts()
    assert {row[-1] for row in found.values()} == {NOT_RUN, UNTESTABLE, REPRODUCED}
    assert [claim for claim, row in found.items() if row[-1] == REPRODUCED] == [
        "Classes with fewer than 13 examples are dropped with a chance of 99 % or more"  # exact: nothing is run for it
    ]
    assert len(found) > 15
    assert UNTESTABLE not in {row[-1] for row in verdicts(*base_and_oracle("split-cifar100", 0.5, 0.7)).values()}


def test_verdicts_say_on_which_data_a_claim_shows():
    claim = "Labels that are updated in every task cost Cosine accuracy: Base Dataset below Label Oracle"
    good, bad = base_and_oracle("clinc150", 0.5, 0.7), base_and_oracle("icd10cm", 0.7, 0.5)
    assert verdicts(*good)[claim] == ("1 of 1", REPRODUCED)
    assert verdicts(*bad)[claim] == ("0 of 1; not on icd10cm", NOT_REPRODUCED)
    assert verdicts(*good, *bad)[claim] == ("1 of 2; not on icd10cm", "in part")
    both = [
        done(Run(data="clinc150", learner="cosine-paper", labels=labels, epsilon=epsilon), value)
        for epsilon, values in ((1.0, (0.5, 0.4)), (8.0, (0.5, 0.5)))
        for labels, value in zip(("base", "public-1000x"), values, strict=True)
    ]
    some = verdicts(*both)["Public labels that never occur cost nothing"]
    assert some[0].startswith("1 of 2; ")
    assert some[0].endswith("; not everywhere on clinc150")


def test_checks_that_are_too_close_to_call_do_not_decide():
    claim = "Labels that are updated in every task cost Cosine accuracy: Base Dataset below Label Oracle"
    close, good = base_and_oracle("clinc150", 0.7, 0.703), base_and_oracle("icd10cm", 0.5, 0.7)
    assert verdicts(*close)[claim] == ("0 of 1; 1 too close to call", UNDECIDED)
    assert verdicts(*close, *good)[claim] == ("1 of 2; 1 too close to call", REPRODUCED)
