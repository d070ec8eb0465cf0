//! The models of a server and their adapters, by name.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use spag_io::quote;
use spag_model::generate::AdapterChoice;
use tokio::sync::watch;

use crate::api::ApiError;
use crate::engine_thread::AdapterChange;
use crate::error::{Error, Result};
use crate::limits::QueueLimits;
use crate::metrics::{EngineMetrics, Metrics};
use crate::model::{AdapterToServe, ModelToServe, NamedModel, ServedModel};

/// Maximum bytes of a name.
const LONGEST_NAME: usize = 256;

/// A loaded adapter.
struct LoadedAdapter {
    /// The index of its model.
    model: usize,
    folder: PathBuf,
}

/// The adapters by name.
#[derive(Default)]
struct AdapterNames {
    loaded: RwLock<BTreeMap<String, LoadedAdapter>>,
    /// Held while an adapter is loaded or unloaded.
    changes: Mutex<()>,
}

impl AdapterNames {
    /// Calls `f` with the adapters.
    fn read<R>(&self, f: impl FnOnce(&BTreeMap<String, LoadedAdapter>) -> R) -> R {
        f(&self.loaded.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Adds an adapter that the engine has loaded.
    fn insert(&self, name: &str, adapter: LoadedAdapter) {
        self.loaded.write().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), adapter);
    }

    fn remove(&self, name: &str) {
        self.loaded.write().unwrap_or_else(PoisonError::into_inner).remove(name);
    }
}

/// All models of a server.
pub(crate) struct ModelPool {
    pub(crate) models: Vec<Arc<ServedModel>>,
    /// Indices by name, in listing order.
    names: Vec<(String, usize)>,
    by_name: HashMap<String, usize>,
    adapters: AdapterNames,
    created: u64,
}

impl ModelPool {
    /// Starts an engine for each model. `faulty` is set to true if one fails.
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

    /// The model or adapter with a name; the first model if `name` is `None`.
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

    /// The model with a name, or the first model, with its index.
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

    /// Loads an adapter for the named or the first model. Waits for the engine's current step.
    ///
    /// # Errors
    /// The name or the folder is unusable, or the engine refuses the adapter.
    pub(crate) fn load_adapter(&self, name: &str, folder: &Path, base: Option<&str>) -> Result<(), ApiError> {
        check_name(name).map_err(|error| ApiError::field("lora_name", error))?;
        let _turn = self.adapters.changes.lock().unwrap_or_else(PoisonError::into_inner);
        if self.get(Some(name)).is_ok() {
            let problem = format!("`{name}` is the name of a model or of an adapter that is loaded already");
            return Err(ApiError::field("lora_name", problem));
        }
        let (at, model) = self.base(base)?;
        if !folder.join("adapter_config.json").is_file() {
            let folder = quote(&folder.display().to_string());
            return Err(ApiError::not_found(format!("No adapter found in {folder}: no adapter_config.json")));
        }
        let adapter = model.read_adapter(folder).map_err(|error| ApiError::bad(error.to_string()))?;
        model.engine.change_adapter(AdapterChange::Add(name.to_owned(), Box::new(adapter)))?;
        self.adapters.insert(name, LoadedAdapter { model: at, folder: folder.to_owned() });
        Ok(())
    }

    /// Unloads an adapter. Earlier requests still complete with it.
    ///
    /// # Errors
    /// 404 if no adapter has this name.
    pub(crate) fn unload_adapter(&self, name: &str) -> Result<(), ApiError> {
        let _turn = self.adapters.changes.lock().unwrap_or_else(PoisonError::into_inner);
        match self.get(Some(name)) {
            Ok(NamedModel { model, adapter: AdapterChoice::Named(_) }) => {
                // Removed first, so that no request uses the name while the engine removes it.
                self.adapters.remove(name);
                model.engine.change_adapter(AdapterChange::Remove(name.to_owned()))
            }
            _ => Err(ApiError::not_found(format!("The lora adapter '{}' cannot be found", quote(name)))),
        }
    }
}

/// Checks that a name of a model or an adapter is valid.
fn check_name(name: &str) -> Result<()> {
    let wrong = |reason| Err(Error::Name { name: name.to_owned(), reason });
    if name.is_empty() || name.len() > LONGEST_NAME {
        return wrong("it has 1 to 256 bytes");
    }
    if name.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return wrong("it has no blanks and no control characters");
    }
    Ok(())
}
