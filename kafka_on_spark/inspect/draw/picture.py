"""A picture that a notebook shows, and that can be saved."""

import io
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DPI = 144


@dataclass(frozen=True, slots=True)
class Picture:
    """A Matplotlib figure that needs no `%matplotlib`, no pyplot and no window.

    Attributes:
        figure: The figure.
        words: The picture in words, for people who can't see it.
    """

    figure: "Figure"
    words: str

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to `path`, a .png, .svg or .pdf."""
        self.figure.savefig(os.fspath(path), dpi=DPI)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        """Return it as notebooks take it: sharp on dense screens, and with its words."""
        sink = io.BytesIO()
        self.figure.savefig(sink, format="png", dpi=DPI)
        width, height = (int(each * DPI / 1.5) for each in self.figure.get_size_inches())
        data = {"image/png": sink.getvalue(), "text/plain": self.words}
        return data, {"image/png": {"width": width, "height": height, "alt": self.words}}


def new_figure(width: float, height: float) -> "Figure":
    """Return an empty figure of that size in inches.

    Raises:
        ImportError: Matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(
            "pictures need matplotlib: install it with pip install 'kafka_on_spark[plots]'"
        ) from error
    figure = Figure(figsize=(width, height), layout="constrained", facecolor="white")
    engine: Any = figure.get_layout_engine()
    engine.set(w_pad=0.12, h_pad=0.08)
    return figure
