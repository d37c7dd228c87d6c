"""What verbs are given: models, encoders, examples, memory and names of tasks, from words of the command line."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reticent import errors, names

if TYPE_CHECKING:
    from reticent.memory import Memory

_NO_LABELS = "Expected the column with the labels: --label."
_NAME = re.compile(r'\s*"((?:[^"]|"")*)"\s*(?=,|$)|([^,]+)')


def encoder_of(name: str) -> Any:
    """Returns the encoder of a name; module:object runs the user's own code."""
    from reticent import encoders

    return encoders.named(name, own=True)


def learner_of(name: str, *, task_size: int | None = None) -> Any:
    """Returns the learner of a name, of a .json file that tune wrote, or the user's own as module:object."""
    from reticent.sensitive import learners

    if not name.endswith(".json"):
        return learners.named(name, task_size=task_size)
    try:
        stored = json.loads(Path(name).read_text(encoding="utf-8"))
        if isinstance(stored, dict) and "kind" in stored:
            return learners.from_json(stored)
    except OSError as error:
        raise errors.InvalidValue(f"Cannot read {name}: {error.strerror}.") from error
    except ValueError:
        pass
    raise errors.InvalidValue(f"Expected a learner that reticent tune wrote in {name}.")


def memory_of(vault: Path | None, horizon: int | None, recurring: bool | None) -> "Memory | None":
    """Returns what a model may keep in a vault; None without one."""
    from reticent.memory import Memory
    from reticent.privacy.correlation import DEFAULT_HORIZON

    if vault is None:
        if horizon is not None or recurring is not None:
            raise errors.InvalidValue("Expected --memory VAULT with --horizon, --recurring and --not-recurring.")
        return None
    return Memory(vault=vault, horizon=DEFAULT_HORIZON if horizon is None else horizon, recurring=recurring)


def loaded(
    folder: Path,
    encoder: str | None,
    learner: str | None,
    vault: Path | None = None,
    *,
    device: str | None = None,
    batch_size: int | None = None,
    bf16: bool = False,
) -> Any:
    """Loads a model; code and weights that are not stored are named again by the user.

    Args:
        folder: The model directory.
        encoder: A name, where it is not stored.
        learner: A name, where it is not stored.
        vault: Where it is, if it was moved.
        device: Where the encoder computes; None leaves it as it is.
        batch_size: Rows of its batches; None leaves it as it is.
        bf16: Whether it computes in half precision where the device has instructions for it.
    """
    from reticent.loading import load

    own = None if learner is None else learner_of(learner)
    model = load(folder, encoder=None if encoder is None else encoder_of(encoder), learner=own, vault=vault)
    if device is not None or batch_size is not None or bf16:
        from reticent.encoders import Encoder, Speed

        if not isinstance(model.encoder, Encoder):
            raise errors.InvalidValue(
                "Expected --device, --batch-size and --bf16 with an encoder; this model reads features."
            )
        speed = Speed(device=device or "cpu", batch_size=batch_size, bf16="auto" if bf16 else False)
        model.encoder = replace(model.encoder, speed=speed)
    return model


def cluster_of(engine: str | None, address: str | None, workers: int | None = None) -> Any:
    """Returns the Ray cluster that was asked for, None where none was.

    Args:
        engine: None, or "ray".
        address: Of a cluster that runs already.
        workers: How many parts are worked on at once.
    """
    if engine not in (None, "ray"):
        raise errors.InvalidValue("Expected --engine ray, or no --engine: then this machine does the work.")
    if engine is None:
        if address is not None:
            raise errors.InvalidValue("Expected --engine ray with --address.")
        return None
    from reticent.sensitive.engines import Ray

    return Ray(address=address, workers=workers)


def labelled(
    source: Path,
    *,
    text: str | None,
    image: str | None,
    features: str | None,
    label: str | None,
    person: str | None = None,
) -> Any:
    """Opens examples with their labels; reads header or schema, and no row of a file."""
    from reticent.readers import Columns, open_source

    columns = Columns(text=text, image=image, features=listed(features), label=label, person=person)
    found = open_source(source, columns)
    if not found.has_labels:
        raise errors.InvalidValue(_NO_LABELS)
    return found


def task_name(source: Path, name: str | None) -> str:
    """Returns the public name of a task: the file's, unless another is given."""
    if name is not None:
        return names.public_name(name)
    if source == Path("-"):
        raise errors.InvalidValue("Expected --name for data from standard input: no file gives it a name.")
    try:
        return names.public_name(source.stem)
    except errors.InvalidValue as error:
        raise errors.InvalidValue(f"{error} The name of the file is that of the task unless --name is given.") from None


def listed(text: str | None) -> tuple[str, ...]:
    """Returns names that stand between commas; in double quotes one may hold commas, and blanks around it count.

    >>> listed('age, "height, cm"," x"')
    ('age', 'height, cm', ' x')
    """
    found = _NAME.findall(text or "")
    return tuple(quoted.replace('""', '"') if quoted else plain.strip() for quoted, plain in found if quoted or plain)
