//! The operator's page on which a person decides about a request that waits.

/// What stands for the request's id in the address.
const ID: &str = "{id}";

/// The address of the operator's page, with a place for the id of a request. That a client opened it decides nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalPage(String);

/// Why an address is none of a page.
#[derive(Debug, Clone, Copy, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum ApprovalPageError {
    /// It has another scheme, or none.
    #[error("its address must begin with `https://`, or on this machine with `http://`")]
    Scheme,
    /// It would be read over the network in plain text.
    #[error("what it shows would go over the network in plain text")]
    Plain,
    /// It has no host, an account, or characters that no address has.
    #[error("its address is none: it must have a host, no account and no spaces")]
    Address,
    /// The id is not there exactly once, or it is a part of the host.
    #[error("its address must have `{{id}}` once, behind the host")]
    Id,
}

impl ApprovalPage {
    /// The page at `address`, for example `https://approvals.example.org/request/{id}`.
    ///
    /// # Errors
    /// If it is neither `https` nor of this machine, or has not `{id}` once behind its host.
    pub fn parse(address: &str) -> Result<Self, ApprovalPageError> {
        let (rest, is_plain) = match (
            address.strip_prefix("https://"),
            address.strip_prefix("http://"),
        ) {
            (Some(rest), _) => (rest, false),
            (None, Some(rest)) => (rest, true),
            (None, None) => return Err(ApprovalPageError::Scheme),
        };
        // As far as clients agree on what an address is.
        let is_char = |char: char| char.is_ascii_graphic() && !"\"<>\\^`|".contains(char);
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let host = find_host(authority).ok_or(ApprovalPageError::Address)?;
        if !rest.chars().all(is_char) {
            return Err(ApprovalPageError::Address);
        }
        if is_plain && !is_this_machine(host) {
            return Err(ApprovalPageError::Plain);
        }
        let around: Vec<&str> = path.split(ID).collect();
        match around.as_slice() {
            [before, after] if !before.contains(['{', '}']) && !after.contains(['{', '}']) => {
                Ok(Self(address.to_owned()))
            }
            _ => Err(ApprovalPageError::Id),
        }
    }

    /// The page of the request `id`.
    pub(crate) fn url(&self, id: &str) -> String {
        // Ids are letters and digits; whatever else one had would be spelled so that it stays in its place.
        let spelled: String = (id.bytes())
            .map(|byte| match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => {
                    char::from(byte).to_string()
                }
                other => format!("%{other:02X}"),
            })
            .collect();
        self.0.replace(ID, &spelled)
    }
}

/// The host of `HOST`, `HOST:PORT` or `[IPV6]:PORT`.
fn find_host(authority: &str) -> Option<&str> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']')?;
            host.parse::<std::net::Ipv6Addr>().ok()?;
            (
                host,
                rest.strip_prefix(':')
                    .or((rest.is_empty()).then_some("1"))?,
            )
        }
        None => {
            let (host, port) = authority.split_once(':').unwrap_or((authority, "1"));
            let is_name = |char: char| char.is_ascii_alphanumeric() || char == '-' || char == '.';
            if host.is_empty() || !host.chars().all(is_name) {
                return None;
            }
            (host, port)
        }
    };
    port.parse::<u16>().ok().map(|_| host)
}

fn is_this_machine(host: &str) -> bool {
    let address = host.parse::<std::net::IpAddr>();
    host.eq_ignore_ascii_case("localhost") || address.is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn a_page_is_encrypted_or_here_and_has_one_id() {
        for (address, why) in [
            ("https://a.example/{id}", None),
            ("https://a.example:8443/request?id={id}&x=1", None),
            ("https://a.example/#{id}", None),
            ("http://127.0.0.1:8000/{id}", None),
            ("http://[::1]:8000/{id}", None),
            ("http://localhost/{id}", None),
            ("http://a.example/{id}", Some(ApprovalPageError::Plain)),
            (
                "http://127.0.0.1.example/{id}",
                Some(ApprovalPageError::Plain),
            ),
            (
                "http://localhost.example/{id}",
                Some(ApprovalPageError::Plain),
            ),
            ("ftp://a.example/{id}", Some(ApprovalPageError::Scheme)),
            ("javascript:alert({id})", Some(ApprovalPageError::Scheme)),
            ("HTTPS://a.example/{id}", Some(ApprovalPageError::Scheme)),
            ("https://a.example/", Some(ApprovalPageError::Id)),
            ("https://a.example/{id}/{id}", Some(ApprovalPageError::Id)),
            ("https://a.example/{id}/{x}", Some(ApprovalPageError::Id)),
            ("https://{id}.example/", Some(ApprovalPageError::Address)),
            ("https://{id}", Some(ApprovalPageError::Address)),
            ("https:///{id}", Some(ApprovalPageError::Address)),
            (
                "https://me:x@a.example/{id}",
                Some(ApprovalPageError::Address),
            ),
            (
                "https://a.example@b.example/{id}",
                Some(ApprovalPageError::Address),
            ),
            ("https://a.example:x/{id}", Some(ApprovalPageError::Address)),
            ("https://[::1/{id}", Some(ApprovalPageError::Address)),
            ("https://[::1]x/{id}", Some(ApprovalPageError::Address)),
            (
                "https://a.example/a b{id}",
                Some(ApprovalPageError::Address),
            ),
            (
                "https://a.example\\@b/{id}",
                Some(ApprovalPageError::Address),
            ),
            ("https://a.example/\n{id}", Some(ApprovalPageError::Address)),
        ] {
            assert_eq!(ApprovalPage::parse(address).err(), why, "{address}");
        }
    }

    #[test]
    fn an_id_stays_in_its_place() {
        let page = ApprovalPage::parse("https://a.example/r/{id}?x=1").unwrap();
        assert_eq!(page.url("abc123"), "https://a.example/r/abc123?x=1");
        assert_eq!(
            page.url("a/../b?c"),
            "https://a.example/r/a%2F%2E%2E%2Fb%3Fc?x=1"
        );
    }
}
