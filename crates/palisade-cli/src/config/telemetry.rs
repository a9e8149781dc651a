//! `[telemetry]`: where traces and metrics are sent.

use serde::Deserialize;
use toml::Spanned;

/// `[telemetry]`
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Telemetry {
    /// The collector to which `palisade serve` sends traces and metrics by OTLP over HTTP, for example `"http://localhost:4318"`. `[grants]`
    /// must name its host. Without it, nothing is sent.
    pub(crate) otlp: Option<Spanned<String>>,
}

/// The host and port of an address over HTTP; nothing where it is none, or holds a password or a query.
pub(crate) fn find_host(url: &str) -> Option<String> {
    let (rest, port) = match url.strip_prefix("http://") {
        Some(rest) => (rest, 80),
        None => (url.strip_prefix("https://")?, 443),
    };
    let host = rest.split('/').next().filter(|host| !host.is_empty())?;
    let is_plain = !rest.contains(['@', '?', '#', ' ', '\\']);
    let has_port = host
        .rsplit_once(':')
        .is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    is_plain.then(|| match has_port {
        true => host.to_owned(),
        false => format!("{host}:{port}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_host() {
        for (url, host) in [
            ("http://localhost:4318", Some("localhost:4318")),
            (
                "https://otlp.example.org/base/",
                Some("otlp.example.org:443"),
            ),
            ("http://[::1]:4318/x", Some("[::1]:4318")),
            ("localhost:4318", None),
            ("http://a:b@localhost:4318", None),
            ("http://localhost:4318/?x=y", None),
            ("http:///x", None),
        ] {
            assert_eq!(find_host(url).as_deref(), host, "{url}");
        }
    }
}
