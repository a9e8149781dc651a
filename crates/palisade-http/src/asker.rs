//! Who asks, by the token that was looked at.

use axum::http::request::Parts;
use palisade_mcp::{Asker, PrincipalSource};

/// The bearer of a request's token. A request without one has no principal.
#[must_use]
pub fn principal_source() -> PrincipalSource {
    PrincipalSource::by_request(|request| {
        let parts = request.get::<Parts>()?;
        parts.extensions.get::<Asker>().cloned()
    })
}
