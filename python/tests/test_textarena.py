"""The TextArena-like class, beside TextArena itself. Needs textarena."""

import pathlib
import random
import sys
import unittest

try:
    import textarena
except ImportError:
    raise unittest.SkipTest("the package textarena is not installed") from None

from spag_env import EnvError
from spag_env.textarena import make

CHILD = [sys.executable, str(pathlib.Path(__file__).parent.parent / "textarena_child.py")]
MOVES = {
    "KuhnPoker-v0": ["[check]", "[bet]", "[fold]", "[call]"],
    "TicTacToe-v0": [f"[{cell}]" for cell in range(10)],
    "Nim-v0": [f"[{pile} {amount}]" for pile in range(3) for amount in range(1, 4)],
}


def play(env, moves, seed):
    """An episode of random moves; returns the observations, what follows each step, and the result."""
    draw, done, record = random.Random(seed), False, []
    env.reset(num_players=2, seed=seed)
    while not done:
        seen = env.get_observation()
        done, info = env.step(draw.choice(moves))
        record.append((*seen, done))
    return record, env.close()


class BesideTextArena(unittest.TestCase):
    def test_games_take_the_same_course(self):
        for env_id, moves in MOVES.items():
            for seed in range(4):
                with self.subTest(env_id, seed=seed):
                    ours, (rewards, info) = play(make(env_id), moves, seed)
                    theirs, (expected, expected_info) = play(textarena.make(env_id), moves, seed)
                    self.assertEqual([(p, done) for p, _, done in ours], [(p, done) for p, _, done in theirs])
                    self.assertEqual(rewards, expected)
                    for player in (0, 1):
                        keys = ["role", "invalid_move"]
                        # TextArena counts the last action of a Kuhn round for the player who begins the next one.
                        if env_id != "KuhnPoker-v0":
                            keys.append("turn_count")
                        self.assertEqual([info[player][key] for key in keys],
                                         [expected_info[player][key] for key in keys])

    def test_views_are_those_of_textarenas_wrappers(self):
        """The messages come from TextArena here, so the texts are equal to the letter."""
        for env_id in MOVES:
            for ending in ("", "-train", "-raw"):
                with self.subTest(env_id + ending):
                    ours, _ = play(make(f"textarena:{env_id}{ending}", command=CHILD), MOVES[env_id], seed=3)
                    theirs, _ = play(textarena.make(env_id + ending), MOVES[env_id], seed=3)
                    if ending == "-raw":
                        names = {"PLAYER_ACTION": "action", "GAME_ACTION_DESCRIPTION": "description"}
                        theirs = [(player, [(sender, text, names.get(kind.name, kind.name.split("_")[-1].lower()))
                                            for sender, text, kind in seen], done) for player, seen, done in theirs]
                    self.assertEqual(ours, theirs)


class Alone(unittest.TestCase):
    def test_options_and_names(self):
        for name in ("KuhnPoker-v0", "kuhn-poker"):
            env = make(name, rounds=1)
            env.reset(seed=7)
            done = False
            while not done:
                done, _ = env.step("[check]")
            rewards, info = env.close()
            self.assertEqual(sorted(rewards.values()), [-1, 1])
            self.assertEqual(sum(player["turn_count"] for player in info.values()), 2)

    def test_number_of_players(self):
        env = make("TicTacToe-v0")
        self.addCleanup(env.close)
        with self.assertRaises(ValueError):
            env.reset(num_players=3)
        with self.assertRaises(EnvError):
            env.step("[0]")

    def test_close_before_the_end(self):
        env = make("TicTacToe-v0")
        env.reset(seed=7)
        env.step("[0]")
        rewards, info = env.close()
        self.assertIsNone(rewards)
        self.assertEqual((info[0]["turn_count"], info[0]["invalid_move"]), (1, False))

    def test_killed_child(self):
        env = make("TicTacToe-v0")
        self.addCleanup(env.close)
        env.reset(seed=7)
        env.process.process.kill()
        with self.assertRaises(EnvError) as caught:
            env.step("[0]")
        self.assertEqual(caught.exception.code, "PROCESS_ENDED")


if __name__ == "__main__":
    unittest.main()
