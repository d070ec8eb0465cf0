"""The interface of a TextArena environment over `spag env`. It does not need the textarena package."""

import re

from spag_env.process import EnvProcess


def make(env_id, data=None, program=None, command=None, **options):
    """An environment for `env_id`: a game of spag (`kuhn-poker`) or TextArena's id of it (`KuhnPoker-v0`).

    The id's ending selects the observation: a player's view as text; `-train`, the shorter text of TextArena's training
    ids; `-raw`, the new messages as (sender, text, kind). Options replace TextArena's other ids: `rounds=5` is
    `KuhnPoker-v0-short`. `data`, `program` and `command` are those of `EnvProcess`.
    """
    name, form = re.fullmatch(r"(.*?)(-train|-raw)?", env_id).groups()
    if ":" not in name:  # textarena:ID, of textarena_child.py, stays as it is
        name = re.sub(r"(?<=[a-z])(?=[A-Z])", "-", name.removesuffix("-v0")).lower()
    return TextArenaEnv(EnvProcess(name, data, program, command), options, form)


class TextArenaEnv:
    """One game at a time over an `EnvProcess`, which `close` ends."""

    def __init__(self, process, options, form):
        self.process, self.options, self.form = process, options, form
        self.turns, self.refused = {0: 0, 1: 0}, None

    def reset(self, num_players=2, seed=None):
        """Starts a game. Without a seed one is drawn."""
        if num_players != 2:
            raise ValueError(f"num_players is {num_players}: the games of spag have 2 players")
        self.process.reset(seed, **self.options)
        self.turns, self.refused = {0: 0, 1: 0}, None

    def get_observation(self):
        """The player to act, and its view or new messages; after the end, None and nothing."""
        player = self.process.answer["player"]
        if self.form == "-raw":
            return player, [(m["from"], m["text"], m["kind"]) for m in self.process.answer["observations"]]
        if player is None:
            return None, ""
        view = self.process.views[player]
        return player, view.train_text() if self.form == "-train" else view.text()

    def step(self, action):
        """Plays an action of the player to act. Returns (done, {})."""
        player = self.process.answer["player"] if self.process.answer else None
        answer = self.process.step(action)
        self.refused = player if answer["invalid"] else None
        self.turns[player] += answer["done"] or not answer["invalid"]  # as TextArena counts
        return answer["done"], {}

    def close(self):
        """Ends the process. Returns the rewards (None before the end) and, for each player, the game's information."""
        self.process.close()
        answer = self.process.answer or {}
        rewards = answer.get("rewards")
        info = {player: {"role": f"Player {player}", "turn_count": self.turns[player], "reason": answer.get("reason"),
                         "invalid_move": answer.get("reason") == "invalid" and self.refused == player}
                for player in (0, 1)}
        return rewards and {int(player): reward for player, reward in rewards.items()}, info
