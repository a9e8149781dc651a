//! Addresses: what they say of a server.

/// An address of a server, without a query.
#[derive(Debug, Clone)]
pub(super) struct Address {
    text: String,
    /// Where its path begins.
    path: usize,
    is_encrypted: bool,
    host: String,
}

impl Address {
    /// Reads one.
    ///
    /// # Errors
    /// What is wrong with it, as the rest of a sentence.
    pub(super) fn read(text: &str) -> Result<Self, &'static str> {
        let (scheme, rest) = text.split_once("://").ok_or("is no address")?;
        let is_encrypted = match scheme {
            "https" => true,
            "http" => false,
            _ => return Err("begins with neither `https://` nor `http://`"),
        };
        let is_plain = |byte: u8| {
            byte.is_ascii_graphic() && !matches!(byte, b'"' | b'?' | b'#' | b'@' | b'\\' | b'<')
        };
        if !rest.bytes().all(is_plain) {
            return Err("has a query, a name of a user or what stands in no address");
        }
        let end = rest.find('/').unwrap_or(rest.len());
        let place = rest.get(..end).unwrap_or_default();
        let host = match (place.find(']'), place.rfind(':')) {
            (Some(end), _) => place.get(..=end),
            (None, Some(colon)) => place.get(..colon),
            (None, None) => Some(place),
        };
        let host = host.unwrap_or_default().to_ascii_lowercase();
        match host.is_empty() {
            true => Err("names no server"),
            false => Ok(Self {
                text: text.to_owned(),
                path: text.len() - rest.len() + end,
                is_encrypted,
                host,
            }),
        }
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Before its path.
    pub(super) fn origin(&self) -> &str {
        self.text.get(..self.path).unwrap_or_default()
    }

    /// Its path, which is empty or begins with `/`; of `/` alone nothing.
    pub(super) fn path(&self) -> &str {
        match self.text.get(self.path..).unwrap_or_default() {
            "/" => "",
            path => path,
        }
    }

    pub(super) fn is_encrypted(&self) -> bool {
        self.is_encrypted
    }

    /// Whether it is of this machine.
    pub(super) fn is_own(&self) -> bool {
        self.host == "localhost" || self.host == "[::1]" || self.host.starts_with("127.")
    }

    /// Whether machines elsewhere could know it: it is neither of this machine nor of a network of one's own.
    pub(super) fn may_be_public(&self) -> bool {
        let is_private = match self.host.parse::<std::net::Ipv4Addr>() {
            Ok(address) => address.is_private() || address.is_link_local(),
            // A name without a dot is one of a network of one's own.
            Err(_) => {
                let ends = [".local", ".internal", ".localhost", ".lan"];
                self.host.starts_with('[')
                    || !self.host.contains('.')
                    || ends.iter().any(|end| self.host.ends_with(end))
            }
        };
        !self.is_own() && !is_private
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn an_address_is_read_whole_or_not() {
        let address = Address::read("https://a.example.com:8443/x/mcp").unwrap();
        assert_eq!(address.origin(), "https://a.example.com:8443");
        assert_eq!(address.path(), "/x/mcp");
        assert!(address.is_encrypted() && address.may_be_public());
        for bare in ["https://a.example.com", "https://a.example.com/"] {
            assert_eq!(Address::read(bare).unwrap().path(), "");
        }
        for own in [
            "http://127.0.0.1:1/mcp",
            "http://localhost/",
            "http://[::1]:9/m",
        ] {
            let address = Address::read(own).unwrap();
            assert!(address.is_own() && !address.may_be_public(), "{own}");
        }
        for private in [
            "https://10.0.0.5/mcp",
            "https://db/mcp",
            "https://a.internal",
        ] {
            assert!(
                !Address::read(private).unwrap().may_be_public(),
                "{private}"
            );
        }
        for wrong in [
            "palisade.example.com/mcp",
            "ftp://a/",
            "https:///mcp",
            "https://u@a/mcp",
            "https://a/mcp?x=1",
            "https://a/m cp",
        ] {
            assert!(Address::read(wrong).is_err(), "{wrong}");
        }
    }
}
