//! Requests of MCP: the games have no tools.

use serde_json::{Map, Value, json};

/// The answer to the bytes of a request in JSON-RPC 2.0.
pub(super) fn respond(bytes: &[u8]) -> Value {
    match serde_json::from_slice::<Value>(bytes) {
        Ok(request) => answer(&request),
        Err(_) => error(&Value::Null, -32700, "Parse error"),
    }
}

/// The answer to a request.
pub(super) fn answer(request: &Value) -> Value {
    let none = Map::new();
    let fields = request.as_object().unwrap_or(&none);
    let id = fields.get("id").filter(|id| id.is_string() || id.is_i64()).unwrap_or(&Value::Null);
    match (fields.get("jsonrpc").and_then(Value::as_str), fields.get("method").and_then(Value::as_str)) {
        (Some("2.0"), Some("tools/list" | "tools/call")) => error(id, -32603, "Environment does not support MCP"),
        (Some("2.0"), Some(method)) => error(id, -32601, &format!("Method not found: {}", spag_io::quote(method))),
        _ => error(id, -32600, "Invalid request: it needs \"jsonrpc\": \"2.0\" and a method"),
    }
}

fn error(id: &Value, code: i32, message: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message, "data": null}})
}
