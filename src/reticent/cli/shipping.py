"""Verbs that take a model elsewhere: export, serve. They read releases alone."""

from pathlib import Path
from typing import Annotated

import typer

from reticent import errors
from reticent.cli.inputs import loaded
from reticent.cli.options import Again, tell

Folder = Annotated[Path, typer.Argument(help="The model directory.")]


def export(
    model: Folder,
    file: Annotated[
        Path | None,
        typer.Argument(help="The file to write: from features to scores and labels; the model's name by default."),
    ] = None,
    onnx: Annotated[bool, typer.Option("--onnx", help="The format; there is no other yet.")] = False,
    encoder_onnx: Annotated[
        Path | None, typer.Option(help="Also write the encoder: from token ids or pixels to features.")
    ] = None,
    encoder: Again = None,
) -> None:
    """Write a model as ONNX, for programs without Python, and compare it with the model in onnxruntime.

    Example: `reticent export model/ --onnx scorer.onnx`
    """
    target = Path(f"{model.absolute().name}.onnx") if file is None else file
    if not onnx and target.suffix != ".onnx":
        raise errors.InvalidValue(f"Expected --onnx, the only format there is, or a file that ends in .onnx: {target}")
    from reticent.encoders import onnx_encoder
    from reticent.numerics.files import write_whole
    from reticent.released import onnx_graph
    from reticent.released.contents import refuse_own

    for written in (target, encoder_onnx):
        if written is not None:
            refuse_own(written)
    classifier = loaded(model, encoder, None)
    released = classifier.directory.model
    scorer = onnx_graph.scorer(released)
    apart = onnx_graph.check(scorer, released)
    if encoder_onnx is not None:
        if classifier.encoder is None:
            raise errors.InvalidValue("Expected no --encoder-onnx: this model reads features, and has no encoder.")
        write_whole(encoder_onnx, onnx_encoder.exported(classifier.encoder))
    write_whole(target, scorer)
    tell(f"Wrote {target}: the same labels in onnxruntime, and scores within {max(apart, 1e-7):.0e} of the largest.")
    if encoder_onnx is not None:
        tell(f"Wrote {encoder_onnx}: the same features in onnxruntime, from token ids or pixels.")
    elif classifier.encoder is not None:
        tell("It reads features. The encoder that makes them: --encoder-onnx FILE.")


def serve(
    model: Folder,
    host: Annotated[str, typer.Option(help="The address to listen on; 0.0.0.0 for all.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port.")] = 8000,
    body: Annotated[int, typer.Option(help="Most bytes of a request.")] = 1 << 20,
    rows: Annotated[int, typer.Option(help="Most inputs of a request.")] = 1_000,
    seconds: Annotated[float, typer.Option(help="Most seconds to read a request, and to answer it.")] = 30.0,
    encoder: Again = None,
) -> None:
    """Serve a model over HTTP: predict, labels, statement, health. No password, no TLS: put a proxy before it.

    Example: `reticent serve model/ --port 8000`
    """
    from reticent import serving

    errors.whole("port", port, at_least=1, at_most=65535)
    limits = serving.Limits(body=body, rows=rows, seconds=seconds)
    classifier = loaded(model, encoder, None)
    if not all(release.private for release in classifier.releases):
        tell("NOT PRIVATE: noise of this model was seeded, or something in it was published without privacy.")
    shown = f"POST http://{host}:{port}/predict, GET /labels, /statement, /health. Stop with Ctrl-C."
    serving.run(classifier, host=host, port=port, limits=limits, ready=lambda: tell(shown))
