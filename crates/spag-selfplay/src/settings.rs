//! Settings that flags, configuration files and this crate share.

use std::path::Path;
use std::sync::Arc;

use spag_game::games::unknown;
use spag_game::{
    AfterDecision, Error, Game, JudgeKind, Labels, PromptSet, RecordedTextArena, Rules, WordList, game_labels,
    open_game, parse_options, taboo,
};
use spag_model::generate::Sampling;

use crate::limits;
use crate::textarena::{PythonSettings, TextArena};

spag_io::settings! {
    /// How tokens are drawn.
    #[derive(Copy, clap::Args)]
    pub flags SamplingSettings {
        /// Sampling temperature, from 0.0001 to 10000; 0 is greedy.
        #[arg(value_name = "X")]
        pub temperature: f64 [limits::Temperature] = 1.2;
        /// Sample from the N most likely tokens, as the reference does; 0 means all tokens [default: 50]. Without this flag,
        /// endpoints are asked for it only if they are spag serve, vLLM, SGLang or llama.cpp; OpenAI refuses it.
        #[arg(value_name = "N")]
        pub top_k: Option<usize> [limits::TOP_K];
        /// Sample from the smallest set of most likely tokens whose probabilities sum to at least X.
        #[arg(value_name = "X")]
        pub top_p: Option<f64> [limits::TOP_P];
    }

    /// How long completions are. The reference has no minimum.
    #[derive(Copy, clap::Args)]
    pub flags LengthSettings {
        /// Maximum number of tokens in a completion.
        #[arg(value_name = "N")]
        pub max_new_tokens: usize [limits::NEW_TOKENS] = 256;
        /// Minimum number of tokens in a completion: EOS and stop tokens are not sampled before it is reached.
        #[arg(value_name = "N")]
        pub min_new_tokens: usize [limits::MIN_NEW_TOKENS] = 0;
    }

    /// Which game is played, and by which rules.
    #[derive(clap::Args)]
    pub flags GameSettings {
        /// Game: taboo is Adversarial Taboo; docs/GAMES.md has the others; textarena:ID is a game of the
        /// Python package textarena.
        #[arg(value_name = "NAME", help_heading = "Games")]
        #[serde(skip_serializing_if = "is_taboo")]
        pub game: String = TABOO.to_owned();
        /// Options of the game, NAME=VALUE, separated by blanks.
        #[arg(value_name = "OPTIONS", help_heading = "Games")]
        pub game_options: Option<String>;
        /// Judge of taboo: paper (matches the target word anywhere in a word) or whole-word.
        #[arg(value_name = "JUDGE", help_heading = "Games")]
        pub judge: JudgeKind = JudgeKind::Paper;
        /// Python with the package textarena, which plays the games textarena:ID [default: python3].
        #[arg(value_name = "PROGRAM", help_heading = "Games")]
        #[serde(skip_serializing_if = "Option::is_none")]
        pub python: Option<String>;
        /// Seconds for an answer of a game textarena:ID, the start of Python included [default: 60].
        #[arg(value_name = "X", help_heading = "Games")]
        #[serde(skip_serializing_if = "Option::is_none")]
        pub python_timeout: Option<f64> [limits::REQUEST_TIMEOUT];
    }

    /// How requests are sent to an endpoint.
    #[derive(Copy, clap::Args)]
    pub flags EndpointSettings {
        /// Maximum number of concurrent requests to an endpoint, at most 1024; in a pool, to each of its URLs.
        #[arg(value_name = "N", help_heading = "Endpoints")]
        pub requests_in_flight: usize [limits::REQUESTS_IN_FLIGHT] = 16;
        /// Rate limit: requests to an endpoint per minute, from 0.01 to 1000000; in a pool, to each of its URLs
        /// [default: unlimited].
        #[arg(value_name = "X", help_heading = "Endpoints")]
        pub requests_per_minute: Option<f64> [limits::REQUESTS_PER_MINUTE];
        /// Timeout in seconds of one attempt of a request to an endpoint, from 0.001 to 86400 (a day).
        #[arg(value_name = "X", help_heading = "Endpoints")]
        pub request_timeout: f64 [limits::REQUEST_TIMEOUT] = 120.0;
    }
}

/// The name of Adversarial Taboo.
const TABOO: &str = taboo::LABELS.name;

fn is_taboo(name: &String) -> bool {
    name == TABOO
}

impl GameSettings {
    /// Whether games are about items of a list and have a number of turns, as those of Adversarial Taboo. Those of other games
    /// follow from their seeds and options.
    pub fn has_items(&self) -> bool {
        is_taboo(&self.game)
    }

    /// The turns of a game: `max_turns`, or 0 if its options say when it ends.
    pub fn turns(&self, max_turns: usize) -> usize {
        if self.has_items() { max_turns } else { 0 }
    }

    /// The name of the game in reports; none for Adversarial Taboo.
    pub fn reported_name(&self) -> Option<String> {
        (!is_taboo(&self.game)).then(|| self.game.clone())
    }

    /// What the games are about: the target words of `data` in Adversarial Taboo, or else one empty item.
    ///
    /// # Errors
    /// Adversarial Taboo without a list, or a list that cannot be read.
    pub fn items(&self, data: Option<&Path>) -> spag_game::Result<WordList> {
        match data {
            Some(path) if self.has_items() => WordList::read(path),
            None if self.has_items() => {
                Err(Error::GameData { game: TABOO.to_owned(), reason: "it needs a list of target words, one a line" })
            }
            _ => Ok(WordList { words: vec![String::new()], repeated: 0, blank_lines: 0 }),
        }
    }

    /// The names of the game.
    pub fn labels(&self) -> &'static Labels {
        game_labels(&self.game).unwrap_or(&unknown::LABELS)
    }

    /// The game and what its verdicts depend on, as records of games have it.
    pub fn describe(&self) -> String {
        match (self.has_items(), &self.game_options) {
            (true, None) => format!("judge={}", self.judge),
            (_, None) => format!("game={}", self.game),
            (_, Some(options)) => format!("game={}; game_options={options}", self.game),
        }
    }

    /// The game. Adversarial Taboo is worded by `prompts`; `data` is the file that some of the others need.
    ///
    /// # Errors
    /// The game is unknown, an option is invalid, or a file that the game needs is missing or invalid.
    pub fn open(
        &self,
        after_decision: AfterDecision,
        prompts: &PromptSet,
        data: Option<&Path>,
    ) -> spag_game::Result<Arc<dyn Game>> {
        if self.has_items() && self.game_options.is_none() {
            return Ok(Arc::new(Rules { judge: self.judge, after_decision }.game(prompts)));
        }
        let options = parse_options(self.game_options.as_deref().unwrap_or_default());
        if let Some(recorded) = RecordedTextArena::new(&self.game, &options, prompts.format())? {
            let python = PythonSettings::new(self.python.as_deref(), self.python_timeout);
            return Ok(Arc::new(TextArena::new(recorded, python)));
        }
        open_game(&self.game, &options, data, prompts.format())
    }
}

impl SamplingSettings {
    /// How a model draws tokens. Without `top_k` from the 50 most likely ones, as in the reference; with 0 from all.
    pub fn sampling(&self) -> Sampling {
        if self.temperature > 0.0 {
            Sampling::random(self.temperature, self.top_k.unwrap_or(Sampling::REFERENCE_TOP_K), self.top_p)
        } else {
            Sampling::Greedy
        }
    }
}
