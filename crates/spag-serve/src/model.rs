//! A served model.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use serde_json::Value;
use spag_chat::{ChatTemplate, PromptEncoder, TemplateKwargs, TemplateSettings};
use spag_grammar::{GrammarCompiler, Language};
use spag_io::{ReasoningFormat, ReasoningRule};
use spag_model::adapter::{Adapter, BaseDigest};
use spag_model::generate::{AdapterChoice, SharedGrammar};
use spag_model::{Architecture, Checkpoint, Engine, EngineConfig, Tokenizer};
use tokio::sync::watch;

use crate::api::{ApiError, whole};
use crate::defaults::SamplingDefaults;
use crate::engine_thread::EngineHandle;
use crate::error::Result;
use crate::limits::QueueLimits;
use crate::metrics::EngineMetrics;
use crate::token_texts::TokenTexts;

/// A checkpoint to serve.
pub struct ModelToServe {
    /// The names by which clients request it; responses state the first.
    pub names: Vec<String>,
    /// The checkpoint.
    pub checkpoint: Checkpoint,
    /// Its folder, or its GGUF file.
    pub folder: PathBuf,
    /// The limits of its engine.
    pub engine: EngineConfig,
    /// Adapters that requests may name instead.
    pub adapters: Vec<AdapterToServe>,
    /// What of its answers to chats is reasoning.
    pub reasoning: ReasoningFormat,
    /// The variables of its chat template that requests leave out, and the tags around reasoning.
    pub template: TemplateSettings,
}

/// An adapter to serve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdapterToServe {
    /// The name by which clients request it.
    pub name: String,
    /// Its folder, in PEFT's format.
    pub folder: PathBuf,
}

fn read_adapter(folder: &Path, architecture: &Architecture, base: &BaseDigest) -> spag_model::Result<Adapter> {
    let adapter = Adapter::load(folder, architecture)?;
    adapter.check_base(folder, base)?;
    Ok(adapter)
}

/// The encoder of a model's prompts, with the rule of its reasoning.
///
/// # Errors
/// The chat template is unusable with `auto`, or texts of answers do not have the tags.
fn encoder(tokenizer: Tokenizer, template: &TemplateSettings, format: ReasoningFormat) -> Result<PromptEncoder> {
    let TemplateSettings { chat_template_kwargs, reasoning_tags } = template;
    let encoder = PromptEncoder::new(tokenizer).with_kwargs(chat_template_kwargs.clone());
    let encoder = encoder.with_reasoning(format, reasoning_tags.clone())?;
    let is_tag = |text: &str| [reasoning_tags.open(), reasoning_tags.close()].contains(&text);
    let is_split = matches!(encoder.reasoning(), ReasoningRule::Think(_));
    if is_split && encoder.tokenizer().special_tokens().any(|(_, text)| is_tag(text)) {
        let problem =
            "the tags are special tokens of the model, which texts of answers leave out; set reasoning to none";
        return Err(spag_chat::Error::Reasoning { setting: "reasoning_tags", problem }.into());
    }
    Ok(encoder)
}

/// A model or adapter named by a request.
#[derive(Clone)]
pub(crate) struct NamedModel {
    pub(crate) model: Arc<ServedModel>,
    pub(crate) adapter: AdapterChoice,
}

impl NamedModel {
    /// The adapter's name, or the model's first name.
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
    /// Variables of the chat template that requests leave out.
    pub(crate) kwargs: TemplateKwargs,
    pub(crate) texts: TokenTexts,
    /// Maximum tokens of a prompt and its completion.
    pub(crate) max_length: usize,
    /// The number of embeddings; every token id is smaller.
    pub(crate) vocabulary: usize,
    /// Maximum bytes of a token's text.
    pub(crate) longest_token: usize,
    /// Defaults of sampling settings that requests omit.
    pub(crate) defaults: SamplingDefaults,
    /// Created on first use.
    grammars: OnceLock<spag_grammar::Result<GrammarCompiler>>,
    /// For checking whether adapters fit.
    pub(crate) architecture: Architecture,
    /// Digest of its files when they were loaded.
    pub(crate) base: BaseDigest,
    pub(crate) engine: EngineHandle,
}

impl ServedModel {
    /// Starts its engine. `faulty` is set to true if it fails.
    ///
    /// # Errors
    /// An adapter cannot be read, the settings of reasoning cannot be used, or the engine cannot be started.
    pub(crate) fn start(
        name: &str,
        model: ModelToServe,
        metrics: EngineMetrics,
        queue: &QueueLimits,
        faulty: watch::Sender<bool>,
    ) -> Result<Self> {
        let architecture = model.checkpoint.model.config().architecture.clone();
        let base = BaseDigest::of(&model.folder)?;
        // Adapters are read first, so that a wrong one is found before the weights are packed.
        let adapters = model.adapters.iter().map(|adapter| read_adapter(&adapter.folder, &architecture, &base));
        let adapters = adapters.collect::<spag_model::Result<Vec<_>>>()?;
        let encoder = encoder(model.checkpoint.tokenizer.clone(), &model.template, model.reasoning)?;
        let mut engine = Engine::from_checkpoint(model.checkpoint, model.engine)?;
        for (AdapterToServe { name, .. }, adapter) in model.adapters.iter().zip(&adapters) {
            engine.add_adapter(name, adapter)?;
        }
        let vocabulary = architecture.vocab_size;
        let tokenizer = engine.tokenizer().clone();
        // In the vocabulary's spelling, which is at least as long as the text.
        let lengths = (0..vocabulary).filter_map(|id| Some(tokenizer.token(u32::try_from(id).ok()?)?.len()));
        let longest_token = lengths.max().unwrap_or(1);
        Ok(Self {
            name: name.to_owned(),
            defaults: SamplingDefaults::of(&tokenizer),
            texts: TokenTexts::new(tokenizer, vocabulary),
            grammars: OnceLock::new(),
            encoder,
            kwargs: model.template.chat_template_kwargs,
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

    /// Its first name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn tokenizer(&self) -> &Tokenizer {
        self.encoder.tokenizer()
    }

    /// The chat template.
    ///
    /// # Errors
    /// 400 if there is no usable one.
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

    /// Compiles a language for this model's tokens.
    pub(crate) fn grammar(&self, language: &Language) -> spag_grammar::Result<SharedGrammar> {
        let compiler = self.grammars.get_or_init(|| GrammarCompiler::new(self.tokenizer()));
        compiler.as_ref().map_err(Clone::clone)?.compile(language)
    }

    /// Parses a token id.
    pub(crate) fn token(&self, value: &Value) -> Option<u32> {
        whole(value).filter(|id| *id < self.vocabulary).and_then(|id| u32::try_from(id).ok())
    }
}
