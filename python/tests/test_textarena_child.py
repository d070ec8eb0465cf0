"""TextArena's own games through textarena_child.py, each played to its end by a scripted player. Needs textarena."""

import pathlib
import random
import re
import sys
import unittest

from spag_env import EnvError, EnvProcess

try:
    import textarena  # noqa: F401
except ImportError:
    raise unittest.SkipTest("the package textarena is not installed") from None

CHILD = str(pathlib.Path(__file__).parent.parent / "textarena_child.py")
KINDS = {"prompt", "action", "description", "message", "board", "admin"}


def start(env_id):
    """The child for one of TextArena's ids."""
    return EnvProcess(f"textarena:{env_id}", command=[sys.executable, CHILD])


def always(*texts):
    """Player i always says the i-th text, or the only one."""
    return lambda view, player, turn, retry: texts[player % len(texts)]


def in_turn(*texts):
    """Both players together say the texts, over and over."""
    return lambda view, player, turn, retry: texts[turn % len(texts)]


def listed(view, player, turn, retry):
    """One of the moves in brackets that the last board lists."""
    moves = re.findall(r"\[[^\[\]\n]{1,30}\]", view.of_kind("board")[-1])
    return random.Random(turn).choice(moves)


def pig(view, player, turn, retry):
    """Rolls once, then holds."""
    return "[roll]" if "first roll" in view.of_kind("board")[-1] else "[hold]"


def poker(view, player, turn, retry):
    """Calls a bet, and checks if there is none."""
    return "[Check]" if retry else "[Call]"


PLAYERS = {
    "ColonelBlotto-v0-small": always("[A10 B10 C0]", "[A6 B6 C8]"),
    "ConnectFour-v0": always("[col 0]", "[col 1]"),
    "Crusade-v0": listed,
    "GameOfPureStrategy-v0": listed,
    "HighSociety-v0": listed,
    "IndianPoker-v0-short": always("[check]"),
    "IteratedMatchingPennies-v0": always("[heads]"),
    "IteratedPrisonersDilemma-v0": always("[Defect]", "[Cooperate]"),
    "IteratedRockPaperScissors-v0": always("[rock]", "[paper]"),
    "IteratedTwoThirdsAverage-v0": always("[20]", "[30]"),
    "KuhnPoker-v0": always("[check]"),
    "LiarsDice-v0-small": in_turn("[Bid: 1, 2]", "[Call]"),
    "Nim-v0": in_turn(*["[0 1]"] * 3, *["[1 1]"] * 4, *["[2 1]"] * 5),
    "PigDice-v0-short": pig,
    "Poker-v0-small": poker,
    "SimpleBlindAuction-v0-quick": always("[Bid on Item 0: 100]", "[Bid on Item 1: 100]"),
    "SimpleNegotiation-v0-short": always("[no deal]"),
    "SimpleTak-v0": listed,
    "Snake-v0": always("[up]", "[left]"),
    "Surround-v0": always("[up]", "[down]"),
    "TicTacToe-v0": listed,
    "TruthAndDeception-v0": always("It is [Fact 1]."),
    "WildTicTacToe-v0": listed,
}

UNAVAILABLE = {
    "Chess-v0": "its source needs Python 3.12",
    "Debate-v0": "it needs a judge model at OpenRouter",
    "DontSayIt-v0": "it downloads NLTK's words",
    "LetterAuction-v0": "it downloads NLTK's words",
    "ReverseTicTacToe-v0": "its source needs Python 3.12",
    "SpellingBee-v0": "it needs numpy and a dictionary",
    "UsedCarNegotiation-v0": "a file is missing in TextArena's package",
    "WordChains-v0": "it downloads NLTK's words",
}


def play(process, player, seed):
    """One episode of the scripted player; returns all answers."""
    answers, turn = [process.reset(seed=seed)], 0
    while not answers[-1]["done"] and len(answers) < 400:
        seat, retry = answers[-1]["player"], answers[-1]["invalid"]
        answers.append(process.step(player(process.views[seat], seat, turn, retry)))
        turn += not answers[-1]["invalid"]
    return answers


class Games(unittest.TestCase):
    def test_games_are_played_to_the_end(self):
        for env_id, player in PLAYERS.items():
            with self.subTest(env_id), start(env_id) as process:
                answers = play(process, player, seed=5)
                last = answers[-1]
                self.assertTrue(last["done"], f"{env_id} goes on after {len(answers)} answers")
                self.assertEqual(last["rewards"].keys(), {"0", "1"})
                self.assertNotEqual(last["reason"], "invalid", process.views)
                self.assertEqual((last["player"], last["observations"]), (None, []))
                self.assertLessEqual({m["kind"] for answer in answers for m in answer["observations"]}, KINDS)
                self.assertEqual(play(process, player, seed=5), answers, "the seed does not repeat the game")


class UnavailableGames(unittest.TestCase):
    """Games that cannot be made where the tests run: an error answer, and the child goes on."""


def add_unavailable(env_id, reason):
    def test(self):
        with start(env_id) as process:
            for _ in range(2):
                try:
                    process.reset(seed=5)
                except EnvError as error:
                    self.assertEqual(error.code, "EXECUTION_ERROR")
                else:
                    return
        self.skipTest(f"{env_id} was not played: {reason}")

    setattr(UnavailableGames, "test_" + re.sub(r"\W", "_", env_id).lower(), test)


for _env_id, _reason in UNAVAILABLE.items():
    add_unavailable(_env_id, _reason)


class Errors(unittest.TestCase):
    def test_error_in_a_step_leaves_the_game_as_it_was(self):
        with start("KuhnPoker-v0") as whole, start("KuhnPoker-v0") as broken, start("TicTacToe-v0") as cells:
            expected = play(whole, always("[bet]"), seed=5)
            self.assertEqual(expected[-1]["reason"], "invalid")  # a bet after a bet is refused
            self.assertEqual(play(broken, always("[bet]"), seed=5), expected)
            first = cells.reset(seed=5)
            moved = cells.step("[4]")
            refused = cells.step("[4]")
            with self.assertRaises(EnvError) as caught:
                cells.step(f"[{'9' * 5000}]")  # int() of so many digits raises in TextArena
            self.assertEqual(caught.exception.code, "EXECUTION_ERROR")
            with self.assertRaises(EnvError) as caught:
                cells.reset(seed=5, no_such_option=1)
            self.assertEqual(caught.exception.code, "VALIDATION_ERROR")
            self.assertEqual([answer["invalid"] for answer in (first, moved, refused)], [False, False, True])
            lost = cells.step("[4]")
            self.assertEqual((lost["reason"], lost["rewards"]), ("invalid", {"0": 1, "1": -1}))

    def test_one_player_games_are_refused(self):
        with start("2048-v0") as process, self.assertRaises(EnvError) as caught:
            process.reset(seed=5)
        self.assertEqual(caught.exception.code, "EXECUTION_ERROR")

    def test_requests_are_checked(self):
        with start("Nim-v0") as process:
            for request, code in [
                ({"type": "step", "action": "[0 1]"}, "SESSION_ERROR"),
                ({"type": "step"}, "VALIDATION_ERROR"),
                ({"type": "reset", "seed": True}, "VALIDATION_ERROR"),
                ({"type": "reset", "seed": 2**64}, "VALIDATION_ERROR"),
                ({"type": "reset", "options": []}, "VALIDATION_ERROR"),
                ({}, "UNKNOWN_TYPE"),
                ([], "INVALID_JSON"),
            ]:
                with self.subTest(request), self.assertRaises(EnvError) as caught:
                    process.request(request)
                self.assertEqual(caught.exception.code, code)
            drawn = process.reset()
            self.assertEqual(process.reset(drawn["seed"]), drawn)


if __name__ == "__main__":
    unittest.main()
