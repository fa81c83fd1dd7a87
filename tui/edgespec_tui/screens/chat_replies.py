"""The part of the chat screen that asks, and draws what comes back."""

from __future__ import annotations

import secrets
from dataclasses import replace

from textual import on

from edgespec.engine.messages import GenerationDone
from edgespec.errors import EdgeSpecError
from edgespec_tui import memory
from edgespec_tui.attach import expand
from edgespec_tui.exchange import Exchange
from edgespec_tui.figures import LiveFigures
from edgespec_tui.messages import EventsWaiting
from edgespec_tui.modes import label
from edgespec_tui.screens.chat_loading import ChatLoading
from edgespec_tui.totals import totals_of
from edgespec_tui.widgets.composer import Composer
from edgespec_tui.widgets.stats_panel import Figures, StatsPanel
from edgespec_tui.widgets.status_bar import StatusBar

DETAILS_SECONDS = 3e-9
"""What details of a token cost for every token of the vocabulary: measured, 143 us at 49,152."""
DETAILS_SHARE = 0.01
"""Share of a pass that they may cost without being asked for."""


class ChatReplies(ChatLoading):
    """Sends questions and takes the events of the replies."""

    @on(Composer.Submitted)
    async def _submitted(self, message: Composer.Submitted) -> None:
        if not message.text.strip():
            return
        composer = self.query_one(Composer)
        if self._loading is not None:
            self._sent_early = message.text
            composer.hint("sent when the model is ready; change it to take it back")
        elif self._loaded is None:
            composer.hint("no model is loaded yet")
        elif self._exchange is not None:
            composer.hint("a reply is running: Esc stops it")
        else:
            try:
                text = expand(message.text)
            except EdgeSpecError as error:
                await self._view.note(error.message, "error", error.hint)
                return
            composer.remember(message.text)
            await self._ask(text, message.text)

    async def _ask(self, text: str, written: str) -> None:
        self._chat.ask(text)
        await self._save()
        if not self._seeded:
            seed = secrets.randbelow(2**31)
            self._options = replace(self._options, sampling=replace(self._options.sampling, seed=seed))
        reply = await self._view.exchange(text, tokens_shown=self._tokens_shown)
        options = replace(self._options, details=self._details_pay)
        number = self._app.runner.generate(self._chat.conversation.messages, options)
        self._exchange = Exchange(number, written, reply, options, LiveFigures(self._plain_step))
        self._show_state()

    @property
    def _details_pay(self) -> bool:
        """Shall the engine tell what the models think of each token? Where that is dear, only who looks at it pays.

        The first reply shows what a pass costs here.
        """
        if self._wants_details or self._plain_step is None or self._loaded is None:
            return True
        return self._loaded.target.n_vocab * DETAILS_SECONDS <= DETAILS_SHARE * self._plain_step

    # Events of the reply

    async def on_events_waiting(self, message: EventsWaiting) -> None:
        """Draw if a drawing is due, else when it is.

        The timer only asks for it: a timer's callback runs beside the messages, and two drawings at once would mix up
        the order of the rounds.
        """
        if (wait := self._pacer.wait()) <= 0 or message.now:
            if self._draw_timer is not None:
                self._draw_timer.stop()
                self._draw_timer = None
            await self._draw()
        elif self._draw_timer is None:
            self._draw_timer = self.set_timer(wait, lambda: self.post_message(EventsWaiting(now=True)))

    async def _draw(self) -> None:
        self._pacer.drawn()
        taken = self._app.runner.take()
        exchange = self._exchange
        if exchange is None or not (events := [event for number, event in taken if number == exchange.number]):
            return
        await exchange.take(events)
        if exchange.reloaded is not None:
            await self._use(exchange.reloaded, before=exchange.reply)
            exchange.reloaded = None
        while exchange.notices:
            await self._tell(exchange.notices.pop(0), "info", exchange.reply)
        if exchange.ending is not None or self._panel_pacer.wait() <= 0:
            self._panel_pacer.drawn()
            self._show_figures(exchange)
        if exchange.ending is not None:
            await self._ended(exchange)

    def _show_figures(self, exchange: Exchange) -> None:
        figures = Figures(
            exchange.stats, exchange.figures.pace, (*self._missing_draft, *exchange.why), totals_of(self._chat),
            memory.in_use(self._app.runner.pid), exchange.devices,
        )  # fmt: skip
        self.query_one(StatsPanel).show(figures)
        self.query_one(StatusBar).show_mode(exchange.mode, label(self._options.mode, self._options.draft_length))
        self._show_context()

    async def _ended(self, exchange: Exchange) -> None:
        self._exchange = None
        if exchange.stats.prompt_tokens:  # a prompt that was refused took nothing
            self._context_tokens = exchange.context_used
        self.query_one(Composer).hint("")
        if isinstance(exchange.ending, GenerationDone):
            self._chat.answer(exchange.ending.text, exchange.trace)
            self._plain_step = exchange.ending.stats.plain_step_seconds or self._plain_step
        elif exchange.stats.rounds:
            self._chat.answer(exchange.reply.text, exchange.trace)
        else:
            await self._take_back()
            self.query_one(Composer).restore(exchange.question)
        self._show_figures(exchange)
        if (failure := exchange.failure)[0]:
            await self._view.note(failure[0], "error", failure[1])
        await self._save()
        self._show_state()

    async def on_unmount(self) -> None:
        """Keep what there is of a reply that leaving the app cuts off."""
        if (exchange := self._exchange) is not None and exchange.rounds:
            self._chat.answer(exchange.reply.text, exchange.trace)
            await self._save()
