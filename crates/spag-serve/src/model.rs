//! A model that is served, and its names.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use spag_chat::{ChatTemplate, PromptEncoder};
use spag_grammar::{GrammarCompiler, Language};
use spag_model::adapter::{Adapter, BaseDigest};
use spag_model::generate::{AdapterChoice, SharedGrammar};
use spag_model::{Architecture, Checkpoint, Engine, EngineConfig, Tokenizer};
use tokio::sync::watch;

use crate::adapters::{AdapterNames, AdapterToServe, LoadedAdapter};
use crate::api::{ApiError, whole};
use crate::defaults::SamplingDefaults;
use crate::engine_thread::EngineHandle;
use crate::error::{Error, Result};
use crate::limits::QueueLimits;
use crate::metrics::{EngineMetrics, Metrics};
use crate::token_texts::TokenTexts;

/// Bytes of a name, at most.
const LONGEST_NAME: usize = 256;

/// A checkpoint to serve.
pub struct ModelToServe {
    /// The names by which clients ask for it; the first is the one that answers state.
    pub names: Vec<String>,
    /// The checkpoint.
    pub checkpoint: Checkpoint,
    /// Its folder, or its GGUF file.
    pub folder: PathBuf,
    /// The limits of its engine.
    pub engine: EngineConfig,
    /// Adapters that requests may name in its place.
    pub adapters: Vec<AdapterToServe>,
}

fn read_adapter(folder: &Path, architecture: &Architecture, base: &BaseDigest) -> spag_model::Result<Adapter> {
    let adapter = Adapter::load(folder, architecture)?;
    adapter.check_base(folder, base)?;
    Ok(adapter)
}

/// A model as a request names it.
#[derive(Clone)]
pub(crate) struct NamedModel {
    pub(crate) model: Arc<ServedModel>,
    pub(crate) adapter: AdapterChoice,
}

impl NamedModel {
    /// The adapter's name, or the first of the model's.
    pub(crate) fn name(&self) -> &str {
        match &self.adapter {
            AdapterChoice::Named(name) => name,
            AdapterChoice::Own | AdapterChoice::Base => self.model.name(),
        }
    }
}

/// A model with its engine.
pub(crate) struct ServedModel {
    name: String,
    pub(crate) encoder: PromptEncoder,
    pub(crate) texts: TokenTexts,
    /// Tokens of a prompt and its completion, at most.
    pub(crate) max_length: usize,
    /// The number of embeddings: each token id is below it.
    pub(crate) vocabulary: usize,
    /// Bytes of a token's text, at most.
    pub(crate) longest_token: usize,
    /// What requests do not say of sampling.
    pub(crate) defaults: SamplingDefaults,
    /// Made when a request needs it first.
    grammars: OnceLock<spag_grammar::Result<GrammarCompiler>>,
    /// Which adapters fit it.
    pub(crate) architecture: Architecture,
    /// Of its files when they were loaded.
    pub(crate) base: BaseDigest,
    pub(crate) engine: EngineHandle,
}

impl ServedModel {
    fn start(
        name: &str,
        model: ModelToServe,
        metrics: EngineMetrics,
        queue: &QueueLimits,
        faulty: watch::Sender<bool>,
    ) -> Result<Self> {
        let architecture = model.checkpoint.model.config().architecture.clone();
        let base = BaseDigest::of(&model.folder)?;
        // Read first, so that a wrong one is found before the weights are packed.
        let adapters = model.adapters.iter().map(|adapter| read_adapter(&adapter.folder, &architecture, &base));
        let adapters = adapters.collect::<spag_model::Result<Vec<_>>>()?;
        let mut engine = Engine::from_checkpoint(model.checkpoint, model.engine)?;
        for (AdapterToServe { name, .. }, adapter) in model.adapters.iter().zip(&adapters) {
            engine.add_adapter(name, adapter)?;
        }
        let vocabulary = architecture.vocab_size;
        let tokenizer = engine.tokenizer().clone();
        // As the vocabulary writes them, which is no shorter than their texts.
        let lengths = (0..vocabulary).filter_map(|id| Some(tokenizer.token(u32::try_from(id).ok()?)?.len()));
        let longest_token = lengths.max().unwrap_or(1);
        Ok(Self {
            name: name.to_owned(),
            texts: TokenTexts::new(tokenizer.clone(), vocabulary),
            defaults: SamplingDefaults::of(&tokenizer),
            grammars: OnceLock::new(),
            encoder: PromptEncoder::new(tokenizer),
            max_length: engine.config().max_length,
            vocabulary,
            longest_token,
            architecture,
            base,
            engine: EngineHandle::start(engine, metrics, queue.max_waiting, faulty)?,
        })
    }

    /// Reads an adapter of this model.
    pub(crate) fn read_adapter(&self, folder: &Path) -> spag_model::Result<Adapter> {
        read_adapter(folder, &self.architecture, &self.base)
    }

    /// The first of its names.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn tokenizer(&self) -> &Tokenizer {
        self.encoder.tokenizer()
    }

    /// The chat template.
    ///
    /// # Errors
    /// 400 if there is none that can be used.
    pub(crate) fn template(&self) -> Result<&ChatTemplate, ApiError> {
        self.encoder.template().map_err(|error| match error {
            spag_chat::Error::Template { reason, .. } => {
                ApiError::bad(format!("The chat template of this model is unusable: {}", spag_io::quote(&reason)))
            }
            _ => ApiError::bad(format!(
                "The model `{}` has no chat template: neither chat_template.jinja nor `chat_template` in \
                 tokenizer_config.json; use /v1/completions, or add a template to the folder and start the server again",
                self.name
            )),
        })
    }

    /// A language for this model's tokens.
    pub(crate) fn grammar(&self, language: &Language) -> spag_grammar::Result<SharedGrammar> {
        let compiler = self.grammars.get_or_init(|| GrammarCompiler::new(self.tokenizer()));
        compiler.as_ref().map_err(Clone::clone)?.compile(language)
    }

    /// A token id.
    pub(crate) fn token(&self, value: &Value) -> Option<u32> {
        whole(value).filter(|id| *id < self.vocabulary).and_then(|id| u32::try_from(id).ok())
    }
}

/// All models of a server.
pub(crate) struct ModelPool {
    pub(crate) models: Vec<Arc<ServedModel>>,
    /// Indices by name, in the order in which they are listed.
    names: Vec<(String, usize)>,
    by_name: HashMap<String, usize>,
    pub(crate) adapters: AdapterNames,
    created: u64,
}

impl ModelPool {
    /// Starts an engine for each model. `faulty` becomes true if one of them fails.
    ///
    /// # Errors
    /// A name is unusable or given twice, or an engine cannot be started.
    pub(crate) fn start(
        models: Vec<ModelToServe>,
        queue: &QueueLimits,
        faulty: &watch::Sender<bool>,
    ) -> Result<(Self, Metrics)> {
        let mut by_name = HashMap::new();
        let (mut names, adapters) = (Vec::new(), AdapterNames::default());
        for (at, model) in models.iter().enumerate() {
            if model.names.is_empty() {
                return Err(Error::Name { name: String::new(), reason: "a model needs a name" });
            }
            for name in &model.names {
                check_name(name)?;
                if by_name.insert(name.clone(), at).is_some() {
                    return Err(Error::Name { name: name.clone(), reason: "it is given twice" });
                }
                names.push((name.clone(), at));
            }
        }
        for (at, model) in models.iter().enumerate() {
            for AdapterToServe { name, folder } in &model.adapters {
                check_name(name)?;
                if by_name.contains_key(name) || adapters.read(|adapters| adapters.contains_key(name)) {
                    return Err(Error::Name { name: name.clone(), reason: "it is given twice" });
                }
                adapters.insert(name, LoadedAdapter { model: at, folder: folder.clone() });
            }
        }
        let first_names: Vec<String> = models.iter().map(|model| model.names[0].clone()).collect();
        let (metrics, each) = Metrics::new(first_names.iter().map(String::as_str));
        let models = models.into_iter().zip(each).zip(&first_names);
        let start = |((model, metrics), name): ((ModelToServe, EngineMetrics), &String)| {
            ServedModel::start(name, model, metrics, queue, faulty.clone()).map(Arc::new)
        };
        let models = models.map(start).collect::<Result<_>>()?;
        let created = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        Ok((Self { models, names, by_name, adapters, created }, metrics))
    }

    /// The model or the adapter with a name, or the first model without one.
    ///
    /// # Errors
    /// 404 if there is no such model.
    pub(crate) fn get(&self, name: Option<&str>) -> Result<NamedModel, ApiError> {
        let of_adapter = |name: &str| self.adapters.read(|adapters| adapters.get(name).map(|adapter| adapter.model));
        if let Some((name, at)) = name.and_then(|name| Some((name, of_adapter(name)?))) {
            let model = self.models.get(at).cloned().ok_or_else(|| ApiError::no_model(name))?;
            return Ok(NamedModel { model, adapter: AdapterChoice::named(name) });
        }
        Ok(NamedModel { model: self.base(name)?.1, adapter: AdapterChoice::Own })
    }

    /// The model with a name, or the first without one, and its index.
    ///
    /// # Errors
    /// 404 if there is no such model.
    pub(crate) fn base(&self, name: Option<&str>) -> Result<(usize, Arc<ServedModel>), ApiError> {
        let at = match name {
            None => 0,
            Some(name) => *self.by_name.get(name).ok_or_else(|| ApiError::no_model(name))?,
        };
        let model = self.models.get(at).cloned();
        model.map(|model| (at, model)).ok_or_else(|| ApiError::no_model(name.unwrap_or_default()))
    }

    /// All models by their first names, and all adapters.
    pub(crate) fn all(&self) -> Vec<NamedModel> {
        let models = self.models.iter().map(|model| NamedModel { model: model.clone(), adapter: AdapterChoice::Own });
        let adapters = self.adapters.read(|adapters| adapters.keys().cloned().collect::<Vec<_>>());
        models.chain(adapters.iter().filter_map(|name| self.get(Some(name)).ok())).collect()
    }

    /// The entry of a name in `/v1/models`.
    pub(crate) fn describe(&self, name: &str) -> Result<Value, ApiError> {
        let NamedModel { model, adapter } = self.get(Some(name))?;
        let (root, parent) = match adapter {
            AdapterChoice::Own | AdapterChoice::Base => (Value::from(model.name()), Value::Null),
            AdapterChoice::Named(_) => {
                let folder =
                    self.adapters.read(|all| all.get(name).map(|adapter| adapter.folder.display().to_string()));
                (Value::from(folder), Value::from(model.name()))
            }
        };
        Ok(json!({
            "id": name,
            "object": "model",
            "created": self.created,
            "owned_by": "spag",
            "root": root,
            "parent": parent,
            "max_model_len": model.max_length,
            "default_sampling_params": model.defaults.json(),
        }))
    }

    /// `/v1/models`.
    pub(crate) fn list(&self) -> Value {
        let adapters = self.adapters.read(|adapters| adapters.keys().cloned().collect::<Vec<_>>());
        let names = self.names.iter().map(|(name, _)| name).chain(&adapters);
        let entries: Vec<Value> = names.filter_map(|name| self.describe(name).ok()).collect();
        json!({"object": "list", "data": entries})
    }

    /// The first engine that failed: the model's name and the cause.
    pub(crate) fn fault(&self) -> Option<(&str, &str)> {
        self.models.iter().find_map(|model| Some((model.name(), model.engine.fault()?)))
    }
}

/// Whether clients can ask for a model or an adapter by a name.
pub(crate) fn check_name(name: &str) -> Result<()> {
    let wrong = |reason| Err(Error::Name { name: name.to_owned(), reason });
    if name.is_empty() || name.len() > LONGEST_NAME {
        return wrong("it has 1 to 256 bytes");
    }
    if name.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return wrong("it has no blanks and no control characters");
    }
    Ok(())
}
