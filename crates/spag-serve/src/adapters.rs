//! Adapters that are served beside their models: the names of requests choose them, and clients may load others.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use axum::extract::{Request, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use spag_io::quote;
use spag_model::generate::AdapterChoice;

use crate::api::{ApiError, Fields, Refused};
use crate::engine_thread::AdapterChange;
use crate::model::{ModelPool, NamedModel, check_name};
use crate::router::App;

/// An adapter to serve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdapterToServe {
    /// The name by which clients ask for it.
    pub name: String,
    /// Its folder, in PEFT's format.
    pub folder: PathBuf,
}

/// Whether clients may load and unload adapters: paths of requests are then read by the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AdapterLoading {
    /// They may not.
    #[default]
    Refused,
    /// They may.
    Allowed,
}

/// An adapter of an engine.
pub(crate) struct LoadedAdapter {
    /// The index of its model.
    pub(crate) model: usize,
    pub(crate) folder: PathBuf,
}

/// The adapters by name.
#[derive(Default)]
pub(crate) struct AdapterNames {
    loaded: RwLock<BTreeMap<String, LoadedAdapter>>,
    /// Held while one is loaded or unloaded.
    changes: Mutex<()>,
}

impl AdapterNames {
    /// Calls `f` with the adapters.
    pub(crate) fn read<R>(&self, f: impl FnOnce(&BTreeMap<String, LoadedAdapter>) -> R) -> R {
        f(&self.loaded.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Adds an adapter that an engine has.
    pub(crate) fn insert(&self, name: &str, adapter: LoadedAdapter) {
        self.loaded.write().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), adapter);
    }

    fn remove(&self, name: &str) {
        self.loaded.write().unwrap_or_else(PoisonError::into_inner).remove(name);
    }
}

impl ModelPool {
    /// Loads an adapter for the model with a name, or for the first. Waits for the engine's current step.
    fn load_adapter(&self, name: &str, folder: &Path, base: Option<&str>) -> Result<(), ApiError> {
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

    /// Unloads an adapter. Requests that came before are completed with it.
    fn unload_adapter(&self, name: &str) -> Result<(), ApiError> {
        let _turn = self.adapters.changes.lock().unwrap_or_else(PoisonError::into_inner);
        match self.get(Some(name)) {
            Ok(NamedModel { model, adapter: AdapterChoice::Named(_) }) => {
                // First, so that no request takes the name while the engine removes it.
                self.adapters.remove(name);
                model.engine.change_adapter(AdapterChange::Remove(name.to_owned()))
            }
            _ => Err(ApiError::not_found(format!("The lora adapter '{}' cannot be found", quote(name)))),
        }
    }
}

/// `/v1/load_lora_adapter`.
pub(crate) async fn load(State(app): State<Arc<App>>, request: Request) -> Result<Response, ApiError> {
    change(app, request, |app, mut fields| {
        let is_false = |value: &serde_json::Value| value == false;
        fields.refuse(&[Refused::new("load_inplace", is_false, "unload the adapter first")])?;
        let (name, path) = (fields.text("lora_name")?, fields.text("lora_path")?);
        let base = fields.text("base_model_name")?;
        fields.finish(&[])?;
        let (Some(name), Some(path)) = (non_empty(name), non_empty(path)) else {
            return Err(ApiError::bad("Both 'lora_name' and 'lora_path' must be provided."));
        };
        app.pool.load_adapter(&name, Path::new(&path), base.as_deref())?;
        Ok(format!("Success: LoRA adapter '{name}' added successfully."))
    })
    .await
}

/// `/v1/unload_lora_adapter`.
pub(crate) async fn unload(State(app): State<Arc<App>>, request: Request) -> Result<Response, ApiError> {
    change(app, request, |app, mut fields| {
        let name = fields.text("lora_name")?;
        fields.finish(&["lora_int_id"])?;
        let Some(name) = non_empty(name) else {
            return Err(ApiError::bad("'lora_name' needs to be provided to unload a LoRA adapter."));
        };
        app.pool.unload_adapter(&name)?;
        Ok(format!("Success: LoRA adapter '{name}' removed successfully."))
    })
    .await
}

fn non_empty(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.is_empty())
}

/// Receives a request that changes adapters, and makes the change outside of the threads of the network.
async fn change(
    app: Arc<App>,
    request: Request,
    make: impl FnOnce(&App, Fields) -> Result<String, ApiError> + Send + 'static,
) -> Result<Response, ApiError> {
    let _busy = app.drain.enter();
    if app.adapter_loading == AdapterLoading::Refused {
        return Err(ApiError::not_found(
            "This server loads no adapters over HTTP; start it with --allow_adapter_loading to allow it",
        ));
    }
    let received = app.receiver.receive(request).await?;
    let shared = app.clone();
    let said = app.receiver.work_on(received, move |body| make(&shared, Fields::parse(body)?)).await?;
    Ok(([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], said).into_response())
}
