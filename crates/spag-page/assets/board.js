// A game on the page: the word, the utterances, the verdict, and what can be done with it.

import { announce, fill, h, problem, quoted } from "./dom.js";
import { episodeOf, isOver, linkOf, nextRole, ownSeat, seatsOf, wordIsOpen } from "./game.js";
import { capitalised, saidText, seatClass, utterance } from "./talk.js";

/** Names the page after a kind of game; without one, after Adversarial Taboo. */
export function entitle(kind) {
  const title = kind?.title ?? "Adversarial Taboo";
  document.title = title;
  document.querySelector(".top h1").textContent = title;
}

/** How a game ended, from the seat of the person who plays, or from outside. */
const ENDINGS = {
  right_guess: { defender: "You named the word.", other: "The defender named the word." },
  wrong_guess: { defender: "You named a wrong word.", other: "The defender named a wrong word." },
  said_unknowingly: {
    defender: "You said the word without knowing that it is the word.",
    other: "The defender said the word without knowing that it is the word.",
  },
  broken_rule: {
    attacker: "You said the word, or claimed to know it, which the attacker must not.",
    other: "The attacker said the word, or claimed to know it, which the rules forbid.",
  },
  tie: { other: "All turns were played, and nothing decided the game." },
};

/** The seat whose player reads this; null for a game of others. */
function readersSeat(game) {
  return game.shared ? null : ownSeat(game);
}

/** The name of the player of a seat. */
function playerName(game, role) {
  return game.players[role] ?? (game.shared ? "a person" : "you");
}

function headline(game) {
  const seat = readersSeat(game);
  if (game.gaveUp) return seat === null ? `The ${ownSeat(game) ?? "player"} gave up` : "You gave up";
  const { winner } = game.verdict;
  if (winner === null) return "A tie";
  if (seat === null) return game.kind ? `${capitalised(winner)} wins` : `The ${winner} wins`;
  return winner === seat ? "You win" : "You lose";
}

/** The class of a verdict, which is its colour. */
function look(game) {
  const seat = readersSeat(game);
  if (game.gaveUp) return "lost";
  const { winner } = game.verdict;
  if (winner === null) return "tied";
  if (seat === null) return seatClass(winner);
  return winner === seat ? "won" : "lost";
}

function reason(game) {
  if (game.gaveUp) return "";
  if (game.kind) return `${capitalised(game.verdict.description)}.`;
  const texts = ENDINGS[game.verdict.ending] ?? {};
  return texts[readersSeat(game)] ?? texts.other ?? game.verdict.outcome;
}

/** The text of an utterance, with the words that decided the game marked. */
function text(game, at) {
  const { verdict } = game;
  if (verdict && verdict.pieces.length > 0 && at === verdict.length - 1) {
    return verdict.pieces.map((piece) => piece.marked ? h("mark", {}, piece.text) : piece.text);
  }
  return saidText(game.history[at].content);
}

/** How reasoning ended that its player did not end. */
const REASONING_ENDS = { forced: "Reasoning (ended by its budget)", unfinished: "Reasoning (unfinished)" };

/** Reasoning, folded unless `opened` has the index of its utterance. */
function folded(title, text, at, opened) {
  return h("details", {
    class: "thought",
    open: opened.has(at) ? "" : null,
    ontoggle: ({ target }) => (target.open ? opened.add(at) : opened.delete(at)),
  }, h("summary", {}, title), h("p", { dir: "auto" }, text));
}

/** An utterance at an index, after its reasoning if that is known. */
function withReasoning(item, game, at, opened) {
  const { reasoning, reasoning_end: end } = game.history[at] ?? {};
  if (reasoning) item.querySelector(".text").before(folded(REASONING_ENDS[end] ?? "Reasoning", reasoning, at, opened));
  return item;
}

/** The utterances of Adversarial Taboo. */
function talkOf(game, opened) {
  const seat = readersSeat(game);
  const said = game.history.map(({ role }, at) =>
    withReasoning(utterance(role, playerName(game, role), role === seat, text(game, at)), game, at, opened));
  const counted = game.verdict?.length ?? Infinity;
  if (counted < said.length) {
    said.splice(counted, 0, h("li", { class: "soft after" }, "What was said afterwards does not count:"));
  }
  return said;
}

/** What the players of another game have been told and have said, in order: boards as text. */
function messagesOf(game, opened) {
  const seat = readersSeat(game);
  return game.position.messages.filter(({ kind }) => kind !== "prompt").map(({ kind, from, to, text: said, utterance: at }) => {
    if (from !== null) return withReasoning(utterance(from, playerName(game, from), from === seat, saidText(said)), game, at, opened);
    const whom = to !== null && to !== seat ? h("span", { class: "who" }, `Only ${to} sees this:`) : null;
    if (kind === "board") return h("li", { class: "position" }, whom, h("pre", { dir: "auto" }, said));
    return h("li", { class: kind === "admin" ? "told refused" : "told" }, whom, said);
  });
}

/** The rules of another game, as its players are told them. */
function promptsOf(game) {
  return game.position.messages.filter(({ kind }) => kind === "prompt").map(({ to, text: told }) =>
    h("details", { class: "rules" }, h("summary", {}, to === readersSeat(game) ? "Rules" : `What ${to} is told`),
      h("p", { class: "prompt", dir: "auto" }, told)));
}

/** A board. `actions` is an element below the verdict or the utterances. */
export function createBoard(title) {
  const heading = h("h2", { class: "unseen", tabindex: "-1" }, title);
  const word = h("p", { class: "word" });
  const against = h("p", { class: "against soft" });
  const turn = h("p", { class: "turn soft" });
  const talk = h("ol", { class: "talk", "aria-label": "Utterances" });
  const told = h("div", {});
  const note = h("p", { class: "soft note", hidden: true });
  const verdict = h("div", { class: "verdict", tabindex: "-1", hidden: true });
  const trouble = h("div", {});
  const actions = h("div", { class: "actions" });
  // Utterances whose reasoning is unfolded.
  const opened = new Set();
  const root = h("section", { class: "board", "aria-label": title },
    heading, h("div", { class: "head" }, word, against, turn), talk, note, trouble, verdict, actions, told);

  const board = {
    root,
    actions,
    heading,
    /** Shows a game as it is. */
    show(game) {
      const seat = readersSeat(game);
      if (game.kind) board.showPosition(game);
      else board.showTalk(game, seat);
      note.hidden = !game.truncated || isOver(game);
      note.textContent = "The game has become longer than the model's context: it no longer sees the beginning.";
      const opponents = seatsOf(game).filter((other) => other !== seat).map((other) => game.players[other]);
      fill(against, seat === null ? [] : ["Against ", h("b", {}, quoted(opponents[0]))]);
      const over = isOver(game);
      verdict.hidden = !over;
      if (over) {
        const seen = `${headline(game)}. ${reason(game)}`;
        verdict.className = `verdict ${look(game)}`;
        fill(verdict, [
          h("h3", {}, headline(game)),
          h("p", {}, reason(game)),
          game.kind ? null : h("p", {}, "The word was ", h("b", {}, quoted(game.target_word)), "."),
        ]);
        verdict.setAttribute("aria-label", seen);
      }
      board.trouble(null);
    },
    /** Shows the word and what was said. */
    showTalk(game, seat) {
      const label = seat === "attacker" ? "Your word: " : "The word: ";
      fill(word, wordIsOpen(game) ? [label, h("b", {}, quoted(game.target_word))] : ["The word is hidden from you"]);
      const now = Math.min(Math.floor(game.history.length / 2) + 1, game.max_turns);
      turn.textContent = isOver(game) ? "" : `Turn ${now} of ${game.max_turns}`;
      fill(talk, talkOf(game, opened));
    },
    /** Shows the messages of another game. */
    showPosition(game) {
      fill(word, [h("b", {}, game.kind.title)]);
      const next = nextRole(game);
      if (isOver(game) || next === null) turn.textContent = "";
      else turn.textContent = next === readersSeat(game) ? "Your move" : `${capitalised(next)} moves`;
      fill(talk, game.position ? messagesOf(game, opened) : []);
      fill(told, game.position ? promptsOf(game) : []);
    },
    /** Shows an utterance that is being made. */
    stream(game, role) {
      const shown = document.createTextNode("");
      const thought = document.createTextNode("");
      const item = utterance(role, playerName(game, role), false, [shown, h("span", { class: "caret", "aria-hidden": "true" })]);
      item.classList.add("streaming");
      item.setAttribute("aria-busy", "true");
      talk.append(item);
      keepInView(item);
      const waiting = { said: "", thought: "" };
      let frame = null;
      // Once a frame: laying out a long text for every token would take longer than the model.
      const paint = () => {
        frame = null;
        if (waiting.thought !== "" && !thought.isConnected) {
          item.querySelector(".text").before(folded("Reasoning …", thought, game.history.length, opened));
        }
        thought.data = (thought.data + waiting.thought).trimStart();
        shown.data = (shown.data + waiting.said).trimStart();
        Object.assign(waiting, { said: "", thought: "" });
        keepInView(item);
      };
      return {
        append({ delta = "", reasoning = "" }) {
          waiting.said += delta;
          waiting.thought += reasoning;
          frame ??= requestAnimationFrame(paint);
        },
        remove() {
          if (frame !== null) cancelAnimationFrame(frame);
          item.remove();
        },
      };
    },
    /** Tells screen readers what was said. */
    said(game, { role, content }) {
      announce(`${capitalised(role)}: ${content || "says nothing"}`);
    },
    /** Puts the focus on the verdict. */
    focusVerdict(game) {
      const named = game.kind ? "" : ` The word was ${game.target_word}.`;
      announce(`${headline(game)}. ${reason(game)}${named}`);
      verdict.focus({ preventScroll: true });
      keepInView(verdict);
    },
    /** Shows a problem and a way to go on, or removes it. */
    trouble(message, retry) {
      fill(trouble, message === null ? [] : [problem(message, retry)]);
      if (message !== null) {
        trouble.querySelector("button")?.focus({ preventScroll: true });
        keepInView(trouble);
      }
    },
  };
  return board;
}

function keepInView(node) {
  node.scrollIntoView({ block: "nearest" });
}

/** The buttons that share a game: a link and a file. */
export function shareButtons(game, isOpen) {
  const told = h("span", { class: "soft", role: "status" });
  const copy = async () => {
    const link = linkOf(game);
    try {
      await navigator.clipboard.writeText(link);
      told.textContent = "Copied.";
    } catch {
      // Without a secure origin there is no clipboard.
      fill(told, [h("label", { class: "field" }, h("span", {}, "Copy this link"),
        h("input", { class: "link", readOnly: true, value: link, onfocus: (event) => event.target.select() }))]);
      told.querySelector("input").focus();
    }
  };
  return [
    h("button", { type: "button", class: "quiet", onclick: copy }, "Copy link"),
    isOpen && saveButton(game),
    told,
  ];
}

/** The button that saves a game as a file. */
export function saveButton(game) {
  const save = () => {
    const file = new Blob([`${JSON.stringify(episodeOf(game))}\n`], { type: "application/json" });
    const address = URL.createObjectURL(file);
    const anchor = h("a", { href: address, download: `game-${game.seed}.json` });
    anchor.click();
    setTimeout(() => URL.revokeObjectURL(address), 10_000);
  };
  return h("button", { type: "button", class: "quiet", onclick: save }, "Download JSON");
}

/** Whose turn it is, for labels. */
export function turnLabel(game) {
  const seat = nextRole(game) ?? ownSeat(game) ?? seatsOf(game)[0];
  return game.kind ? `What you do as ${seat}` : `What you say as ${seat}`;
}
