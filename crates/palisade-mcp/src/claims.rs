//! What a client says of itself and of a call, for records. Nothing is decided by it.

use palisade::session::Claims;
use rmcp::{RoleServer, service::RequestContext};
use serde_json::Value;

/// Where a call says what it is for.
const PURPOSE: &str = "palisade/purpose";

/// What the client says of itself, for records.
pub(crate) fn claims(context: &RequestContext<RoleServer>) -> Claims {
    let client = context
        .client_info()
        .map(|info| format!("{} {}", info.name, info.version));
    let purpose = context.meta.0.0.get(PURPOSE).and_then(Value::as_str);
    Claims::new(client.as_deref(), purpose)
}
