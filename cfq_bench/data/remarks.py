"""What is worth a look in a table that is sound."""

import numpy as np
import pandas as pd

from cfq_bench.config.settings import DataSettings
from cfq_bench.config.tablefile import TABLE_FILES
from cfq_bench.data.codes import codes_in
from cfq_bench.data.inspection import alike_notes
from cfq_bench.data.label import gives_away
from cfq_bench.data.table import Table
from cfq_bench.data.words import named


def remarks(table: Table, settings: DataSettings) -> list[str]:
    """Features that tell the label, and in a file of one's own codes and spellings.

    Args:
        table: as `read_table` gives it, and known to be sound.
        settings: of the data set.
    """
    notes = list(table.notes)
    labels = table.frame[settings.target.column]
    favourable = (labels == settings.target.favourable).where(labels.notna())
    own = settings.loader.lower().endswith(TABLE_FILES)
    for name, feature in settings.features.items():
        column, where = table.frame[name], f"column {named(name)}"
        number = feature.kind in ("numeric", "integer")
        if number:
            column = pd.to_numeric(column).astype(np.float64)
        way = gives_away(column, favourable)
        if way is not None:
            notes.append(f"{where}: {way}; is it known only afterwards?")
        if own and number:
            codes = codes_in(column.dropna().to_numpy())
            for code in codes:
                notes.append(
                    f"{where}: {code} in {int((column == code).sum())} rows stands apart: if it "
                    f"means missing, missing_codes: {codes}"
                )
        elif own:
            notes += [f"{where}: {note}" for note in alike_notes(column)]
    return notes
