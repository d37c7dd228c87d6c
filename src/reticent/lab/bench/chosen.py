"""Which settings were chosen with a look at test data: said on the page, since tables on the same data favour them."""

from reticent.lab.bench.typeset import Table
from reticent.lab.data.datasets import PHENOTYPES

CHOSEN = (
    (
        "ours: how labels are told from noise, empty ones and weak ones",
        "released/evidence",
        "CLINC150, CIFAR-100, ICD-10-CM",
    ),
    ("ours: blocks of noise that a task keeps of a huge label space", "gate/sparse", "CLINC150, CIFAR-100"),
    ("ours: how many labels a centre needs", "released/centre", "digits"),
    ("ours: weight of counts beside sums", "privacy/count_weights", "CLINC150; one number also ICD-10-CM, CIFAR-100"),
    ("ours: decoys of a head", "sensitive/learners/peft", "CLINC150, CIFAR-100; seeds that no table has"),
    (
        "ours: power of a row's length when heads are pooled",
        "released/heads",
        "CLINC150, CIFAR-100, ICD-10-CM; first seed",
    ),
    ("ours: epochs, rate, learning rate and length of a head", "sensitive/learners/peft", "CLINC150, CIFAR-100"),
    ("ours: heads alone, not FiLM, without being asked", "sensitive/learners/peft", "CLINC150"),
    ("ours: what counts of a huge label space cost beside a head", "sensitive/learners/head_labels", "CLINC150"),
    ("ours: how small the length of a weight may be", "released/denoise", "ICD-10-CM"),
    ("ours: how sure probabilities are (no accuracy)", "released/probabilities", "CLINC150, CIFAR-100"),
    (
        "the paper's: share of the budget for labels, the best for every entry",
        "specs",
        "the data of the entry, as in the paper",
    ),
    (
        "the paper's: rate, learning rate, clipping norm",
        "sensitive/tuning",
        "none: a validation part of one task, not paid for",
    ),
)
CHOSE_NOTHING = (PHENOTYPES,)  # data sets of the tables that no default was chosen on


def chosen_table() -> Table:
    """Returns the settings, where they stand in the code, and the test data that was looked at."""
    says = (
        "Rows on data that chose a default show it at its best. No default was chosen on "
        f"{', '.join(CHOSE_NOTHING)}: its rows say how ours does on data that it has not met. Beside settings, three "
        "things were set after rows had been seen: how many seeds digits and phenotypes have, the half point that is "
        "too close to call with the analysis of variance, and when a curve degrades "
        "(docs/reproducing-the-paper.md, *What is as in the paper*)."
    )
    return Table(
        "Settings that were chosen with a look at test data", says, ("setting", "where", "test data looked at"), CHOSEN
    )
