"""The part of the chat screen that loads models, and goes on with what can run where something cannot."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from edgespec.engine.messages import Loaded, LoadOptions
from edgespec.types import Mode
from edgespec_tui.messages import EngineReady, EngineRefused
from edgespec_tui.modes import fallback
from edgespec_tui.screens.chat_base import ChatBase
from edgespec_tui.text import one_line, size
from edgespec_tui.widgets.composer import Composer
from edgespec_tui.widgets.reply import Reply
from edgespec_tui.widgets.status_bar import StatusBar


class ChatLoading(ChatBase):
    """Loads, switches, and falls back, each time with a sentence."""

    async def switch_models(self, load: LoadOptions) -> None:
        """Use other models; a reply in progress is stopped first. Nothing of the old choice stays, nor its draft."""
        if self._exchange is not None:
            self._app.runner.cancel()
        if self._loaded is not None:
            self._load_before, self._refused_before = self._load, self._refused_draft
        self._load, self._refused_draft = load, None
        if load.draft is not None and self._options.mode is not Mode.AUTO:
            self._options = replace(self._options, mode=Mode.DRAFT)
        await self._start_loading()

    async def _start_loading(self) -> None:
        target = Path(self._load.target)
        bytes_ = target.stat().st_size if target.is_file() else 0
        what = f"Loading {one_line(target.name)}" + (f" ({size(bytes_)})" if bytes_ else "")
        if self._load.draft is not None:
            what += f" and {one_line(Path(self._load.draft).name)}"
        if self._loading is not None:
            await self._loading.remove()
        self._loaded = self._plain_step = None
        self._forget_context()
        self._show_context()
        self._loading = await self._view.note(f"{what}. You can write meanwhile.", "busy")
        self.query_one(StatusBar).show_text("loading")
        self.refresh_bindings()
        self._app.runner.load(self._load)

    async def on_engine_ready(self, message: EngineReady) -> None:
        """The models are there."""
        if message.load != self._load:  # others were chosen meanwhile
            return
        await self._loading_over()
        self._load_before = None
        self._never_loaded = ""
        await self._use(message.loaded)
        target = message.loaded.target
        await self._view.note(
            f"Ready in {message.loaded.load_seconds:.1f} s, {target.n_ctx:,} tokens of context. Enter sends, F1 helps."
        )
        early, self._sent_early = self._sent_early, None
        composer = self.query_one(Composer)
        if early is not None and early == composer.text:
            composer.action_submit()

    async def _loading_over(self) -> None:
        if self._loading is not None:
            await self._loading.remove()
            self._loading = None

    async def _use(self, loaded: Loaded, before: Reply | None = None) -> None:
        if self._missing_draft and loaded.modes.get(Mode.DRAFT):  # the engine was not asked for it this time
            loaded = replace(loaded, modes={**loaded.modes, Mode.DRAFT: self._missing_draft[0]})
        self._loaded = loaded
        self.query_one(StatusBar).show_models(loaded, self._refused_draft)
        for notice in loaded.notices:
            await self._tell(notice, "warning", before)
        if (instead := fallback(loaded, self._options.mode)) is not None:
            self._options = replace(self._options, mode=instead[0])
            await self._view.note(instead[1], "warning")
        self._show_state()

    async def on_engine_refused(self, message: EngineRefused) -> None:
        """The models could not be loaded: without the draft model if that is allowed, else with those from before."""
        if message.load != self._load:
            return
        await self._loading_over()
        self._sent_early = None
        await self._view.note(message.message, "error", message.hint)
        if self._never_loaded:
            self._never_loaded = message.message
        if self._load.draft is not None and self._allow_fallback:
            self._refused_draft = Path(self._load.draft).stem
            await self._load_instead(
                replace(self._load, draft=None), f"Going on without the draft model {one_line(self._refused_draft)}."
            )
        elif self._load_before is not None:
            before, self._load_before = self._load_before, None
            self._refused_draft = self._refused_before
            await self._load_instead(before, f"Going back to {_names(before)}.")
        else:
            self.query_one(StatusBar).show_text("no model")
            without = " F6, then N, goes on without the draft model." if self._load.draft is not None else ""
            await self._view.note(f"No model is loaded. F5 tries again, F6 lists models.{without}", "warning")
            self.refresh_bindings()

    @property
    def _without_model(self) -> bool:
        """Is no model there and none on its way?"""
        return self._loaded is None and self._loading is None

    async def _load_instead(self, load: LoadOptions, sentence: str) -> None:
        await self._view.note(sentence, "warning")
        self._load = load
        await self._start_loading()


def _names(load: LoadOptions) -> str:
    """What a person calls these models."""
    return " with ".join(one_line(Path(path).name) for path in (load.target, load.draft) if path is not None)
