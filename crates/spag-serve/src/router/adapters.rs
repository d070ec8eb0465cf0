//! Routes that load and unload adapters at run time.

use std::path::Path;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};

use crate::api::{ApiError, Fields, Refused};
use crate::app::{AdapterLoading, App};

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

/// Receives a request that changes adapters, and applies it outside of the network threads.
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
