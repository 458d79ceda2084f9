"""Save and load fitted models: the types that files may hold, and their checks."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from manyone._types import Labels
from manyone.calibration import Calibration
from manyone.data.rows import TrainingRows
from manyone.estimators import METHODS
from manyone.estimators.base import OneClassEstimator
from manyone.estimators.combined import CombinedOneClass
from manyone.files import archive
from manyone.files.errors import ModelFileError
from manyone.files.kinds import Hint, fits
from manyone.files.registry import entry_of, register
from manyone.files.shapes import NEEDED, Sizes
from manyone.history.clocks import CLOCKS
from manyone.history.past import Past
from manyone.history.seasons import SEASONS
from manyone.history.transformer import TaskHistory
from manyone.kernels.gram import Expansion, Points, PointScorer
from manyone.kernels.kernel import KERNELS, MIXTURE, Kernel
from manyone.metric.shrinkage import TaskWhitenings, Whitening
from manyone.metric.whitener import TaskWhitener
from manyone.models.column_range import ColumnRange
from manyone.models.combined import CombinedScorer, Tail
from manyone.models.guards import Guarded
from manyone.models.nearness import Nearness
from manyone.models.resemblance import Resemblance
from manyone.models.scale import Scale
from manyone.models.scorers import Balls, InMetric, Projection, Scorer, TwoLayers
from manyone.models.solution import FitReport, Solution
from manyone.models.task_expansions import TaskExpansions
from manyone.pipelines import TaskPipeline
from manyone.routing import Transformer
from manyone.selection.auto import AutoOneClass
from manyone.tables import TableModel
from manyone.tables.columns import Column
from manyone.tables.decisions import Decision
from manyone.tables.encoder import Encoder
from manyone.tables.forward import ForwardCheck
from manyone.tables.maps import (
    PARTS,
    VALUES,
    Curve,
    DateMap,
    LevelMap,
    NumberMap,
)
from manyone.tables.past import TablePast
from manyone.tables.reference import Reference
from manyone.tables.training import TrainingTable
from manyone.tables.unknown import UnknownTasks

#: Types of models that can be saved.
Model: TypeAlias = (
    OneClassEstimator
    | AutoOneClass
    | TaskPipeline
    | TableModel
    | TaskHistory
    | TaskWhitener
    | Pipeline
)
_KIND = "model"


def save(
    model: Model, path: str | os.PathLike[str], *, trusted: Sequence[str] = ()
) -> None:
    """Write a fitted estimator, or a pipeline around one, to a file.

    The file appears whole or not at all: it is written beside its place, flushed to
    disk, and renamed. Of a link, the file that it names is replaced. Permissions are
    kept.

    Parameters
    ----------
    model : estimator
    path : path
        Conventionally ``*.manyone``.
    trusted : sequence of str
        Full names of further types that steps of other packages hold. `load` must then
        be given the same names.

    Raises
    ------
    ValueError
        If the model holds a type that `load` would refuse, such as a callable kernel.

    Notes
    -----
    A model holds training rows, in clear: keep its file as you keep the table.
    """
    check_is_fitted(model)
    _register_methods()
    try:
        archive.save(path, _KIND, model, trusted=trusted)
    except ValueError as error:
        raise ValueError(
            f"{type(model).__name__} cannot be saved: {error}. Models may hold arrays, "
            "numbers, texts and estimators; a callable kernel cannot be stored, a "
            "named one can. Name tasks by texts or numbers."
        ) from error


def load(path: str | os.PathLike[str], *, trusted: Sequence[str] = ()) -> Model:
    """Read a model that `save` wrote. No code from the file is ever executed.

    Parameters
    ----------
    path : path
    trusted : sequence of str
        Full names of further types that steps of other packages may hold.

    Returns
    -------
    estimator

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ModelFileError
        If the file is damaged, foreign, too old or too new, or names a type that is not
        trusted.
    """
    _register_methods()
    model = archive.load(path, _KIND, trusted=trusted)
    if not isinstance(model, Model):
        raise ModelFileError(f"{path} holds no model. Give a file that save() wrote.")
    try:
        check_is_fitted(model)
    except ValueError as error:
        raise ModelFileError(f"{path} holds a model that is not fitted.") from error
    return model


def read_header(path: str | os.PathLike[str]) -> dict[str, object]:
    """The header of a model file: type, versions, sizes, checksum.

    Parameters
    ----------
    path : path

    Returns
    -------
    dict
    """
    return archive.read_header(path, _KIND)


# --------------------------------------------------------------- rows, kernels, scorers


def _check_kernel(kernel: Kernel, sizes: Sizes) -> None:
    numbers = {MIXTURE: 2}
    numbers |= dict.fromkeys(
        ("rbf", "laplacian", "chi2", "poly", "polynomial", "sigmoid"), 1
    )
    if kernel.name not in KERNELS or len(kernel.gamma) != numbers.get(kernel.name, 0):
        raise ModelFileError(
            f"the kernel {kernel.name!r} has {len(kernel.gamma)} widths"
        )
    if kernel.params:
        raise ModelFileError("a kernel that has a name takes no further parameters")


def _check_points(points: Points, sizes: Sizes) -> None:
    if points.columns is None:
        width = int(points.X.shape[1])
        if sizes.setdefault("d", width) != width:
            raise ModelFileError(f"points have {width} columns, not {sizes['d']}")
        return
    if points.columns.min(initial=0) < 0 or points.kernel.name != "precomputed":
        raise ModelFileError("points name columns that new rows do not have")
    sizes[NEEDED] = int(points.columns.max(initial=-1)) + 1


def _check_balls(balls: Balls, sizes: Sizes) -> None:
    is_matrix = isinstance(balls.self_similarity, np.ndarray)
    if is_matrix != (balls.training is not None):
        raise ModelFileError("balls know no training rows for their similarity")


def _check_task_expansions(expansions: TaskExpansions, sizes: Sizes) -> None:
    if sizes["n"] - expansions.starts[-1] != sizes["m"]:
        raise ModelFileError("expansions have other rows than coefficients")


def _check_combined(combined: CombinedScorer, sizes: Sizes) -> None:
    number = sizes["V"]
    if not number == len(combined.views) == len(combined.tails):
        raise ModelFileError(f"{number} views have not one tail each")


def _check_nearness(nearness: Nearness, sizes: Sizes) -> None:
    if nearness.codes.min(initial=0) < 0 or np.any(np.diff(nearness.codes) < 0):
        raise ModelFileError("points of a guard are not sorted by their tasks")


def _check_guarded(guarded: Guarded, sizes: Sizes) -> None:
    if not guarded.guards:
        raise ModelFileError("a guarded scorer has no guard")
    if guarded.shares_values and not isinstance(guarded.scorer, PointScorer):
        raise ModelFileError("a guard shares kernel values that its scorer has not")


def _check_past(past: Past, sizes: Sizes) -> None:
    weights = (
        *(past.rows, past.known, past.sums[:, 1::2], past.still, past.gaps[:, 2]),
        *(past.visit_known, past.phase_sums[:, :, 1]),
    )
    has_weights = all(np.all(values >= 0) for values in weights)
    finite = (
        *(past.total, past.sums, past.gaps[:, 1:]),
        *(past.visit_total, past.phase_sums),
    )
    if not has_weights or not all(np.isfinite(values).all() for values in finite):
        raise ModelFileError("the past of rows has sums that no rows have")


register(
    Past,
    {
        "time": "E",
        "rows": "E",
        "total": "E p",
        "known": "E p",
        "sums": "E 4 p",
        "value": "E p",
        "still": "E p",
        "gaps": "E 3",
        "visit": "E",
        "visit_total": "E p",
        "visit_known": "E p",
        "phase_sums": "E f 2 p",
    },
    check=_check_past,
)
register(Kernel, {"shift": "d"}, check=_check_kernel)
register(Points, {"X": "n e", "columns": "n"}, check=_check_points)
register(Expansion, {"points": "n d", "coef": "n T", "target": "T"})
register(
    TwoLayers,
    {
        "points": "n d",
        "coef": "n T",
        "centres": "m T",
        "second_coef": "m T",
        "target": "T",
    },
)
register(
    Balls,
    {
        "points": "n d",
        "starts": "T+1 starts n",
        "coef": "n",
        "centre_norm2": "T",
        "self_similarity": "m m",
        "training": "m=n d",
    },
    check=_check_balls,
)
register(Projection, {"points": "n d", "projection": "n m", "targets": "T m"})
register(
    TaskExpansions,
    {
        "points": "n d",
        "starts": "T+1 starts n",
        "coef": "n",
        "shared_coef": "m T",
        "target": "T",
    },
    check=_check_task_expansions,
)
register(InMetric, hints={"metric": Whitening | TaskWhitenings, "scorer": Scorer})
register(Scale, {"size": "T", "bend": "T", "unit": "T"})
register(Tail, {"scores": "m!", "values": "m!"})
register(CombinedScorer, {"weights": "V!"}, check=_check_combined)
register(Whitening, {"basis": "r d", "stretch": "r"})
register(
    TaskWhitenings,
    {
        "mean": "T d",
        "scale": "T d",
        "starts": "T+1 starts r",
        "basis": "r d",
        "stretch": "r",
        "floor": "T",
        "scale_prior": "d",
    },
)
register(
    Guarded,
    hints={"scorer": Scorer, "guards": tuple[Nearness | ColumnRange, ...]},
    check=_check_guarded,
)
register(Nearness, {"points": "n d", "codes": "n"}, check=_check_nearness)
register(ColumnRange, {"lower": "d", "upper": "d", "below": "d", "above": "d"})
register(FitReport, {"objective_path": "i"})
register(
    Solution,
    {
        "left_out": "r",
        "responses": "r 2",
        "shift": "r",
        "learned": "",
        "one_minus_leverage": "r",
    },
    hints={"scorer": Scorer, "judge": None},
)
register(
    Calibration,
    {
        "scores": "k!",
        "weight": "k!",
        "shift": "k!",
        "place": "k!",
        "stands_for": "k!",
        "starts": "T+1 starts k",
        "far": "T",
        "lends": "T",
    },
)
register(
    TrainingRows,
    {
        "X": "n e",
        "codes": "n in T or -1",
        "outlier": "n",
        "weight": "n",
        "content": "n",
        "columns": "n",
        "group": "n",
        "moment": "n",
        "n_tasks": "= T",
    },
)
register(Resemblance, {"coef": "m T", "factor": "m m", "counts": "T"})


# ------------------------------------------------------------------------------- tables


def _check_column(column: Column, sizes: Sizes) -> None:
    if column.levels is None:
        if column.kind == "text":
            raise ModelFileError("a column of texts has no texts")
        return
    numbers = column.values[~np.isnan(column.values)]
    if not np.all((numbers >= 0) & (numbers < len(column.levels))):
        raise ModelFileError("a column has numbers of texts that there are none of")


def _check_encoder(encoder: Encoder, sizes: Sizes) -> None:
    if not encoder.layout.maps:
        raise ModelFileError("the encoder uses no column")
    width = len(encoder.layout.source)
    if width != sizes["D"]:
        raise ModelFileError(f"the encoder has {sizes['D']} coordinates, not {width}")
    measurements = len(encoder.layout.measurements)
    if encoder.precision is not None and sizes["p"] != measurements:
        raise ModelFileError(f"the encoder has not {measurements} measurements")


def _check_numbers(numbers: NumberMap, sizes: Sizes) -> None:
    in_order = tuple(part for part in PARTS if part in numbers.parts) or VALUES
    if numbers.parts != in_order or len(numbers.curves) != len(in_order):
        raise ModelFileError("a column has not one curve for each of its parts")


def _check_table_past(past: TablePast, sizes: Sizes) -> None:
    if past.span < 2 or len(past.names) != past.past.total.shape[1]:
        raise ModelFileError("the past of a table is not that of its columns")
    if past.clock not in CLOCKS:
        raise ModelFileError("the times of a table are of another kind")
    phases = SEASONS[past.season].phases if past.season in SEASONS else 0
    is_known = past.season in ("", *SEASONS) and set(past.seasonal) <= set(past.names)
    if not is_known or past.past.phase_sums.shape[1] != phases:
        raise ModelFileError("the past of a table is of another season")


register(
    TablePast, {"tasks": "E", "is_begun": "E", "past": "E"}, check=_check_table_past
)
register(Curve, {"knots": "k!", "scores": "k!", "slopes": "2"})
register(NumberMap, check=_check_numbers)
register(LevelMap, {"levels": "k!", "place": "k in w", "width": "= w"})
register(DateMap, {"periods": "k!"})
register(Decision)
register(
    Column,
    {"values": "n", "levels": "l", "past": "n 2", "usual": "n"},
    check=_check_column,
)
register(
    Encoder,
    {"fill": "T+1 D", "precision": "p p", "reach": "2 T+1 L", "limits": "2 T+1 P"},
    check=_check_encoder,
)
register(
    TrainingTable,
    {
        "columns": "n",
        "labels": "n",
        "outlier": "n",
        "groups": "n",
        "times": "n",
        **dict.fromkeys(("numbers", "hashes", "copies", "totals"), "n"),
        "past": "T=E",
    },
)
register(
    Reference,
    {
        "X": "n D",
        "codes": "n in T",
        "numbers": "n",
        "metric": "T d=D",
        "low": "D",
        "high": "D",
        "counts": "T",
        "kept_depths": "m!",
    },
)
register(UnknownTasks, {"rows": "m! d"})
register(ForwardCheck, {"codes": "m! in T", "p_value": "m!", "n_tasks": "= T"})


# --------------------------------------------------------------------------- estimators

_Texts = dict[str, Labels]
# Attributes of all estimators, beside parameters and those that `Scoring` annotates.
_ATTRIBUTES: dict[str, Hint] = {
    "n_features_in_": int,
    "feature_names_in_": Labels,
    "label_columns_": dict[str, str],
    "choice_": _Texts,
    "tuning_": _Texts,
    "_metadata_request": dict[str, dict[str, Any]],
    "_sklearn_output_config": dict[str, str],
}
_ESTIMATOR_RULES = {
    "tasks_": "T!",
    "offset_": "T",
    "alarm_rate_": "T",
    "n_features_in_": "= d",
    "feature_names_in_": "d",
    "calibration_": "T",
    "training_": "T",
}
_FITTED = (
    *("tasks_", "solution_", "n_features_in_", "label_columns_"),
    *("offset_", "promised_rate_"),
)


def _check_estimator(model: OneClassEstimator, sizes: Sizes) -> None:
    if sizes.get(NEEDED, 0) > sizes.get("d", sizes.get(NEEDED, 0)):
        raise ModelFileError("points name columns that new rows do not have")
    if vars(model).get("promised_rate_") is not None:
        check_is_fitted(model, ("calibration_", "alarm_rate_"))
    for view in getattr(model, "views_", {}).values():
        check_is_fitted(view)


def _check_choice(model: AutoOneClass, sizes: Sizes) -> None:
    if hasattr(model, "estimator_"):
        check_is_fitted(model.estimator_)


def _check_table_model(model: TableModel, sizes: Sizes) -> None:
    if not hasattr(model, "model_"):
        return
    check_is_fitted(model.model_, "calibration_")
    names = set(model.encoder_.layout.used)
    if model.reference_ is None and not names <= set(model.training_.columns):
        raise ModelFileError("the model has other columns than its encoder")
    past = model.training_.past
    past_names = [] if past is None else sorted(past.names)
    if model.encoder_.layout.with_past != past_names:
        raise ModelFileError("the model has the past of other columns than its encoder")
    if model.reference_ is not None:
        return
    columns = model.training_.columns
    for name in past_names:
        if columns[name].past is None:
            raise ModelFileError(f"the column {name!r} has no past")
    for name, column_map in zip(
        model.encoder_.layout.used, model.encoder_.layout.maps, strict=True
    ):
        if isinstance(column_map, LevelMap) and columns[name].levels is None:
            raise ModelFileError(f"the column {name!r} has no texts")


class _Estimator(Protocol):
    """A step of a pipeline."""

    def fit(self, X: object) -> object: ...

    def get_params(self) -> object: ...


# A step may also be None or a text: "passthrough".
_STEPS: Hint = list[tuple[str, _Estimator | str | None]]


def _check_steps(pipeline: Pipeline, sizes: Sizes) -> None:
    *before, last = [step for _, step in pipeline.steps]
    left_out = (None, "passthrough")
    if isinstance(last, str) or not all(
        step in left_out or fits(step, Transformer) for step in before
    ):
        raise ModelFileError("a pipeline has steps that transform nothing")


def _check_task_pipeline(pipeline: TaskPipeline, sizes: Sizes) -> None:
    if hasattr(pipeline, "model_"):
        check_is_fitted(pipeline.model_)


def _register_methods() -> None:
    """Register the methods of the registry that files do not know yet."""
    for cls in METHODS.values():
        if entry_of(cls) is None:
            register(
                cls,
                _ESTIMATOR_RULES,
                hints=_ATTRIBUTES,
                fitted=_FITTED,
                check=_check_estimator,
            )


register(
    CombinedOneClass,
    hints={
        **_ATTRIBUTES,
        "views_": dict[str, OneClassEstimator],
        "weights_": NDArray[np.float64],
    },
    rules={**_ESTIMATOR_RULES, "weights_": "V", "estimators": ""},
    fitted=_FITTED,
    check=_check_estimator,
)
register(
    AutoOneClass,
    hints={**_ATTRIBUTES, "estimator_": OneClassEstimator},
    rules={"estimator_": ""},
    check=_check_choice,
)
register(
    TaskWhitener,
    hints={
        **_ATTRIBUTES,
        "tasks_": Labels,
        "whitening_": Whitening | TaskWhitenings,
        "shrinkage_": float,
    },
    rules={"tasks_": "T!", "n_features_in_": "= d", "feature_names_in_": "d"},
    fitted=("tasks_", "whitening_", "n_features_in_"),
)


def _check_task_history(history: TaskHistory, sizes: Sizes) -> None:
    if getattr(history, "clock_", "") not in ("", *CLOCKS):
        raise ModelFileError("the times of rows are of another kind")


register(
    TaskHistory,
    hints={**_ATTRIBUTES, "tasks_": Labels, "past_": Past, "clock_": str},
    rules={
        "tasks_": "T!",
        "n_features_in_": "= d",
        "feature_names_in_": "d",
        "past_": "T=E d=p",
    },
    fitted=("tasks_", "past_", "clock_", "n_features_in_"),
    check=_check_task_history,
)
register(
    TaskPipeline,
    hints={
        **_ATTRIBUTES,
        "steps": _STEPS,
        "steps_": list[tuple[str, Transformer]],
        "model_": OneClassEstimator,
    },
    rules=dict.fromkeys(("steps", "steps_", "model_"), ""),
    fitted=("steps_", "model_", "label_columns_"),
    check=_check_task_pipeline,
)
register(
    TableModel,
    hints={
        **_ATTRIBUTES,
        "model_": OneClassEstimator,
        "encoder_": Encoder,
        "tasks_": Labels,
        "unknown_": UnknownTasks,
        "training_": TrainingTable,
        "reference_": Reference | None,
        "calibrated_": dict[str, str | int | float],
        "forward_": ForwardCheck | None,
        "time_format_": str | None,
    },
    rules={
        "tasks_": "T!",
        "encoder_": "T d=D",
        "unknown_": "d",
        "training_": "T",
        "reference_": "T D",
        "method": "",
    },
    fitted=(
        *("model_", "encoder_", "tasks_", "unknown_", "training_", "reference_"),
        *("calibrated_", "choice_", "forward_", "time_format_"),
    ),
    check=_check_table_model,
)
register(
    Pipeline,
    name="sklearn.Pipeline",
    hints={
        **_ATTRIBUTES,
        "steps": _STEPS,
        "memory": None,
        "transform_input": list[str] | None,
        "verbose": bool,
        "_sklearn_version": str,
    },
    rules={"steps": ""},
    check=_check_steps,
)
