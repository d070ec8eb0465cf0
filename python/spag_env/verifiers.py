"""`spag env` as a taskset and a two-agent environment of verifiers 0.4 (`pip install verifiers`): id `spag-env`."""

import itertools

import verifiers.v1 as vf

from spag_env.process import EnvProcess, View


class SpagConfig(vf.TasksetConfig):
    """The games of a taskset. Task i has seed `first_seed + i`."""

    game: str = "tic-tac-toe"
    data: str | None = None
    options: dict = {}
    first_seed: int = 0


class SpagData(vf.TaskData):
    """One game; the prompt is what the first player is given."""

    info: dict


class SpagTask(vf.Task[SpagData, vf.State, vf.TaskConfig]):
    """One game, whose rewards the environment records."""


class SpagTaskset(vf.Taskset[SpagTask, SpagConfig]):
    """One task a seed."""

    INFINITE = True

    def load(self):
        """Yields the tasks of consecutive seeds."""
        config = self.config
        with EnvProcess(config.game, config.data) as process:
            for seed in itertools.count(config.first_seed):
                answer = process.reset(seed, **config.options)
                info = {"game": config.game, "data": config.data, "options": config.options, "seed": seed}
                data = SpagData(name=f"{config.game}#{seed}", prompt=turn_text(answer), info=info)
                yield SpagTask(data, config.task)


class SpagEnvConfig(vf.EnvConfig):
    """The two players. Their harness only chats, so it needs no sandbox."""

    player0: vf.AgentConfig = vf.AgentConfig(harness={"id": "null"}, runtime=vf.SubprocessConfig())
    player1: vf.AgentConfig = vf.AgentConfig(harness={"id": "null"}, runtime=vf.SubprocessConfig())


class SpagEnv(vf.Env[SpagEnvConfig]):
    """Both players' conversations, relayed through the game. Each trace gets its player's reward."""

    async def run(self, task, agents):
        """Plays the task's game to its end, or until an agent stops."""
        info = task.data.info
        unprompted = type(task)(task.data.model_copy(update={"prompt": None}), task.config)
        with EnvProcess(info["game"], info["data"]) as process:
            answer = process.reset(info["seed"], **info["options"])
            tasks = [task if answer["player"] == player else unprompted for player in (0, 1)]
            async with agents.player0.interaction(tasks[0]) as first, agents.player1.interaction(tasks[1]) as second:
                seats, message = (first, second), None  # the task's prompt opens the game
                while not answer["done"]:
                    segment = await seats[answer["player"]].turn(message)
                    if segment.terminated:
                        break
                    answer = process.step(segment.last_reply)
                    message = turn_text(answer)
        for player, seat in enumerate(seats):
            seat.trace.record_reward("game", answer.get("rewards", {}).get(str(player), 0.0))
            seat.trace.info["game_outcome"] = answer.get("reason", "unfinished")


def turn_text(answer):
    """The new messages as a user turn, without the player's own text, which its conversation holds already."""
    view = View()
    view.messages = [m for m in answer["observations"] if m["from"] != answer["player"]]
    return view.text().lstrip("\n")
