"""Public data for demonstrations and experiments."""

from dataclasses import dataclass

import numpy as np

from reticent import errors


@dataclass(frozen=True)
class Diagnoses:
    """A seeded public sample of ICD-10-CM: descriptions of diagnoses, coded by block, arriving by chapter.

    Args:
        texts: Descriptions.
        codes: The full code of each, such as E10.21.
        blocks: The block it belongs to, such as E08-E13: the label.
        chapters: The chapter it belongs to, such as "4": the task.
        held_out: Which of them are for testing.
    """

    texts: tuple[str, ...]
    codes: tuple[str, ...]
    blocks: tuple[str, ...]
    chapters: tuple[str, ...]
    held_out: np.ndarray

    @property
    def chapter_names(self) -> tuple[str, ...]:
        """The chapters in their own order."""
        return tuple(sorted(set(self.chapters), key=int))


# Infections, tumours, diabetes, nerves, eyes, heart, digestion, skin, kidneys, birth, malformations, symptoms: chapters
# of some hundred diagnoses each. The giants (injuries, external causes) would be most of the sample and say little.
CHAPTERS = ("1", "2", "4", "6", "7", "9", "11", "12", "14", "15", "17", "18")


def icd10cm(
    *, chapters: tuple[str, ...] = CHAPTERS, most_per_block: int = 150, held_out: float = 0.2, seed: int = 0
) -> Diagnoses:
    """Samples leaf diagnoses, at most so many of a block; the same for the same seed."""
    try:
        import simple_icd_10_cm as icd
    except ImportError as error:
        raise errors.ReticentError("ICD-10-CM needs: pip install 'reticent[demo]'") from error
    draw = np.random.default_rng(seed)
    rows: list[tuple[str, str, str, str]] = []
    for chapter in chapters:
        for block in icd.get_children(chapter):
            codes = [code for code in icd.get_descendants(block) if icd.is_leaf(code)]
            picked = draw.permutation(len(codes))[:most_per_block]
            rows += [(icd.get_description(codes[i]), codes[i], block, chapter) for i in picked]
    texts, codes_, blocks_, chapters_ = zip(*rows, strict=True)
    return Diagnoses(texts, codes_, blocks_, chapters_, draw.random(len(rows)) < held_out)
