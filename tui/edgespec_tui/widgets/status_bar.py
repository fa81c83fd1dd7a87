"""The top line: which models, which mode is running, how full the context is."""

from __future__ import annotations

from pathlib import Path

from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.content import Content
from textual.widgets import Static

from edgespec.engine.messages import Loaded, ModelInfo
from edgespec_tui.text import one_line


class StatusBar(Horizontal):
    """Facts only: the mode named here is the one that runs."""

    def compose(self) -> ComposeResult:
        yield Static(Content("EdgeSpec"), id="brand")
        yield Static("", id="models")
        yield Static("", id="download")
        yield Static("", id="mode")
        yield Static("", id="context")

    def show_models(self, loaded: Loaded, refused_draft: str | None = None) -> None:
        """Name what is loaded, and the draft model that was wanted and is not."""
        parts: list[str | tuple[str, str]] = [model_name(loaded.target)]
        if loaded.draft is not None:
            parts += [("  +  ", "$foreground-muted"), model_name(loaded.draft)]
        elif refused_draft is not None:
            parts.append((f"  without {one_line(refused_draft)}", "$text-warning"))
        if loaded.safe_mode:
            parts.append(("  safe mode", "$text-warning"))
        self.query_one("#models", Static).update(Content.assemble(*parts))

    def show_text(self, text: str) -> None:
        """Say something in place of the models' names."""
        self.query_one("#models", Static).update(Content(text))

    def show_download(self, mark: str) -> None:
        """Say how far the download is; "" for none."""
        self.query_one("#download", Static).update(Content(mark))

    def show_mode(self, running: str, coming: str = "") -> None:
        """Name the mode that runs, and the one chosen for the next reply if that differs."""
        parts: list[str | tuple[str, str]] = [(running, "bold")]
        if coming and not running.startswith(coming):
            parts.append((f"  next: {coming}", "$foreground-muted"))
        self.query_one("#mode", Static).update(Content.assemble(*parts))

    def clear_context(self) -> None:
        """There is no context."""
        self.query_one("#context", Static).update("")

    def show_context(self, used: int | None, n_ctx: int) -> None:
        """Say how many tokens of the context are taken; None where nobody knows yet."""
        share = used / n_ctx if used and n_ctx else 0.0
        block = "▁▂▃▄▅▆▇█"[min(7, int(share * 8))]
        style = "$text-error" if share > 0.95 else "$text-warning" if share > 0.8 else "$foreground-muted"
        text = Content.assemble((f"ctx {'-' if used is None else f'{used:,}'} / {n_ctx:,} ", style), (block, style))
        self.query_one("#context", Static).update(text)


def model_name(model: ModelInfo) -> str:
    """What people call a model: its file, which says the quantisation too."""
    return one_line(Path(model.path).stem or model.name)
