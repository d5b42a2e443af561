"""Downloads: the data of a view as CSV, its spec as JSON."""

import numpy as np
import pandas  # here: Plotly looks for it while another thread may still import it

from softmaxlab.core.result import Result
from softmaxlab.core.tables import csv_text


def csv(result: Result, clock: str, names: tuple[str, ...]) -> str:
    """A row for each time: the clock, then every entry of the named arrays that the result has."""
    columns = {clock: result[clock]}
    for name in names:
        if name not in result:
            continue
        values = result[name]
        for index in np.ndindex(values.shape[1:]):
            columns["_".join([name, *(str(i) for i in index)])] = values[:, *index]
    return _table(columns)


def attention_csv(result: Result) -> str:
    """A row for each key: its score, then its weight under each map."""
    weights = dict(zip(result["map"].tolist(), result["weights"][:, 0, 0]))
    return _table({"key": np.arange(result["scores"].shape[-1]), "score": result["scores"][0, 0], **weights})


def _table(columns: dict[str, np.ndarray]) -> str:
    return csv_text(pandas.DataFrame(columns))


def rows_csv(rows: list[dict]) -> str:
    """Rows of one kind."""
    return csv_text(pandas.DataFrame(rows))
