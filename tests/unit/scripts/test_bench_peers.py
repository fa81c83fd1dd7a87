"""What programs print becomes figures, and figures become tables."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest
from bench_peers import Pace, Record, seconds_of
from peer_report import (
    Measurement,
    Results,
    acceptance,
    contests,
    first_difference,
    geometric_mean,
    markdown,
    same_length,
)
from peer_runners import (
    Job,
    PeerError,
    Prompt,
    command,
    edgespec_reply,
    ending,
    environment,
    parse_command,
    parse_python,
    parse_server,
    server_request,
    shown,
)
from peer_settings import AUTO, EDGESPEC, PLAIN, PYTHON, SERVER, SERVER_NONE, all_settings, choose, turn

from edgespec.decoding.stats import GenerationStats
from edgespec.engine.messages import GenerationDone
from edgespec.types import FinishReason, Mode

PROMPT = "<|im_start|>user\nCount from one to ten in words.<|im_end|>\n<|im_start|>assistant\n"

SIMPLE_LOG = """0.01.656.970 I cmn          init: llama threadpool init, n_threads = 2
1.02.848.623 I encoded   38 tokens in    8.729 seconds, speed:    4.353 t/s
1.02.848.648 I decoded   20 tokens in    4.000 seconds, speed:    5.000 t/s
1.02.848.664 I
1.02.848.679 I n_draft   = 3
1.02.848.694 I n_predict = 20
1.02.848.709 I n_drafted = 15
1.02.848.724 I n_accept  = 15
1.02.848.739 I accept    = 100.000%
"""

LOOKUP_LOG = """0.42.988.587 I encoded   38 tokens in    8.522 seconds, speed:    6.454 t/s
0.42.988.611 I decoded   17 tokens in    2.000 seconds, speed:    8.500 t/s
0.42.988.641 I n_draft      = 3
0.42.988.656 I n_predict    = 17
0.42.988.671 I n_drafted    = 3
0.42.988.686 I t_draft_flat = 0.04 ms
0.42.988.702 I t_draft      = 0.19 ms, 62.33 us per token, 16042.78 tokens per second
0.42.988.716 I n_accept     = 1
0.42.988.732 I accept       = 33.333%
"""

SERVER_ANSWER = {
    "content": "1. 1\n2. 2",
    "tokens_predicted": 24,
    "timings": {
        "cache_n": 0,
        "prompt_n": 38,
        "prompt_ms": 1000.0,
        "predicted_n": 24,
        "predicted_ms": 2300.0,
        "predicted_per_second": 10.0,
        "draft_n": 17,
        "draft_n_accepted": 15,
    },
}


def job(**changes: object) -> Job:
    values = {
        "peers": Path("/opt/peers"), "target": Path("/models/big.gguf"), "draft": Path("/models/small.gguf"),
        "ctx": 1024, "threads": 2, "tokens": 128, "gpu_layers": 0, "timeout": 60.0,
    }  # fmt: skip
    return Job(**{**values, **changes})  # type: ignore[arg-type]


def setting(name: str) -> object:
    return next(s for s in all_settings() if s.name == name)


# Parsers


def test_the_first_token_of_a_server_counts_to_its_prompt() -> None:
    reply = parse_server(SERVER_ANSWER, wall=3.4)
    assert reply.rate == pytest.approx(23 / 2.3)
    assert reply.wall_rate == pytest.approx(23 / 2.4)
    assert (reply.tokens, reply.prompt_tokens, reply.drafted, reply.accepted) == (24, 38, 17, 15)


def test_a_server_without_drafts_drafted_nothing() -> None:
    times = {k: v for k, v in SERVER_ANSWER["timings"].items() if "draft" not in k}  # type: ignore[attr-defined]
    assert parse_server({**SERVER_ANSWER, "timings": times}, 3.4).drafted == 0


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"content": "x"}, "timings"),
        ({**SERVER_ANSWER, "timings": {"predicted_n": 24}}, "predicted_ms"),
        ({**SERVER_ANSWER, "timings": {**SERVER_ANSWER["timings"], "predicted_n": 1}}, "too few"),  # type: ignore[dict-item]
    ],
)
def test_a_server_answer_without_figures_is_a_reason(answer: dict[str, object], words: str) -> None:
    with pytest.raises(PeerError, match=words):
        parse_server(answer, 3.4)


def test_a_server_is_asked_for_a_greedy_reply_from_an_empty_cache() -> None:
    request = server_request([1, 2, 3], 7)
    assert request["prompt"] == [1, 2, 3]
    assert (request["n_predict"], request["temperature"], request["cache_prompt"]) == (7, 0, False)


def test_speculative_simple_evaluates_its_first_token_and_lookup_does_not() -> None:
    simple = parse_command(f"\n\n{PROMPT}1. 1\n2.\n\n\n", SIMPLE_LOG, PROMPT, free=False)
    assert simple.rate == pytest.approx(20 / 4)
    assert (simple.text, simple.prompt_tokens, simple.drafted, simple.accepted) == ("1. 1\n2.", 38, 15, 15)
    lookup = parse_command(f"\n\n{PROMPT}1. 1\n\n\n", LOOKUP_LOG, PROMPT, free=True)
    assert lookup.rate == pytest.approx(16 / 2)
    assert (lookup.drafted, lookup.accepted) == (3, 1)


def test_a_program_that_prints_no_figures_is_quoted() -> None:
    with pytest.raises(PeerError, match="error: invalid argument: --spec-type"):
        parse_command("", "usage\nerror: invalid argument: --spec-type\n", PROMPT, free=True)


def test_the_python_peer_reports_figures_or_an_error() -> None:
    answer = {"text": "a b", "tokens": 11, "seconds": 2.0, "drafted": 30, "accepted": 6}
    reply = parse_python(answer, 38)
    assert (reply.rate, reply.drafted, reply.accepted, reply.prompt_tokens) == (5.0, 30, 6, 38)
    with pytest.raises(PeerError, match="could not broadcast"):
        parse_python({"error": "ValueError: could not broadcast input array"}, 38)


def test_edgespec_counts_every_token_by_both_clocks() -> None:
    stats = GenerationStats(
        prompt_tokens=38, emitted_tokens=20, decode_seconds=2.0, decode_tokens_per_second=10.0, drafted=9, accepted=4
    )
    done = GenerationDone(1, FinishReason.LENGTH, "text", tuple(range(20)), Mode.AUTO, stats)
    reply = edgespec_reply(done, 2.5)
    assert (reply.rate, reply.wall_rate, reply.drafted, reply.accepted) == (10.0, 8.0, 9, 4)
    with pytest.raises(PeerError, match="too few"):
        edgespec_reply(GenerationDone(1, FinishReason.STOP, "", (), Mode.PLAIN, GenerationStats()), None)


def test_a_killed_program_is_said_to_be_killed() -> None:
    class Gone:
        returncode = -4

    assert ending(Gone(), "a\nb\n\nc\nd\n").startswith("killed by SIGILL; last lines: b / c / d")  # type: ignore[arg-type]
    Gone.returncode = 1
    assert ending(Gone(), "") == "exit code 1; last lines: no output"  # type: ignore[arg-type]


# Settings


def test_names_are_unique_and_the_references_exist() -> None:
    names = [s.name for s in all_settings()]
    assert len(names) == len(set(names))
    assert {PLAIN, AUTO, SERVER_NONE} <= set(names)


def test_patterns_choose_and_a_pattern_without_a_match_is_refused() -> None:
    chosen = choose(all_settings(), ["server:draft-simple:*", AUTO], everything=False, draft=True)
    assert {s.program for s in chosen} == {SERVER, EDGESPEC}
    assert len(chosen) == 9
    with pytest.raises(ValueError, match="nonsense"):
        choose(all_settings(), ["nonsense*"], everything=False, draft=True)


def test_without_a_draft_model_auto_stays_and_draft_settings_go() -> None:
    names = [s.name for s in choose(all_settings(), [], everything=True, draft=False)]
    assert AUTO in names
    assert not any("draft" in name for name in names)


def test_programs_that_learn_are_started_for_each_reply() -> None:
    assert all(s.fresh for s in all_settings() if "ngram-mod" in s.name or "ngram-map" in s.name)


def test_every_turn_has_every_setting_and_another_goes_first() -> None:
    settings = choose(all_settings(), [], everything=False, draft=True)
    turns = [turn(settings, repeat, prompt) for repeat in range(5) for prompt in range(8)]
    assert all(sorted(s.name for s in t) == sorted(s.name for s in settings) for t in turns)
    assert len({t[0].name for t in turns}) > 5


def test_all_programs_get_the_same_files_context_and_threads() -> None:
    for s in all_settings():
        line = " ".join(command(s, job()))
        assert "/models/big.gguf" in line
        if s.program != PYTHON:
            assert "1024" in line and ("--threads 2" in line)
        if s.needs_draft:
            assert "/models/small.gguf" in line


def test_a_server_listens_on_this_machine_only() -> None:
    line = command(setting(SERVER_NONE), job())  # type: ignore[arg-type]
    assert line[line.index("--host") + 1] == "127.0.0.1"


def test_commands_are_shown_without_folders() -> None:
    for s in all_settings():
        text = shown(command(s, job()), job())
        assert "/models/" not in text and "/opt/" not in text and ".py" not in text.replace("peer_lookup.py", "")


def test_peers_do_not_see_what_edgespec_sets_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GGML_CPU_TILED_MM", "edgespec")
    found = environment(job())
    assert found.get("GGML_CPU_TILED_MM") != "edgespec"
    assert found["LLAMA_CPP_LIB_PATH"] == "/opt/peers"


def test_a_fresh_start_is_part_of_the_estimate() -> None:
    prompt, pace = Prompt("p", "k", "", tuple(range(100))), Pace(load=3.0, prompt=50.0, decode=10.0)
    plain = seconds_of(setting(SERVER_NONE), prompt, 100, pace)  # type: ignore[arg-type]
    fresh = seconds_of(setting("server:ngram-mod:n24-m64"), prompt, 100, pace)  # type: ignore[arg-type]
    assert plain == pytest.approx(12.0)
    assert fresh == pytest.approx(5.0 + 2.0 + 10.0 / 1.2)


# Arithmetic


def found(name: str, rates: list[float], prompt: str = "story", **more: object) -> list[Measurement]:
    return [Measurement(name, prompt, r, tokens=128, rate=rate, **more) for r, rate in enumerate(rates)]  # type: ignore[arg-type]


def test_ratios_are_formed_within_a_repeat() -> None:
    # The machine halves its speed after the second repeat; the ratio does not notice.
    results = Results([*found(PLAIN, [10, 10, 5, 5, 5]), *found(AUTO, [15, 15, 7.5, 7.5, 7.5])])
    assert results.ratio(AUTO, PLAIN, "story") == pytest.approx(1.5)


def test_repeats_that_only_one_side_has_do_not_count() -> None:
    results = Results([*found(PLAIN, [10, 10]), *found(AUTO, [12, 12, 99])])
    assert results.ratio(AUTO, PLAIN, "story") == pytest.approx(1.2)
    assert results.ratio(AUTO, SERVER_NONE, "story") is None


def test_repeats_that_lie_far_apart_say_nothing_about_each_other() -> None:
    results = Results([*found(PLAIN, [10, 10], at=0.0), *found(AUTO, [12, 12], at=86_400.0)])
    assert results.ratio(AUTO, PLAIN, "story") is None
    assert results.rate(AUTO, "story") == 12


def test_failures_have_no_rate_and_keep_their_reason() -> None:
    results = Results([Measurement(AUTO, "story", 0, "no reply within 60 s"), *found(PLAIN, [10])])
    assert results.rate(AUTO, "story") is None
    assert results.failures == {AUTO: ["no reply within 60 s"]}


def test_geometric_means_leave_out_what_is_unknown() -> None:
    assert geometric_mean([2.0, None, 0.5]) == pytest.approx(1.0)
    assert geometric_mean([None]) is None


def test_texts_are_compared_as_far_as_the_shorter_goes() -> None:
    assert first_difference("one two three", "one two") is None
    assert first_difference("one two\n", "one two three") is None
    assert first_difference("one two", "one tow") == 5


def test_a_text_that_differs_is_said_to_differ() -> None:
    results = Results([
        *found(PLAIN, [10, 10], text="one two"), *found(AUTO, [10, 10], text="one two three"),
        *found(SERVER_NONE, [10, 10], text="one, two"),
    ])  # fmt: skip
    assert results.sameness(AUTO, "story") == "same"
    assert results.sameness(SERVER_NONE, "story") == "differs from character 3 on"
    assert results.sameness("lookup:k3", "story") == ""


def test_few_drafts_are_no_percentage() -> None:
    assert acceptance((2, 1)) == "1/2"
    assert acceptance((200, 50)) == "50/200 (25%)"
    assert acceptance(None) == "–"


def test_auto_meets_each_program_at_its_best_on_each_prompt() -> None:
    results = Results([
        *found(PLAIN, [10] * 3), *found(AUTO, [12] * 3),
        *found("server:draft-simple:k3", [11] * 3), *found("server:ngram-simple:n3-m3", [8] * 3),
        *found(PLAIN, [10] * 3, "edit"), *found(AUTO, [30] * 3, "edit"),
        *found("server:draft-simple:k3", [10] * 3, "edit"), *found("server:ngram-simple:n3-m3", [20] * 3, "edit"),
    ])  # fmt: skip
    table = {c.against: c for c in contests(results, all_settings(), ["story", "edit"])}
    server = table["llama-server, best setting"]
    assert server.opponents == {"story": "server:draft-simple:k3", "edit": "server:ngram-simple:n3-m3"}
    assert server.ratios == {"story": pytest.approx(12 / 11), "edit": pytest.approx(1.5)}
    assert server.mean == pytest.approx((12 / 11 * 1.5) ** 0.5)
    assert server.worst == pytest.approx(12 / 11)
    assert table["best setting of any peer"].ratios == server.ratios
    assert "llama-lookup, best setting" not in table


def test_draft_modes_meet_at_the_same_length() -> None:
    results = Results([*found("edgespec:draft:k3", [12] * 3), *found("server:draft-simple:k3", [10] * 3)])
    rows = same_length(results, all_settings(), ["story"])
    assert [(c.against, c.mean) for c in rows] == [("server:draft-simple:k3", pytest.approx(1.2))]


def record_of(measurements: list[Measurement]) -> dict[str, object]:
    return {
        "run": {
            "started": "2026-01-01 10:00", "ended": "2026-01-01 11:00", "library": "that of the peers' build",
            "target": "big.gguf", "draft": "small.gguf", "threads": 2, "ctx": 1024, "tokens": 128, "repeats": 5,
            "gpu_layers": 0, "done": len(measurements), "planned": 20,
        },
        "machine": {
            "processor": "A processor", "physical_cores": 2, "logical_cores": 4, "memory_gib": 16,
            "system": "Linux x86_64", "power": "mains",
        },
        "prompts": [{"name": "story", "kind": "story"}],
        "commands": {PLAIN: "edgespec run"},
        "measurements": [],
    }  # fmt: skip


def test_the_report_shows_ratios_failures_and_commands() -> None:
    measurements = [
        *found(PLAIN, [10, 10.1, 9.9], text="x"), *found(AUTO, [12, 12, 12], text="x", drafted=100, accepted=40),
        *found(SERVER_NONE, [10, 10, 10], text="x"), Measurement("lookup:k3", "story", 0, "killed by SIGILL"),
    ]  # fmt: skip
    text = markdown(record_of(measurements), all_settings(), Results(measurements))
    assert "| edgespec:auto | 12.00 | – | 0% | 1.20 | 1.20 | 120/300 (40%) | 128 | same |" in text
    assert "| lookup:k3 | 1 | killed by SIGILL |" in text
    assert "edgespec run" in text
    assert "too wide" not in text


def test_a_noisy_run_says_so() -> None:
    noisy = found(PLAIN, [10, 14, 7, 12, 8])
    assert "too wide to tell" in markdown(record_of(noisy), all_settings(), Results(noisy))


# The record


def facts_of(target: str = "big.gguf") -> dict[str, object]:
    return {
        "run": {
            "started": "now", "target": target, "draft": None, "ctx": 1024, "threads": 2, "tokens": 128,
            "gpu_layers": 0,
        },
        "prompts": [{"name": "story", "kind": "story"}],
        "commands": {},
    }  # fmt: skip


def test_an_interrupted_run_goes_on_where_it_was_and_failures_get_another_chance(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    first = Record(path, facts_of(), resume=False)
    first.add(Measurement(PLAIN, "story", 0, rate=10.0))
    first.add(Measurement(AUTO, "story", 0, "no reply"))
    again = Record(path, facts_of(), resume=True)
    assert again.done((PLAIN, "story", 0))
    assert not again.done((AUTO, "story", 0))
    again.add(Measurement(AUTO, "story", 0, rate=12.0))
    assert len(json.loads(path.read_text())["measurements"]) == 2


def test_a_record_is_neither_overwritten_nor_mixed_with_another_run(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    Record(path, facts_of(), resume=False).add(Measurement(PLAIN, "story", 0, rate=10.0))
    with pytest.raises(click.ClickException, match="--resume"):
        Record(path, facts_of(), resume=False)
    with pytest.raises(click.ClickException, match="another target"):
        Record(path, facts_of("other.gguf"), resume=True)
