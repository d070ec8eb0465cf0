"""Judging, credit, prompts and counts of Adversarial Taboo and the other games of SPAG."""

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypedDict, Union

__version__: str

_Path = Union[str, os.PathLike[str]]
_Judge = Literal["paper", "whole-word", "whole_word"]
_Format = Literal["plain", "chat"]
_Utterance = Mapping[str, Any]
_History = Sequence[_Utterance]

class Message(TypedDict):
    """A message of a chat."""

    role: Literal["system", "user", "assistant"]
    content: str

class Tally(TypedDict):
    """Counts of games. The keys of `wins`, `rewarded_wins`, `win_rates` and `refused` are the seats."""

    games: int
    decided: int
    ties: int
    broken_rules: int
    utterances: int
    mean_turns: float | None
    outcomes: dict[str, int]
    endings: dict[str, int]
    wins: dict[str, int]
    rewarded_wins: dict[str, int]
    win_rates: dict[str, float | None]
    refused: dict[str, int]

def judge(history: _History, target_word: str, max_turns: int | None = 5, judge: _Judge = "paper") -> tuple[str, int]:
    """Judge one game: its outcome and the number of utterances up to the deciding one.

    The outcome is "attacker wins", "defender wins", "attacker breaks the rules" or "tied game". Raises ValueError if the word is
    empty, or the roles do not alternate.
    """

def judge_episodes(
    episodes: Iterable[Mapping[str, Any]], *, judge: _Judge = "paper", game_data: _Path | None = None
) -> list[tuple[str, int]]:
    """Judge many games: the (outcome, length) of each, in order. An error names the 1-based row."""

def assign_rewards(
    episodes: Iterable[Mapping[str, Any]],
    *,
    decay_weight: float = 0.8,
    reward_norm: Literal["sum", "mean"] = "sum",
    credit: Literal["winner", "signed", "drawn"] = "winner",
    seed: int = 0,
    judge: _Judge = "paper",
    game_data: _Path | None = None,
    prompts: _Path | None = None,
    prompt_format: _Format = "plain",
    reasoning: Literal["think", "boxed", "none"] = "think",
    reasoning_tags: str = "<think> </think>",
    keep_reasoning: bool = False,
) -> list[dict[str, Any]]:
    """Judge episodes and turn the winners' utterances into samples, as the program spag-assign-rewards does.

    A sample has `query`, `target`, `reward`, `role` and `weight`. The weights depend on all episodes: pass all of them at once.
    """

def tally(episodes: Iterable[Mapping[str, Any]], *, judge: _Judge = "paper", game_data: _Path | None = None) -> Tally:
    """Judge episodes and count how they ended."""

class Prompts:
    """The wordings of Adversarial Taboo, built-in or of a file. A prompt is a text, or messages with the format "chat"."""

    def __init__(self, *, prompts: _Path | None = None, prompt_format: _Format = "plain") -> None: ...
    def playing(self, history: _History, target_word: str, max_turns: int | None = 5) -> str | list[Message]:
        """The prompt of the seat to move after `history`, in the one wording of play."""

    def training(
        self, history: _History, target_word: str, max_turns: int | None = 5, seed: int = 0
    ) -> str | list[Message]:
        """The prompt of the seat to move after `history`, in a wording of training that `seed` draws."""

    @property
    def prompt_format(self) -> _Format:
        """The format of prompts."""

    @property
    def sha256(self) -> str:
        """The SHA-256 of the file of wordings, in hexadecimal."""

class TabooReward:
    """A reward function for TRL's GRPOTrainer: what the next utterance of a game decides.

    A row of the data set is a position of a game: `target_word`, `history` (none if the column is absent) and `max_turns` (5). The
    completion is the utterance of the seat to move. A row whose `target_word` is None has the reward None.
    """

    def __init__(
        self, judge: _Judge = "paper", win: float = 1.0, loss: float = -1.0, undecided: float = 0.0
    ) -> None: ...
    @property
    def __name__(self) -> str:
        """The name under which trainers log the reward."""

    def __call__(
        self,
        prompts: Sequence[str | list[Message]],
        completions: Sequence[str | list[Message]],
        **columns: Any,
    ) -> list[float | None]:
        """The reward of every completion."""
