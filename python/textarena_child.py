#!/usr/bin/env python3
"""Plays any two-player game of the TextArena package over the protocol of `spag env`.

    python textarena_child.py --game textarena:TicTacToe-v0

One JSON request a line on stdin, one answer a line on stdout (docs/ENVIRONMENTS.md). The games run unmodified, with the
action wrappers that their id registers. Observations are the messages of the game, without an observation wrapper. The
options of a reset are arguments of the game's constructor. Unlike `spag env`, this program does not know the games:
`state` holds only the turn, `private` and `refusal` are absent, and `reason` is TextArena's sentence, or `invalid`. If
TextArena raises in a step, the answer is an EXECUTION_ERROR and the game is as it was before the step.
"""

import argparse
import json
import os
import random
import secrets
import sys

KINDS = {"PROMPT": "prompt", "PLAYER_ACTION": "action", "GAME_ACTION_DESCRIPTION": "description",
         "GAME_MESSAGE": "message", "GAME_BOARD": "board", "GAME_ADMIN": "admin"}


class Refused(Exception):
    """A request that gets an error answer: code and message of the protocol."""


class Game:
    """One game in progress. Its seed and actions are kept to rebuild it if TextArena raises in a step."""

    def __init__(self, env_id, seed, options):
        self.env_id, self.seed, self.options, self.actions = env_id, seed, options, []
        self.start()

    def start(self):
        """Makes the environment and starts the game with the seed."""
        import textarena

        random.seed(self.seed)  # some constructors draw numbers; the reset seeds again
        self.env = self.inner = textarena.make(self.env_id, **self.options)
        self.env.reset(num_players=2, seed=self.seed)
        while isinstance(self.inner, textarena.core.Wrapper):
            self.inner = self.inner.env
        self.state, self.invalid = self.inner.state, False
        # Every refusal calls this method. TextArena's own flag is cleared before the step returns.
        refuse = self.state.set_invalid_move

        def set_invalid_move(*args, **kwargs):
            self.invalid = True
            return refuse(*args, **kwargs)

        self.state.set_invalid_move = set_invalid_move

    def answer(self):
        """The answer to the last reset or step. It takes the messages of the player to act."""
        state = self.state
        answer = {"type": "observation", "player": None, "done": bool(state.done), "invalid": self.invalid,
                  "observations": [], "state": {"turn": state.turn}}
        if state.done:
            lost = any(info.get("invalid_move") for info in state.game_info.values())
            answer["rewards"] = {str(player): state.rewards[player] for player in (0, 1)}
            answer["reason"] = "invalid" if lost else str(state.game_info[0].get("reason"))
        else:
            answer["player"], messages = self.inner.get_observation()
            answer["observations"] = [{"from": sender, "kind": KINDS[kind.name], "text": str(text)}
                                      for sender, text, kind in messages]
        return answer

    def step(self, action):
        """Plays an action and returns the answer."""
        try:
            self.invalid = False
            self.env.step(action)
            answer = self.answer()
        except Exception:
            self.start()
            self.answer()
            for earlier in self.actions:
                self.env.step(earlier)
                self.answer()
            raise
        self.actions.append(action)
        return answer


def parse(line):
    """The request in a line of stdin."""
    try:
        request = json.loads(line.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise Refused("INVALID_JSON", str(error)) from error
    if not isinstance(request, dict):
        raise Refused("INVALID_JSON", "a request is a JSON object")
    if request.get("type") not in ("reset", "step", "close"):
        raise Refused("UNKNOWN_TYPE", f"type is {request.get('type')!r}, expected reset, step or close")
    if request["type"] == "step" and not isinstance(request.get("action"), str):
        raise Refused("VALIDATION_ERROR", "action is not a string")
    return request


def reset(env_id, seed, options):
    """A new game and the answer to its reset."""
    seed = secrets.randbits(64) if seed is None else seed
    if type(seed) is not int or not 0 <= seed < 2**64:
        raise Refused("VALIDATION_ERROR", f"seed is {seed!r}, expected an integer from 0 to 2^64-1")
    if not isinstance(options, dict):
        raise Refused("VALIDATION_ERROR", "options is not an object")
    numbers = random.getstate()
    try:
        game = Game(env_id, seed, options)
        return game, {**game.answer(), "seed": seed}
    except Exception as error:
        random.setstate(numbers)  # for the game in progress, which goes on
        if options and isinstance(error, TypeError):
            raise Refused("VALIDATION_ERROR", f"options: {error}") from error
        raise


def main():
    """Answers requests until close or the end of stdin."""
    parser = argparse.ArgumentParser(description="TextArena's two-player games over the protocol of spag env.")
    parser.add_argument("--game", required=True, help="textarena:ID, a registered id such as textarena:Nim-v0")
    env_id = parser.parse_args().game.removeprefix("textarena:")
    # Some games iterate over sets of strings: a seed repeats them only with fixed string hashes.
    if os.environ.get("PYTHONHASHSEED") != "0":
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, "PYTHONHASHSEED": "0"})
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what TextArena prints goes to stderr
    game = None
    for line in sys.stdin.buffer:
        try:
            request = parse(line)
            if request["type"] == "close":
                break
            if request["type"] == "reset":
                game, answer = reset(env_id, request.get("seed"), request.get("options", {}))
            elif game is None or game.state.done:
                raise Refused("SESSION_ERROR", "no game is in progress: send a reset first")
            else:
                answer = game.step(request["action"])
        except Refused as error:
            answer = {"type": "error", "code": error.args[0], "message": error.args[1]}
        except Exception as error:
            answer = {"type": "error", "code": "EXECUTION_ERROR", "message": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer).encode() + b"\n")
        answers.flush()


if __name__ == "__main__":
    main()
