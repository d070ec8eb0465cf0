#!/usr/bin/env python3
"""Records games of TextArena 0.7.4 for crates/spag-game/tests/it/textarena.rs.

    python3 -m venv /tmp/ta && /tmp/ta/bin/pip install textarena==0.7.4 nltk
    /tmp/ta/bin/python scripts/textarena-fixtures.py tests/fixtures/games/textarena.jsonl --episodes 40

Every line is one game: its seed and options, and after the reset and after each action
[action, player or null, refusal or 0, messages, state, private]: messages to this player as letters (g the game, 0 or 1 a
player; then p prompt, a action, d description, m message, b board, r refusal), state and private with the keys that changed.
Texts of TextArena are not recorded.
"""

import argparse
import json
import random
from pathlib import Path

import nltk

nltk.download = lambda *_, **__: True

import textarena as ta  # noqa: E402
from textarena.envs.ConnectFour.env import ConnectFourEnv  # noqa: E402
from textarena.envs.DontSayIt.env import DontSayItEnv  # noqa: E402
from textarena.envs.KuhnPoker.env import KuhnPokerEnv  # noqa: E402
from textarena.envs.LiarsDice.env import LiarsDiceEnv  # noqa: E402
from textarena.envs.Nim.env import NimEnv  # noqa: E402
from textarena.envs.SimpleNegotiation.env import SimpleNegotiationEnv  # noqa: E402
from textarena.envs.TicTacToe.env import TicTacToeEnv  # noqa: E402
from textarena.envs.TruthAndDeception.env import TruthAndDeceptionEnv  # noqa: E402
from textarena.wrappers import ActionFormattingWrapper  # noqa: E402

DATA = Path(__file__).resolve().parent.parent / "tests/fixtures/games"
KINDS = {"PROMPT": "p", "PLAYER_ACTION": "a", "GAME_ACTION_DESCRIPTION": "d", "GAME_MESSAGE": "m", "GAME_BOARD": "b", "GAME_ADMIN": "r"}
GOODS = ["Wheat", "Wood", "Sheep", "Brick", "Ore"]
DIGITS = ["0123456789", "٠١٢٣٤٥٦٧٨٩", "०१२३४५६७८९", "０１２３４５６７８９", "𝟎𝟏𝟐𝟑𝟒𝟓𝟔𝟕𝟖𝟗"]
SPACES = ["", " ", "  ", "\t", "\n", "\r", "\x1c", "\x1f", "\x85", "\u00a0", "\u2003", "\u2028", "\u200b", "\u3000"]
JUNK = ["", "[", "]", "[]", "[[", "]]", "[ ]", "[4", "4]", "hello", "[GAME]", "[Player 0]", "[Player 1]", "[Deceiver]", "[Guesser]",
        "[Play[GAME]er 0]", "[²]", "[½]", "[-1]", "[+1]", "[1.0]", "[1e1]", "[0x1]", "[99999999999999999999999999]",
        "[18446744073709551616]", "[4294967296]", "\n", "\x00", "[\x00]", "🙂", "[٤٢]", "[check]", "[bet]", "[call]", "[fold]", "[accept]",
        "[0]", "[1 1]", "[bid: 1, 1]", "[col 1]", "[fact 1]", "[ſ]", "[K]", "[İ]", "]4[", "{4}", "(4)", "<4>", "[４]"]


def odd_number(rng, n):
    digits = rng.choice(DIGITS) if rng.random() < 0.3 else DIGITS[0]
    text = "".join(digits[int(d)] for d in str(n))
    return rng.choice(["", "0", "00"]) * (rng.random() < 0.2) + text


def space(rng, least=0):
    if rng.random() < 0.7:
        return " " if least or rng.random() < 0.3 else ""
    text = "".join(rng.choice(SPACES) for _ in range(rng.randint(0, 2)))
    return text or (" " if least else "")


def odd_case(rng, word):
    if rng.random() < 0.6:
        return word
    swap = {"k": "\u212a", "s": "ſ", "i": rng.choice("ıİI")}
    return "".join(swap[c.lower()] if c.lower() in swap and rng.random() < 0.3 else rng.choice([c.lower(), c.upper()]) for c in word)


class Game:
    """What is recorded of one of the environments."""

    def options(self, rng):
        return {}

    def read(self, env):
        return {}

    def private(self, env, player):
        return {}

    def reason(self, text):
        raise NotImplementedError


class Kuhn(Game):
    name, formats = "kuhn-poker", ["Action must be [Check], [Bet], [Call], or [Fold]."]

    def options(self, rng):
        return {"rounds": rng.choice([1, 3, 3, 5])}

    def make(self, o):
        return ActionFormattingWrapper(KuhnPokerEnv(max_rounds=o["rounds"]))

    def legal(self, env, rng):
        tree = env.state.game_state["current_legal_action_tree"]
        move = rng.choice(list(tree) if rng.random() < 0.9 else ["check", "bet", "fold", "call"])
        return rng.choice(["[{}]", "[{}]", "{}", "I say [{}] now", "[ {}]"]).format(odd_case(rng, move))

    def state(self, env, done):
        s = env.state.game_state
        ended_by_rounds = s["current_round"] > env.max_rounds
        chips = [s["player_chips"][p] + ended_by_rounds for p in range(2)]
        out = {"round": min(s["current_round"], env.max_rounds), "rounds": env.max_rounds, "chips": chips}
        if not done:
            out |= {"pot": s["pot"], "legal": list(s["current_legal_action_tree"])}
        return out

    def private(self, env, player):
        return {"card": "JQK"[env.state.game_state["player_cards"][player]]}

    def reason(self, text):
        return "draw" if "same number" in text else "chips"


class TicTacToe(Game):
    name, formats = "tic-tac-toe", ["The submitted move does not follow the correct format."]

    def make(self, o):
        return ActionFormattingWrapper(TicTacToeEnv())

    def legal(self, env, rng):
        free = [i for i in range(9) if env.state.game_state["board"][i // 3][i % 3] == ""]
        n = rng.choice(free) if rng.random() < 0.9 and free else rng.randint(0, 10)
        form = rng.choice(["[{}{}{}]", "[{}{}{}]", "{}{}{}", "x[{}{}{}] [3]", "[a][{}{}{}]"])
        return form.format(space(rng), odd_number(rng, n), space(rng))

    def state(self, env, done):
        return {"board": "".join(c or "." for row in env.state.game_state["board"] for c in row)}

    def reason(self, text):
        return "draw" if "draw" in text else "line"


class ConnectFour(Game):
    name, formats = "connect-four", ["Invalid action format"]

    def options(self, rng):
        return rng.choice([{}, {}, {"rows": 4, "cols": 4}, {"rows": 5, "cols": 12}])

    def make(self, o):
        return ActionFormattingWrapper(ConnectFourEnv(num_rows=o.get("rows", 6), num_cols=o.get("cols", 7)))

    def legal(self, env, rng):
        n = rng.randint(0, env.num_cols - (rng.random() < 0.95))
        col = rng.choice(["", odd_case(rng, "col") + space(rng)])
        form = rng.choice(["[{}{}]", "[{}{}]", "{}{}", "[2]\n[{}{}]", "[1][{}{}]", "a\n[{}{}] [3]\n[1]", "[{}{}][col\n2]"])
        return form.format(col, odd_number(rng, n))

    def state(self, env, done):
        return {"board": ["".join(row) for row in env.state.game_state["board"]]}

    def reason(self, text):
        return "draw" if "draw" in text else "four"


class Nim(Game):
    name, formats = "nim", ["No valid move format", "Action must be two integers"]

    def options(self, rng):
        return rng.choice([{}, {"piles": [4, 2, 3, 7]}, {"piles": [5, 7, 9, 11, 2]}, {"piles": [1]}])

    def make(self, o):
        return ActionFormattingWrapper(NimEnv(piles=o.get("piles")))

    def legal(self, env, rng):
        piles = env.state.game_state["piles"]
        some = [i for i, p in enumerate(piles) if p] or [0]
        i = rng.choice(some) if rng.random() < 0.93 else rng.randint(0, len(piles))
        n = rng.randint(1, max(1, piles[i] if i < len(piles) else 1)) if rng.random() < 0.93 else rng.choice([0, 99, 2**64])
        form = rng.choice(["[{}{}{}{}{}]", "[{}{}{}{}{}]", "{}{}{}{}{}", "[0][{}{}{}{}{}] [0 1]"])
        return form.format(space(rng), odd_number(rng, i), space(rng, 1), odd_number(rng, n), space(rng))

    def state(self, env, done):
        return {"piles": env.state.game_state["piles"]}

    def reason(self, text):
        return "last_object"


class LiarsDice(Game):
    name, formats = "liars-dice", ["Action not recognized"]

    def options(self, rng):
        return {"dice": rng.choice([1, 2, 2, 3])}

    def make(self, o):
        return ActionFormattingWrapper(LiarsDiceEnv(num_dice=o["dice"]))

    def legal(self, env, rng):
        bid = env.state.game_state["current_bid"]
        q, f = bid["quantity"], bid["face_value"]
        if q and rng.random() < 0.45:
            return rng.choice(["[{}]", "{}", "[bid: 9, 6] [{}]", "no [{}]!"]).format(odd_case(rng, "call"))
        if rng.random() < 0.85:
            q, f = rng.choice([(q + 1, max(f, 1)), (max(q, 1), min(f + 1, 7)), (q + rng.randint(0, 2), rng.randint(max(f, 1), 6))])
        else:
            q, f = rng.choice([(0, 3), (1, 0), (q, f), (max(q - 1, 0), 6), (10**30, 3), (10**30 + 1, 3), (2**64, 4), (1, 7), (2, 2**32 + 2)])
        form = rng.choice(["[{}{}{}{}{}{}{}]", "[{}{}{}{}{}{}{}]", "{}{}{}{}{}{}{}", "I [x] [{}{}{}{}{}{}{}]"])
        return form.format(odd_case(rng, "bid"), space(rng), rng.choice([":", ":", ""]), space(rng), odd_number(rng, q),
                           rng.choice([",", ", ", " ", ",,", space(rng, 1)]), odd_number(rng, f))

    def state(self, env, done):
        s = env.state.game_state
        bidder, bid = s["last_bidder_id"], s["current_bid"]
        most = 2**64 - 1
        pair = None if bidder is None else [min(bid["quantity"], most), min(bid["face_value"], most)]
        return {"dice": [s["remaining_dice"][p] for p in range(2)], "bid": pair, "bidder": bidder}

    def private(self, env, player):
        return {"dice": env.state.game_state["dice_rolls"][player]}

    def reason(self, text):
        return "last_standing"


class DontSayIt(Game):
    name, formats = "dont-say-it", []

    def options(self, rng):
        return {"max_turns": rng.choice([2, 5, 6])}

    def make(self, o):
        env = DontSayItEnv.__new__(DontSayItEnv)
        env.word_list = (DATA / "words.txt").read_text("utf-8").split("\n")[:-1]
        env.max_turns = o["max_turns"]
        return env

    def legal(self, env, rng):
        words = env.state.game_state["target_words"]
        player = env.state.current_player_id
        if rng.random() < 0.08:
            word = words[1 - player]
            return "so " + rng.choice([word, word.upper(), word.lower(), word + "s", "un" + word, word[:-1]])
        return rng.choice(["my " + words[player], rng.choice(env.word_list)[:2], "hello [Player 0] and [GAME]", "s", ""])

    def state(self, env, done):
        return {"max_turns": env.max_turns} | ({} if done else {"turn": env.state.turn})

    def private(self, env, player):
        return {"word": env.state.game_state["target_words"][player]}

    def reason(self, text):
        return "said" if "mentioned" in text else "turn_limit"


class Truth(Game):
    name, formats = "truth-and-deception", [""]

    def options(self, rng):
        return {"max_turns": rng.choice([2, 4, 6])}

    def make(self, o):
        return TruthAndDeceptionEnv(max_turns=o["max_turns"], data_path=str(DATA / "facts.json"))

    def legal(self, env, rng):
        guess = rng.choice(["fact 1", "fact 2", "fact  1", "fact\t2", "fact 3", "fact1", "fact ١"] + ["fact 1", "fact 2"] * 4)
        form = rng.choice(["[{}]", "[{}]", "{}", "I [GAME] think [{}]", "[fact 1] or [{}]", "[ {}]", "[Guesser] [{}]"])
        return form.format(odd_case(rng, guess))

    def state(self, env, done):
        return {"max_turns": env.max_turns} | ({} if done else {"turn": env.state.turn})

    def private(self, env, player):
        s = env.state.game_state
        known = {"facts": [s["fact1"]["fact"], s["fact2"]["fact"]]}
        return known | ({"correct": 1 if s["fact1"]["is_correct"] else 2} if player == 0 else {})

    def reason(self, text):
        return "guess_right" if "guessed correct" in text else "guess_wrong"


class Negotiation(Game):
    name, formats = "simple-negotiation", ["made a trade offer in an incorrect format"]

    def options(self, rng):
        return {"max_turns": rng.choice([3, 5, 10])}

    def make(self, o):
        return ActionFormattingWrapper(SimpleNegotiationEnv(max_turns=o["max_turns"]))

    def bundle(self, env, rng, player):
        own = env.state.game_state["player_resources"][player]
        parts = []
        for good in rng.sample(GOODS, rng.randint(1, 2)):
            n = rng.randint(1, max(1, own[good])) if rng.random() < 0.9 else rng.choice([0, 99, 2**70])
            name = rng.choice([good] * 8 + [good + "s", good.lower(), "gold"])
            parts.append(odd_number(rng, n) + space(rng, 1) + odd_case(rng, name))
        return rng.choice([", ", " and ", ",", "; "]).join(parts)

    def legal(self, env, rng):
        player = env.state.current_player_id
        parts = []
        if rng.random() < 0.4:
            parts.append("[" + odd_case(rng, rng.choice(["accept", "accept", "deny", "accept "])) + "]")
        if rng.random() < 0.75:
            form = rng.choice(["[{}:{}{} -> {}{}]"] * 4 + ["{}:{}{} -> {}{}", "[{}{}I give {}->{}{}]", "[{}:{}{}{}{}]", "[offer][{}:{}{} ->\n{}{}]",
                              "[{}:{}{} -> {} -> 1 Ore{}]", "[{} {}ı offer {} -> {}{}]", "[x [{}:{}{} -> {}{}]"])
            parts.append(form.format(odd_case(rng, "offer"), space(rng), self.bundle(env, rng, player), self.bundle(env, rng, 1 - player),
                                     rng.choice(["", ".", " ...", "!", "\n"])))
        return rng.choice([" ", "", " talk "]).join(parts)

    def state(self, env, done):
        s = env.state.game_state
        offer = s["current_offer"]
        shown = offer and {"from": offer["from_player"], "offered": offer["offered_resources"],
                           "requested": {g: min(n, 2**64 - 1) for g, n in offer["requested_resources"].items()}}
        out = {"max_turns": env.max_turns, "offer": shown, "trades": sum(t["outcome"] == "Accepted" for t in s["trade_history"])}
        if done:
            return out | {"gains": [s["inventory_value"][p]["change"] for p in range(2)]}
        return out | {"turn": env.state.turn}

    def private(self, env, player):
        s = env.state.game_state
        return {"resources": s["player_resources"][player], "values": s["player_values"][player], "gain": s["inventory_value"][player]["change"]}

    def reason(self, text):
        return "draw" if "Same change" in text else "gain"


GAMES = [Kuhn(), TicTacToe(), ConnectFour(), Nim(), LiarsDice(), DontSayIt(), Truth(), Negotiation()]


def changed(new, old):
    # A copy, since environments change their objects in place.
    new = json.loads(json.dumps(new))
    delta = {k: v for k, v in new.items() if k not in old or old[k] != v}
    return new, delta | {k: "-" for k in old if k not in new}


def play(game, seed, rng):
    options = game.options(rng)
    allowance = rng.choice([1, 1, 1, 1, 0, 2])
    env = game.make(options)
    env.reset(num_players=2, seed=seed)
    state = env.state
    state.error_allowance = allowance
    refusals = []
    refuse = state.set_invalid_move
    state.set_invalid_move = lambda reason: (refusals.append(reason), refuse(reason))[1]
    rows, seen, private_seen = [], {}, [{}, {}]
    action = None
    hostile = rng.choice([0.0, 0.05, 0.3])
    while True:
        done, player = state.done, state.current_player_id
        messages = "" if done else "".join(("g" if f == -1 else str(f)) + KINDS[k.name] for f, _, k in env.get_observation()[1])
        seen, shown = changed(game.state(env, done), seen)
        known = {}
        if not done:
            private_seen[player], known = changed(game.private(env, player), private_seen[player])
        refusal = 0
        if refusals:
            refusal = "format" if any(f in refusals[-1] for f in game.formats) else "illegal"
        rows.append([action, None if done else player, refusal, messages, shown, known])
        if done:
            break
        refusals.clear()
        action = rng.choice(JUNK) if rng.random() < hostile else game.legal(env, rng)
        env.step(action)
        info = state.game_info[0]
    invalid = any(state.game_info[p]["invalid_move"] for p in range(2))
    reason = "invalid" if invalid else game.reason(info["reason"])
    if allowance != 1:
        options["error_allowance"] = allowance
    return {"game": game.name, "seed": seed, "options": options, "steps": rows,
            "rewards": [int(state.rewards[p]) for p in range(2)], "reason": reason}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("output")
    parser.add_argument("--episodes", type=int, default=40, help="of each game")
    args = parser.parse_args()
    with open(args.output, "w", encoding="utf-8") as out:
        for game in GAMES:
            for episode in range(args.episodes):
                rng = random.Random(f"{game.name} {episode}")
                seed = rng.choice([episode, rng.getrandbits(32), rng.getrandbits(64)])
                out.write(json.dumps(play(game, seed, rng), ensure_ascii=False, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
