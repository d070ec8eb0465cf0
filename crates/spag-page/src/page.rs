//! The routes of the page.

use std::path::PathBuf;
use std::sync::Arc;

use axum::extract::Request;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use rand::Rng;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use spag_game::{JudgeKind, PromptSet, Rules, taboo};
use spag_selfplay::{LengthSettings, SamplingSettings};
use spag_serve::{Access, ApiError, ModelHandle, Routes, Services};

use crate::assets;
use crate::error::{Error, Result};
use crate::game::{Game, PlayRules, stream};
use crate::runs::{self, RunFolder, json_route};

/// The largest seed that JavaScript can hold exactly.
const LARGEST_SEED: u64 = (1 << 53) - 1;

pub(crate) type Answered = std::result::Result<Response, ApiError>;

/// The settings of a page.
#[derive(Clone, Debug)]
pub struct PageConfig {
    /// Target words, at least one.
    pub words: Vec<String>,
    /// The rules.
    pub judge: JudgeKind,
    /// The wordings of prompts.
    pub prompts: PromptSet,
    /// Turns after which an undecided game is tied.
    pub max_turns: usize,
    /// How models choose their tokens.
    pub sampling: SamplingSettings,
    /// Tokens of an utterance, which are also at most a quarter of a model's context.
    pub length: LengthSettings,
    /// A folder of `spag run` whose games are shown.
    pub run: Option<PathBuf>,
}

impl PageConfig {
    /// The defaults of `spag-play`: the paper's judge, 5 turns, up to 256 of the 50 likeliest tokens at temperature 1.2.
    pub fn new(words: Vec<String>) -> Self {
        Self {
            words,
            judge: JudgeKind::default(),
            prompts: PromptSet::default(),
            max_turns: 5,
            sampling: SamplingSettings::default(),
            length: LengthSettings::default(),
            run: None,
        }
    }
}

/// The page.
pub struct Page {
    words: Vec<String>,
    max_turns: usize,
    rules: PlayRules,
    run: Option<Arc<RunFolder>>,
}

impl Page {
    /// A page with these settings.
    ///
    /// # Errors
    /// There are no words, the sampling is invalid, or the run folder has no games.
    pub fn new(config: PageConfig) -> Result<Self> {
        let PageConfig { words, judge, prompts, max_turns, sampling, length, run } = config;
        if words.is_empty() {
            return Err(Error::NoWords);
        }
        let sampling = sampling.sampling();
        sampling.check().map_err(spag_model::Error::from)?;
        let game = Rules { judge, ..Rules::default() }.game(&prompts);
        let run = run.map(|folder| RunFolder::open(folder, Arc::new(game.clone())).map(Arc::new)).transpose()?;
        let rules = PlayRules { game, sampling, length };
        Ok(Self { words, max_turns, rules, run })
    }

    /// The routes of the page, for [`Server::bind_with`](spag_serve::Server::bind_with).
    pub fn routes(self, services: Services) -> Routes {
        let (run, site) = (self.run.clone(), Arc::new(Site { page: self, services: services.clone() }));
        let mut routes = Routes::new();
        for (path, handler) in assets::routes(&assets::PLAY) {
            routes = routes.route(path, Access::Everybody, handler);
        }
        let (judge, turn) = (site.clone(), site.clone());
        routes = routes
            .route("/page/settings", Access::Key, json_route(&services, &site, Site::settings))
            .route("/page/word", Access::Key, json_route(&services, &site, Site::word))
            .route("/page/judge", Access::Key, post(async move |request: Request| judge.judge(request).await))
            .route("/page/turn", Access::Key, post(async move |request: Request| turn.turn(request).await));
        runs::add_routes(routes, run, &services)
    }
}

pub(crate) fn json_response(body: &Value) -> Response {
    let kind = (header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    // Games and settings are of this moment.
    let cache = (header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    ([kind, cache], body.to_string()).into_response()
}

/// The page on a server.
struct Site {
    page: Page,
    services: Services,
}

impl Site {
    fn settings(&self, _: &IgnoredAny) -> std::result::Result<Value, ApiError> {
        let model = |model: &ModelHandle| json!({"name": model.name(), "max_new_tokens": self.page.rules.utterance_tokens(model)});
        Ok(json!({
            "models": self.services.models().iter().map(model).collect::<Vec<_>>(),
            "max_turns": self.page.max_turns,
            "judge": self.page.rules.game.rules.judge,
            "words": self.page.words.len(),
            "run": self.page.run.as_ref().map(|run| run.name()),
            "longest_utterance": crate::game::SAID_BY_PERSON,
        }))
    }

    /// A word, and the seed of a game.
    fn word(&self, _: &IgnoredAny) -> std::result::Result<Value, ApiError> {
        let mut rng = rand::rng();
        let word = self.page.words.get(rng.random_range(0..self.page.words.len()));
        let seed = rng.random_range(0..=LARGEST_SEED);
        Ok(json!({taboo::LABELS.item_key: word, "max_turns": self.page.max_turns, "seed": seed}))
    }

    async fn judge(self: Arc<Self>, request: Request) -> Answered {
        let rules = self.page.rules.game.clone();
        let verdict = self.services.receive(request, move |body| Ok(Game::read(body)?.judge(&rules)?.json()));
        Ok(json_response(&json!({"verdict": verdict.await?})))
    }

    async fn turn(self: Arc<Self>, request: Request) -> Answered {
        let site = self.clone();
        let work = move |body: &[u8]| {
            let game = Game::read(body)?;
            if game.judge(&site.page.rules.game)?.is_over {
                return Err(ApiError::bad("The game is over; begin a new one"));
            }
            let role = game.episode.next_role();
            let Some(name) = game.model(role) else {
                let problem = format!("a person plays this seat; /page/turn is for models, of which {role} has none");
                return Err(ApiError::field(format!("players.{role}"), problem));
            };
            let model = site.services.model(name)?;
            let (turn, preview) = site.page.rules.request(&game, &model)?;
            Ok((game, model, turn, preview))
        };
        let (game, model, turn, preview) = self.services.receive(request, work).await?;
        let generation = self.services.generate(&model, turn)?;
        Ok(stream(game, &self.page.rules, model, generation, preview))
    }
}
