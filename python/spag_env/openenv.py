"""`spag env` as an environment of OpenEnv (`pip install openenv-core`).

    app = create_app(lambda: SpagEnvironment("kuhn-poker"), SpagAction, SpagObservation, max_concurrent_envs=8)
"""

import uuid

from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State
from pydantic import BaseModel

from spag_env.process import EnvProcess


class SpagAction(Action):
    """The text of the player to act."""

    message: str


class SpagMessage(BaseModel):
    """A message to a player: sender -1 is the game; the category is the upper-case kind."""

    sender_id: int
    content: str
    category: str


class SpagObservation(Observation):
    """What the player to act is given. `reward` is that of the player who has just acted; `info` has both players'."""

    prompt: str = ""
    messages: list[SpagMessage] = []
    current_player_id: int | None = None
    legal_players: list[int] = []
    info: dict = {}


class SpagEnvironment(Environment):
    """One session: its own process, one game at a time, both players through `step`."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self, game, data=None, program=None, command=None):
        super().__init__()
        self.process = EnvProcess(game, data, program, command)
        self._state = State()

    def reset(self, seed=None, episode_id=None, **options):
        """Starts a game; further arguments are its options."""
        answer = self.process.reset(seed, **options)
        self._state = State(episode_id=episode_id or str(uuid.uuid4()), step_count=0, game=answer["state"])
        return self.observe(answer, None)

    def step(self, action, timeout_s=None, **kwargs):
        """Plays the text of the player to act."""
        player = self.process.answer["player"] if self.process.answer else None
        answer = self.process.step(action.message)
        count = self._state.step_count + 1
        self._state = State(episode_id=self._state.episode_id, step_count=count, game=answer["state"])
        return self.observe(answer, answer.get("rewards", {}).get(str(player), 0))

    @property
    def state(self):
        """The episode's id, its number of steps, and what both players may know of the game."""
        return self._state

    def close(self):
        """Ends the process."""
        self.process.close()

    def observe(self, answer, reward):
        """An answer as an observation."""
        player = answer["player"]
        seats = [] if player is None else [player]
        messages = [SpagMessage(sender_id=m["from"], content=m["text"], category=m["kind"].upper())
                    for m in answer["observations"]]
        keys = ("state", "private", "invalid", "refusal", "rewards", "reason", "seed")
        return SpagObservation(
            prompt="".join(self.process.views[seat].of_kind("prompt")[0] for seat in seats),
            messages=messages, current_player_id=player, legal_players=seats,
            info={key: answer[key] for key in keys if key in answer}, reward=reward, done=answer["done"])
