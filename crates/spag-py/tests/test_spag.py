"""The module spag against the recorded verdicts and rewards of the reference, and against spag-assign-rewards."""

import json
import os
import pathlib
import random
import subprocess
import tempfile
import time
import unittest

import spag

ROOT = pathlib.Path(__file__).resolve().parents[3]
FIXTURES = pathlib.Path(os.environ.get("SPAG_FIXTURES", ROOT / "tests" / "fixtures"))
PROGRAM = os.environ.get("SPAG_ASSIGN_REWARDS", ROOT / "target" / "release" / "spag-assign-rewards")

ATTACKER_ASKS = {"role": "attacker", "content": "Which animal do knights ride on?"}
RIGHT = {"role": "defender", "content": "I know the word! It is `horse`!"}
WON = {"history": [ATTACKER_ASKS, RIGHT], "target_word": "horse", "max_turns": 5}


def read_lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


CASES = read_lines(FIXTURES / "judge_cases.jsonl")


def without_verdict(episode):
    return {key: episode[key] for key in ("history", "target_word", "max_turns")}


class Readme(unittest.TestCase):
    """Expressions of README.md have the values in their comments, in which … stands for anything."""

    def test_examples(self):
        readme = (pathlib.Path(__file__).resolve().parents[1] / "README.md").read_text(encoding="utf-8")
        code = readme.split("```python\n")[1].split("```")[0]
        names, compared = {}, 0
        exec("".join(line for line in code.splitlines(True) if "  # " not in line), names)
        for line in code.splitlines():
            expression, _, comment = line.partition("  # ")
            if not comment.startswith(("(", "[", "{")):
                continue
            expected = eval(comment.replace("…", "..."))
            self.assertTrue(fits(eval(expression, names), expected), f"{expression}: {eval(expression, names)}")
            compared += 1
        self.assertEqual(compared, 3)


def fits(value, expected):
    if expected is ...:
        return True
    if isinstance(expected, dict):
        return isinstance(value, dict) and value.keys() == expected.keys() and all(fits(value[key], one) for key, one in expected.items())
    if isinstance(expected, list):
        return len(value) == len(expected) and all(map(fits, value, expected))
    return value == expected


class Recorded(unittest.TestCase):
    """Equal to what the reference gave for 3,000 games."""

    def test_judge(self):
        for case in CASES:
            verdict = spag.judge(case["history"], case["target_word"], case["max_turns"])
            self.assertEqual(verdict, (case["outcome"], case["history_length"]))

    def test_judge_of_many_episodes(self):
        expected = [(case["outcome"], case["history_length"]) for case in CASES]
        self.assertEqual(spag.judge_episodes(CASES), expected)
        self.assertEqual(spag.judge_episodes(without_verdict(case) for case in CASES), expected)

    def test_rewards(self):
        recorded = json.loads((FIXTURES / "reward_cases.json").read_text(encoding="utf-8"))
        samples = spag.assign_rewards(CASES, decay_weight=recorded["decay_weight"])
        keys = ("target", "reward", "role", "weight")
        self.assertEqual([{key: sample[key] for key in keys} for sample in samples], recorded["samples"])

    def test_tally(self):
        tally = spag.tally(CASES)
        for outcome, count in tally["outcomes"].items():
            self.assertEqual(count, sum(case["outcome"] == outcome for case in CASES))
        self.assertEqual(tally["games"], len(CASES))
        self.assertEqual(tally["utterances"], sum(case["history_length"] for case in CASES))
        self.assertEqual(sum(tally["endings"].values()), len(CASES))
        self.assertEqual(tally["decided"], sum(tally["wins"].values()))
        self.assertAlmostEqual(sum(tally["win_rates"].values()), 1)


@unittest.skipUnless(pathlib.Path(PROGRAM).exists(), "spag-assign-rewards is not built")
class AsTheProgram(unittest.TestCase):
    """Equal to what the program writes, key for key and number for number."""

    def program(self, episodes, *flags):
        with tempfile.TemporaryDirectory() as folder:
            names = [pathlib.Path(folder) / name for name in ("games.jsonl", "samples.jsonl", "outcomes.jsonl")]
            names[0].write_text("".join(json.dumps(episode) + "\n" for episode in episodes), encoding="utf-8")
            command = [str(PROGRAM), "--input_data_path", names[0], "--output_data_path", names[1]]
            command += ["--outcomes_path", names[2], *flags]
            environment = {key: value for key, value in os.environ.items() if key != "SPAG_PROMPTS"}
            subprocess.run(command, check=True, capture_output=True, env=environment)
            return read_lines(names[1]), read_lines(names[2])

    def compare(self, episodes, **config):
        flags = [text for key, value in config.items() for text in (f"--{key}", str(value))]
        samples, verdicts = self.program(episodes, *flags)
        # The order of the keys counts too.
        self.assertEqual(json.dumps(spag.assign_rewards(episodes, **config)), json.dumps(samples))
        judge = {"judge": config["judge"]} if "judge" in config else {}
        expected = [(verdict["outcome"], verdict["history_length"]) for verdict in verdicts]
        self.assertEqual(spag.judge_episodes(episodes, **judge), expected)

    def test_defaults(self):
        self.compare(CASES)

    def test_every_setting(self):
        wordings = ROOT / "configs" / "tiny-prompts.json"
        for config in (
            {"decay_weight": 1.25, "seed": 2**64 - 1},
            {"reward_norm": "mean", "judge": "whole-word"},
            {"credit": "signed", "decay_weight": 0.5},
            {"judge": "whole_word", "prompts": wordings},
            {"prompt_format": "chat", "seed": 3},
        ):
            with self.subTest(**config):
                self.compare(CASES[:400], **config)

    def test_another_game(self):
        games = [
            {
                "history": [{"role": "player_0", "content": "[4]"}],
                "target_word": "",
                "max_turns": 5,
                "game_name": "nim",
                "game_options": {},
            }
        ]
        # Both refuse it, with the same reason.
        with self.assertRaises(subprocess.CalledProcessError) as program:
            self.program(games)
        with self.assertRaises(ValueError) as module:
            spag.assign_rewards(games)
        self.assertIn(str(module.exception).removeprefix("row 1: "), program.exception.stderr.decode())


class Prompts(unittest.TestCase):
    def test_playing_prompt_has_what_the_seat_may_know(self):
        prompts = spag.Prompts()
        attacker = prompts.playing([], "horse", 7)
        self.assertIn("horse", attacker)
        self.assertIn("7", attacker)
        defender = prompts.playing([ATTACKER_ASKS], "horse")
        self.assertNotIn("horse", defender)
        self.assertIn(ATTACKER_ASKS["content"], defender)

    def test_queries_of_samples_are_prompts_of_training(self):
        drawn = {spag.Prompts().training([ATTACKER_ASKS], "horse", 5, seed) for seed in range(400)}
        self.assertGreater(len(drawn), 50)
        for seed in range(10):
            (sample,) = spag.assign_rewards([WON], seed=seed)
            self.assertTrue(all("horse" not in text for text in (sample["query"], *drawn)))

    def test_chat(self):
        messages = spag.Prompts(prompt_format="chat").playing([ATTACKER_ASKS, RIGHT], "horse")
        self.assertEqual([message["role"] for message in messages], ["system", "user", "assistant", "user"])
        (sample,) = spag.assign_rewards([WON], prompt_format="chat")
        chat = spag.Prompts(prompt_format="chat").training([ATTACKER_ASKS], "horse")
        self.assertEqual(sample["messages"][:-1], chat)

    def test_file(self):
        file = ROOT / "configs" / "tiny-prompts.json"
        self.assertNotEqual(spag.Prompts(prompts=file).sha256, spag.Prompts().sha256)
        with self.assertRaisesRegex(ValueError, "No such file"):
            spag.Prompts(prompts="/nowhere.json")


class Reward(unittest.TestCase):
    def rewards(self, completions, **columns):
        return spag.TabooReward()([""] * len(completions), completions, trainer_state=object(), **columns)

    def test_next_utterance_decides(self):
        completions = ["Ride a horse?", "Ride what?", RIGHT["content"], "I know the word! It is cow", "A horse.", "What?"]
        histories = [[]] * 2 + [[ATTACKER_ASKS]] * 4
        expected = [-1.0, 0.0, 1.0, -1.0, -1.0, 0.0]
        self.assertEqual(self.rewards(completions, target_word=["horse"] * 6, history=histories), expected)
        chats = [[{"role": "assistant", "content": text}] for text in completions]
        self.assertEqual(self.rewards(chats, target_word=["horse"] * 6, history=histories), expected)

    def test_columns_are_optional_and_rows_of_other_tasks_have_no_reward(self):
        self.assertEqual(self.rewards(["a", "b"], target_word=["a", None]), [-1.0, None])
        self.assertEqual(self.rewards(["b"], target_word=["a"], history=[None], max_turns=[None]), [0.0])

    def test_settings(self):
        reward = spag.TabooReward(judge="whole-word", win=2, loss=-3, undecided=0.5)
        self.assertEqual(reward([""], ["start"], target_word=["art"]), [0.5])
        self.assertEqual(reward([""], ["art"], target_word=["art"]), [-3.0])
        self.assertEqual(reward.__name__, "taboo_reward")

    def test_mistakes_name_the_row(self):
        for columns, reason in (
            ({}, "no column `target_word`"),
            ({"target_word": ["a", "b"]}, "the column `target_word` has 2 rows, the completions 1"),
            ({"target_word": ["horse"], "history": [WON["history"]]}, "row 1: the game had ended after 2 of the 2"),
            ({"target_word": ["a"], "history": [[RIGHT]]}, "row 1: utterance 1 is the defender's"),
        ):
            with self.assertRaisesRegex(ValueError, reason):
                self.rewards(["x"], **columns)
        with self.assertRaisesRegex(ValueError, "row 1: completion: the list has no messages"):
            self.rewards([[]], target_word=["a"])


class Mistakes(unittest.TestCase):
    def test_errors_say_where_and_what(self):
        bad = {**WON, "history": [{"role": "judge", "content": "x"}]}
        for call, reason in (
            (lambda: spag.judge([], ""), 'target word "": it is empty'),
            (lambda: spag.judge([RIGHT], "horse"), "utterance 1 is the defender's"),
            (lambda: spag.judge([], "horse", -1), "max_turns"),
            (lambda: spag.judge([], "horse", judge="peper"), 'unknown judge "peper"'),
            (lambda: spag.judge([], "\ud800"), "target_word"),
            (lambda: spag.judge_episodes([WON, bad]), r"row 2: history\[0\]\.role: unknown variant `judge`"),
            (lambda: spag.tally([WON, {"history": []}]), "row 2: missing field `target_word`"),
            (lambda: spag.assign_rewards([WON, {**WON, "target_word": " "}]), 'row 2: target word " "'),
            (lambda: spag.assign_rewards([WON], decay_weight=0), "decay_weight: expected a number of at least 0.000001"),
            (lambda: spag.assign_rewards([WON], decay_weight=float("nan")), "decay_weight: expected a number"),
            (lambda: spag.assign_rewards([WON], seed=-1), "seed"),
            (lambda: spag.assign_rewards([WON], reward_norm="max"), "reward_norm: unknown variant `max`"),
            (lambda: spag.assign_rewards([{**WON, "game_name": "chess"}]), "chess"),
        ):
            with self.subTest(reason), self.assertRaisesRegex(ValueError, reason):
                call()

    def test_unknown_keyword_names_the_nearest(self):
        with self.assertRaisesRegex(TypeError, "'decay_wieght'; did you mean 'decay_weight'?"):
            spag.assign_rewards([WON], decay_wieght=0.8)
        with self.assertRaisesRegex(TypeError, "'zzz'; it takes judge, game_data"):
            spag.tally([WON], zzz=1)

    def test_other_keys_are_not_read(self):
        loop = []
        loop.append(loop)
        wide = []
        for _ in range(100):
            wide = [wide, wide]
        for extra in (loop, wide, object(), {1: 2}, b"\xff"):
            for key in ("note", "seed", "transcript", "game_options"):
                self.assertEqual(spag.judge_episodes([{**WON, key: extra}]), [("defender wins", 2)])

    def test_random_values_raise_and_do_not_crash(self):
        draw = random.Random(0)
        values = [None, True, -1, 2**70, 1.5, float("nan"), "", "attacker", b"x", [], {}, (), object(), WON, "\ud800"]
        keys = ["history", "target_word", "max_turns", "seed", "game_name", "game_options", "transcript"]
        for _ in range(3000):
            row = {**WON, draw.choice(keys): draw.choice(values)}
            if draw.random() < 0.3:
                row["history"] = [{"role": draw.choice(values), "content": draw.choice(values)}, draw.choice(values)]
            try:
                spag.assign_rewards([row], **{draw.choice(["seed", "prompts", "judge"]): draw.choice(values)})
            except (ValueError, TypeError):
                pass


class Speed(unittest.TestCase):
    def test_many_episodes(self):
        """Prints a rate; the test has no limit, since machines differ."""
        games = (CASES * 7)[:20_000]
        start = time.perf_counter()
        spag.judge_episodes(games)
        many = time.perf_counter() - start
        start = time.perf_counter()
        for game in games:
            spag.judge(game["history"], game["target_word"], game["max_turns"])
        single = time.perf_counter() - start
        print(f"judge_episodes: {len(games) / many:,.0f} games a second; judge: {len(games) / single:,.0f}")


if __name__ == "__main__":
    unittest.main()
