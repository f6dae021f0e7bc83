"""Types of options that several commands have."""

import os
from pathlib import Path

import click

from cfq_bench.errors import UserError


class _Path(click.Path):
    """A path that is not empty: an empty one would be the working folder, without a word."""

    def convert(
        self,
        value: str | os.PathLike[str],
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> str | bytes | os.PathLike[str]:
        if not str(value).strip():
            name = "the path" if param is None else param.opts[-1]
            raise UserError(f"{name} is empty: name a {self.name}, such as . for this folder")
        return super().convert(value, param, ctx)


FOLDER = _Path(path_type=Path, file_okay=False)
FILE = _Path(path_type=Path, dir_okay=False)
