//! The routes of the page.

use std::path::PathBuf;
use std::sync::Arc;

use axum::extract::Request;
use axum::response::Response;
use axum::routing::post;
use rand::Rng;
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};
use spag_chat::ReasoningSettings;
use spag_game::games::by_name;
use spag_game::{GameData, JudgeKind, PromptSet, Rules, taboo};
use spag_io::PromptFormat;
use spag_selfplay::{LengthSettings, SamplingSettings};
use spag_serve::{Access, ApiError, ModelHandle, Routes, Services};

use crate::assets;
use crate::error::{Error, Result};
use crate::game::{Game, Offered, PageEndpoint, PlayRules, PlayedGames, Splitting, stream, stream_of_endpoint};
use crate::runs::{self, ShownRun, json_response, json_route};

/// The largest seed that JavaScript can hold exactly.
const LARGEST_SEED: u64 = (1 << 53) - 1;

pub(crate) type Answered = std::result::Result<Response, ApiError>;

/// A game of a page.
#[derive(Clone, Debug)]
pub struct PageGame {
    /// Its name.
    pub name: String,
    /// Its options; none of Adversarial Taboo, whose rules are the page's.
    pub options: Map<String, Value>,
    /// The file of words or facts, if it needs one.
    pub data: Option<PathBuf>,
}

/// The settings of a page.
#[derive(Clone, Debug)]
pub struct PageConfig {
    /// Target words, at least one.
    pub words: Vec<String>,
    /// The judge of Adversarial Taboo.
    pub judge: JudgeKind,
    /// The games that are first in the list, of which the page begins with the first; Adversarial Taboo if there are none. The
    /// others can be chosen.
    pub games: Vec<PageGame>,
    /// The wordings of prompts.
    pub prompts: PromptSet,
    /// Turns after which an undecided game is tied.
    pub max_turns: usize,
    /// How models choose their tokens.
    pub sampling: SamplingSettings,
    /// Tokens of an utterance, which are also at most a quarter of a model's context.
    pub length: LengthSettings,
    /// How many tokens of reasoning models have. What of a completion is reasoning is told by the server's models.
    pub reasoning: ReasoningSettings,
    /// A folder of `spag run` whose games are shown.
    pub run: Option<PathBuf>,
    /// Models behind endpoints that play beside those of the server.
    pub endpoints: Vec<PageEndpoint>,
}

impl PageConfig {
    /// The defaults of `spag-play`: the paper's judge, 5 turns, up to 256 of the 50 likeliest tokens at temperature 1.2.
    pub fn new(words: Vec<String>) -> Self {
        Self {
            words,
            judge: JudgeKind::default(),
            games: Vec::new(),
            prompts: PromptSet::default(),
            max_turns: 5,
            sampling: SamplingSettings::default(),
            length: LengthSettings::default(),
            reasoning: ReasoningSettings::default(),
            run: None,
            endpoints: Vec::new(),
        }
    }
}

/// The page.
pub struct Page {
    words: Vec<String>,
    max_turns: usize,
    rules: PlayRules,
    run: Option<Arc<ShownRun>>,
    endpoints: Vec<PageEndpoint>,
}

impl Page {
    /// A page with these settings.
    ///
    /// # Errors
    /// There are no words, the sampling or the game is invalid, or the run folder has no games.
    pub fn new(config: PageConfig) -> Result<Self> {
        let PageConfig { words, judge, games, prompts, max_turns, sampling, length, reasoning, run, endpoints } =
            config;
        if words.is_empty() {
            return Err(Error::NoWords);
        }
        sampling.sampling().check().map_err(spag_model::Error::from)?;
        let game = Rules { judge, ..Rules::default() }.game(&prompts);
        let run = run.map(|folder| ShownRun::open(folder, Arc::new(game.clone())).map(Arc::new)).transpose()?;
        let games = PlayedGames::new(game, games.into_iter().map(offered).collect::<Result<_>>()?);
        let rules = PlayRules { games, sampling, length, reasoning };
        Ok(Self { words, max_turns, rules, run, endpoints })
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

/// A game with its options and data, which can be played.
fn offered(PageGame { name, options, data }: PageGame) -> Result<Offered> {
    if name == taboo::LABELS.name {
        return Ok(Offered::new(&taboo::LABELS, Map::new(), None));
    }
    let data = data.map(|path| GameData::read(&name, path)).transpose()?;
    let game = by_name(&name, &options, data.as_ref(), PromptFormat::Plain)?;
    Ok(Offered::new(game.labels(), options, data))
}

/// A turn that is to be played.
enum Turn {
    OfModel { game: Game, model: ModelHandle, request: spag_model::Request, splitting: Box<Splitting> },
    OfEndpoint(Game, PageEndpoint),
}

/// The page on a server.
struct Site {
    page: Page,
    services: Services,
}

impl Site {
    fn settings(&self, _: &IgnoredAny) -> std::result::Result<Value, ApiError> {
        let model = |model: &ModelHandle| json!({"name": model.name(), "max_new_tokens": self.page.rules.utterance_tokens(model)});
        let endpoint = |PageEndpoint { name, asker }: &PageEndpoint| json!({"name": name, "max_new_tokens": self.page.rules.length.max_new_tokens, "endpoint": asker.address()});
        let models = self.services.models();
        Ok(json!({
            "models": models.iter().map(model).chain(self.page.endpoints.iter().map(endpoint)).collect::<Vec<_>>(),
            "max_turns": self.page.max_turns,
            "temperature": self.page.rules.sampling.temperature,
            "judge": self.page.rules.games.judge(),
            "games": self.page.rules.games.json(),
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
        let site = self.clone();
        let told = self.services.receive(request, move |body| Game::read(body, &site.page.rules.games)?.json(0));
        Ok(json_response(&Value::Object(told.await?)))
    }

    async fn turn(self: Arc<Self>, request: Request) -> Answered {
        let (site, kept) = (self.clone(), self.services.keep_connection(&request));
        let work = move |body: &[u8]| {
            let game = Game::read(body, &site.page.rules.games)?;
            if game.gave_up || game.judge()?.is_over {
                return Err(ApiError::bad("The game is over; begin a new one"));
            }
            let role = game.position()?.state.to_move();
            let Some(name) = game.model(role) else {
                let problem = format!("a person plays this seat; /page/turn is for models, of which {role} has none");
                return Err(ApiError::field(format!("players.{role}"), problem));
            };
            if let Some(endpoint) = site.page.endpoints.iter().find(|endpoint| endpoint.name == name) {
                return Ok(Turn::OfEndpoint(game, endpoint.clone()));
            }
            let model = site.services.model(name)?;
            let (request, splitting) = site.page.rules.request(&game, &model)?;
            Ok(Turn::OfModel { game, model, request, splitting: Box::new(splitting) })
        };
        match self.services.receive(request, work).await? {
            Turn::OfModel { game, model, request, splitting } => {
                let generation = self.services.generate(&model, request)?;
                Ok(stream(game, generation, *splitting))
            }
            Turn::OfEndpoint(game, endpoint) => stream_of_endpoint(game, &endpoint, kept),
        }
    }
}
