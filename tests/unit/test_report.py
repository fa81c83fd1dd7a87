"""A comparison in tables, Markdown and JSON: small golden values."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from typing import Any

import pytest
from fake_host import loaded
from rich.console import Console

from edgespec.comparison import Comparison, Gap, Run, Step
from edgespec.conditions import Conditions
from edgespec.contestants import PLAIN, Contestant
from edgespec.decoding.auto_report import AutoReport, Use
from edgespec.decoding.stats import GenerationStats
from edgespec.engine import messages as m
from edgespec.prompts import Prompt
from edgespec.report import renderables, to_markdown, to_object
from edgespec.report_words import cells, findings, heading, overall_findings
from edgespec.types import FinishReason, Mode, Origin

LOOKUP = Contestant(Mode.LOOKUP, 4)
COLD = Conditions("2025-01-02T03:04:05+00:00", "mains", 80.0, 3000.0, 4000.0, 40.0, 0.5)
TOKENS = tuple(range(40))


def run(contestant: Contestant, repeat: int, rate: float, tokens: tuple[int, ...] = TOKENS, prompt: str = "a") -> Run:
    plain = contestant == PLAIN
    stats = GenerationStats(
        prompt_tokens=10,
        prompt_seconds=0.5,
        prompt_tokens_per_second=20.0,
        seconds_to_first_token=0.04,
        emitted_tokens=len(tokens),
        decode_seconds=len(tokens) / rate,
        decode_tokens_per_second=rate,
        rounds=len(tokens) if plain else 20,
        drafted=0 if plain else 30,
        accepted=0 if plain else 20,
        alpha=None if plain else 0.75,
        mean_acceptance_length=1.0 if plain else 2.0,
    )
    step = Step(0.6, tokens, tuple(f"<{token}>" for token in tokens), (Origin.PLAIN,) * len(tokens), 0, "", ())
    return Run(prompt, contestant.name, repeat, 0, FinishReason.LENGTH, "text", tokens, stats, (step,))


def comparison(runs: tuple[Run, ...] | None = None, **changes: Any) -> Comparison:
    if runs is None:
        runs = tuple(
            run(contestant, repeat, rate * (1 + repeat / 100))
            for repeat in range(3)
            for contestant, rate in ((PLAIN, 10.0), (LOOKUP, 15.0))
        )
    made = Comparison(
        loaded=loaded(),
        options=m.GenerateOptions(max_tokens=40),
        system=None,
        prompts=(Prompt("a", "A", "story", "Say a."),),
        contestants=(PLAIN, LOOKUP),
        repeats=3,
        runs=runs,
        processor="Fast CPU, 2 cores",
        before=COLD,
        after=replace(COLD, time="2025-01-02T03:05:05+00:00", temperature=60.0, load=2.0),
    )
    return replace(made, **changes)


def drawn(value: Comparison, width: int = 110) -> str:
    console = Console(file=io.StringIO(), width=width, color_system=None)
    for part in renderables(value):
        console.print(part)
    assert isinstance(console.file, io.StringIO)
    return "\n".join(line.rstrip() for line in console.file.getvalue().splitlines())


GOLDEN = """\
Models: Fake 1B (t.gguf)
Library: fake 0.0, 2 threads
Replies: greedy, up to 40 tokens, 3 repeats, caches empty
Machine: Fast CPU, 2 cores
Before:  on mains (80 %), clock 3,000 of 4,000 MHz, 40 °C, load 0.5 (2025-01-02T03:04:05+00:00)
After:   on mains (80 %), clock 3,000 of 4,000 MHz, 60 °C, load 2.0 (2025-01-02T03:05:05+00:00)

a: A (story)
mode      tok/s (min..max)  vs plain (min..max)  accepted     α     τ  passes  first  same
plain     10.1 (10.0..10.2)                1.00                 -     -  1.00      40        40 ms          -
lookup:4  15.2 (15.0..15.3)    1.50 (1.50..1.50)            20/30  0.75  2.00      20        40 ms        yes
· lookup:4 is faster than plain: 1.50x.
"""


def test_the_terminal_sees_a_table_and_what_it_means() -> None:
    shown = drawn(comparison())
    assert [line.split() for line in shown.strip().splitlines()] == [line.split() for line in GOLDEN.splitlines()]


def test_narrow_terminals_lose_no_figure() -> None:
    shown = drawn(comparison(), width=80)
    assert all(len(line) <= 80 for line in shown.splitlines())
    assert all(figure in "".join(shown.split()) for figure in ("15.2", "20/30", "0.75"))


@pytest.mark.parametrize("width", [40, 80, 120])
def test_a_matrix_wider_than_the_terminal_goes_on_below_and_no_figure_is_cut_in_two(width: int) -> None:
    lengths = [Contestant(mode, k) for mode in (Mode.LOOKUP, Mode.DRAFT) for k in range(1, 9)]
    rates = {contestant: 10.0 + number for number, contestant in enumerate([PLAIN, *lengths])}
    runs = tuple(
        run(contestant, repeat, rate, prompt=prompt)
        for prompt in ("a", "b")
        for repeat in range(3)
        for contestant, rate in rates.items()
    )
    two = (Prompt("a", "A", "story", "Say a."), Prompt("b", "B", "list", "Say b."))
    shown = drawn(comparison(runs, prompts=two, contestants=tuple(rates)), width).splitlines()
    assert max(map(len, shown)) <= width
    heads = [line for line in shown if line.startswith("x plain")]
    means = [line for line in shown if line.startswith("geometric mean")]
    assert " ".join(heads).replace("x plain", "").split() == [contestant.name for contestant in lengths]
    assert [float(word) for line in means for word in line.split()[2:]] == pytest.approx(
        [rate / 10 for rate in list(rates.values())[1:]]
    )
    assert len(heads) == {40: 8, 80: 3, 120: 2}[width]


def test_markdown_has_the_same_cells() -> None:
    page = to_markdown(comparison())
    assert page.startswith("# Modes compared\n\n- Models: Fake 1B (t.gguf)\n")
    assert "| plain | 10.1 (10.0..10.2) | 1.00 | - | - | 1.00 | 40 | 40 ms | - |\n" in page
    assert "\n- lookup:4 is faster than plain: 1.50x.\n" in page
    assert page.endswith("\n") and not page.endswith("\n\n")


def test_json_holds_the_figures_under_full_names() -> None:
    value = to_object(comparison())
    text = json.dumps(value, allow_nan=False)
    assert json.dumps(json.loads(text)) == text
    plain, lookup = value["results"]
    assert (plain["mode"], plain["ratio_to_plain"], plain["conclusion"]) == ("plain", None, None)
    assert lookup["ratio_to_plain"]["median"] == pytest.approx(1.5)
    assert lookup["ratio_to_plain"]["repeats"] == 3
    assert (lookup["conclusion"], lookup["same_text"], lookup["difference"]) == ("faster", True, None)
    assert lookup["decode_tokens_per_second"] == {
        "median": pytest.approx(15.15), "min": 15.0, "max": pytest.approx(15.3), "repeats": 3
    }  # fmt: skip
    assert value["machine"]["before"]["power"] == "mains"
    assert value["options"]["sampling"]["temperature"] == 0 and "mode" not in value["options"]
    assert len(value["runs"]) == 6 and "rounds_trace" not in value["runs"][0]


def test_a_trace_adds_what_a_replay_needs() -> None:
    first = to_object(comparison(), trace=True)["runs"][0]
    assert first["tokens"] == list(TOKENS)
    assert first["rounds_trace"][0]["seconds"] == 0.6
    assert first["rounds_trace"][0]["origins"][0] == "plain"


def test_no_acceptance_rate_is_quoted_from_few_drafted_tokens() -> None:
    few = run(LOOKUP, 0, 15.0)
    few = replace(few, stats=replace(few.stats, drafted=19, accepted=10))
    score = comparison((run(PLAIN, 0, 10.0), few)).score("a", LOOKUP)
    assert score is not None
    assert cells(score)[3:5] == ("10/19", "-")


def test_a_short_reply_and_few_repeats_are_said() -> None:
    value = comparison((run(PLAIN, 0, 10.0, (1, 2)), run(LOOKUP, 0, 20.0, (1, 2))), complete=False)
    assert findings(value, "a") == ["The reply has only 2 tokens: too short for its speed to say much."]
    assert overall_findings(value)[:2] == [
        "Too few repeats to conclude anything; 3 or more show the noise.",
        "Not complete: 2 of 6 runs were measured.",
    ]


@pytest.mark.parametrize(
    ("gap", "cell", "words"),
    [
        (None, "NO", '"<3>…'),
        (0.0004, "tie", "0.0004 apart there, a tie that rounding decides."),
        (0.5, "NO", "too much for a tie of rounding: report it."),
    ],
)
def test_a_difference_is_shown_where_it_starts(gap: float | None, cell: str, words: str) -> None:
    runs = (run(PLAIN, 0, 10.0), run(LOOKUP, 0, 15.0, (0, 1, 2, 99)))
    value = comparison(runs, gaps=() if gap is None else (Gap("a", "lookup:4", gap),))
    score = value.score("a", LOOKUP)
    assert score is not None and cells(score)[-1] == cell
    sentence = findings(value, "a")[0]
    assert sentence.startswith("lookup:4 leaves plain's text after 3 tokens: \"<3><4>")
    assert 'against "<99>"' in sentence
    assert sentence.endswith(words) or gap is None


def test_a_reply_that_ends_early_differs_by_its_end() -> None:
    value = comparison((run(PLAIN, 0, 10.0), run(LOOKUP, 0, 15.0, TOKENS[:35])))
    assert "against the end of the reply" in findings(value, "a")[0]


def test_what_may_have_spoilt_the_figures_is_said() -> None:
    value = comparison(
        before=replace(COLD, power="mains"), after=replace(COLD, power="battery", clock_mhz=2000.0), others=0.4,
        notices=("Safe mode.",),
    )  # fmt: skip
    said = " ".join(overall_findings(value))
    for words in ("battery", "power source changed", "fell from 3,000 to 2,000 MHz", "used 40%", "Safe mode."):
        assert words in said


def test_several_prompts_are_summed_up() -> None:
    runs = tuple(
        run(contestant, repeat, rate, prompt=prompt)
        for repeat in range(3)
        for prompt, rates in (("a", (10.0, 20.0)), ("b", (10.0, 5.0)))
        for contestant, rate in zip((PLAIN, LOOKUP), rates, strict=True)
    )
    two = (Prompt("a", "A", "story", "Say a."), Prompt("b", "B", "list", "Say b."))
    value = comparison(runs, prompts=two)
    assert overall_findings(value)[0] == "lookup:4 over 2 prompts (geometric mean) is as fast as plain, within 2%."
    assert "| geometric mean | 1.00" in to_markdown(value)
    assert ["geometric", "mean", "1.00"] in [line.split() for line in drawn(value).splitlines()]


def test_a_ratio_that_says_nothing_has_a_question_mark() -> None:
    rates = ((10.0, 9.0), (10.0, 12.0), (10.0, 10.5))
    runs = tuple(
        run(contestant, repeat, rate, prompt=prompt)
        for prompt in ("a", "b")
        for repeat, pair in enumerate(rates)
        for contestant, rate in zip((PLAIN, LOOKUP), pair, strict=True)
    )
    two = (Prompt("a", "A", "story", "Say a."), Prompt("b", "B", "list", "Say b."))
    value = comparison(runs, prompts=two)
    assert "| a | 1.05? |" in to_markdown(value)
    assert "question mark" in " ".join(overall_findings(value))


def test_text_is_never_markup_and_steers_nothing() -> None:
    nasty = Prompt("a", "[red]x[/bad] \x1b[31m | `b` <i>\nline", "*k*", "t")
    runs = (run(PLAIN, 0, 10.0), run(LOOKUP, 0, 15.0, (0, 1, 2, 99)))
    value = comparison(runs, prompts=(nasty,), notices=("[/INST] \x1b]0;t\x07 | x",))
    shown, page = drawn(value), to_markdown(value)
    assert "[red]x[/bad]" in shown and "[/INST]" in shown
    assert "\x1b" not in shown + page
    assert "\\[red\\]x\\[/bad\\]" in page and "\\<i\\>" in page and "\\| x" in page
    assert all("\n" not in line for line in heading(value))


def test_nothing_measured_is_an_empty_report() -> None:
    value = comparison((), complete=False)
    assert to_object(value)["results"] == []
    assert "Not complete: 0 of 6 runs were measured." in drawn(value)
    assert "tok/s" not in to_markdown(value)


def with_auto() -> Comparison:
    uses = (Use("lookup", 12, 60, 40, 52, 20.0), Use("plain", 1, 0, 0, 1, 1.0))
    report = AutoReport(uses, "nothing repeats", 1.42, ((1, 1.0), (4, 1.5)), 0.12, 0.07)
    auto = Contestant(Mode.AUTO)
    made = tuple(replace(run(auto, repeat, 14.0), auto=report) for repeat in range(3))
    plain = tuple(run(PLAIN, repeat, 10.0) for repeat in range(3))
    return comparison((*plain, *made), contestants=(PLAIN, auto))


def test_auto_says_what_it_used_and_that_it_remembers() -> None:
    said = findings(with_auto(), "a")
    assert said[1] == "auto used lookup in 12 rounds (40/60 accepted), plain in 1 round; 1.42x plain was predicted."
    assert any("keeps what it learnt" in sentence for sentence in overall_findings(with_auto()))
    assert to_object(with_auto())["runs"][-1]["auto"]["reason"] == "nothing repeats"


def test_the_cost_of_passes_is_shown_when_asked_for() -> None:
    value = with_auto()
    page = to_markdown(value, costs=True)
    assert "| cost, in plain steps | 1.00 | 1.50 |\n" in page and "| per token | 1.00 | 0.38 |\n" in page
    assert "A plain step takes 70.0 ms. A draft step costs 0.12 plain steps.\n" in page
    assert "per token" not in to_markdown(value)
    console = Console(file=io.StringIO(), width=110, color_system=None)
    with console.capture() as captured:
        for part in renderables(value, costs=True):
            console.print(part)
    assert "70.0 ms" in captured.get()
    assert to_object(value)["costs"]["pass_cost"] == {"1": 1.0, "4": 1.5}
    assert to_object(comparison())["costs"] is None
