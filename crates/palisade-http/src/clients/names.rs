//! What a client certificate calls its bearer.

use palisade::session::{Identity, Principal};
use serde_json::{Map, Value};
use x509_cert::{
    Certificate,
    attr::AttributeTypeAndValue,
    der::{
        Decode as _, Tag, Tagged as _,
        asn1::{ObjectIdentifier, PrintableStringRef, Utf8StringRef},
    },
    ext::pkix::{ExtendedKeyUsage, SubjectAltName, name::GeneralName},
};

use crate::claim_map::ClaimMap;

/// `id-at-commonName`
const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");
/// `id-kp-clientAuth`
const CLIENT_AUTHENTICATION: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.2");

/// The longest name, in bytes.
const MAX_NAME: usize = 1_024;

/// The most names of one certificate. With more, it has none: what is not looked at could say otherwise.
const MAX_NAMES: usize = 32;

/// What kind of name it is, in the order in which one of them becomes the client's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum NameKind {
    Uri,
    Dns,
    Email,
    CommonName,
}

impl NameKind {
    /// As a file of claims has it.
    pub(crate) fn claim(self) -> &'static str {
        match self {
            Self::Uri => "uri",
            Self::Dns => "dns",
            Self::Email => "email",
            Self::CommonName => "common_name",
        }
    }
}

/// A name, to the letter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Name {
    kind: NameKind,
    text: String,
}

impl Name {
    /// The name of this text, if it can be that of one client.
    fn new(kind: NameKind, text: &str) -> Option<Self> {
        let has_good_length = (1..=MAX_NAME).contains(&text.len());
        // Letters that look alike, or are compared alike by some, are in no name.
        let is_readable = match kind {
            // A pattern is the name of many.
            NameKind::Dns => text.bytes().all(|b| b.is_ascii_graphic() && b != b'*'),
            NameKind::Uri | NameKind::Email => text.bytes().all(|b| b.is_ascii_graphic()),
            NameKind::CommonName => {
                text.trim() == text && text.bytes().all(|b| b.is_ascii_graphic() || b == b' ')
            }
        };
        (has_good_length && is_readable).then(|| Self {
            kind,
            text: text.to_owned(),
        })
    }

    pub(crate) fn kind(&self) -> NameKind {
        self.kind
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }
}

/// Whether a certificate says that it is for clients. Where it says nothing of its use, it is for none.
pub(crate) fn is_for_clients(certificate: &[u8]) -> bool {
    let usage = Certificate::from_der(certificate)
        .ok()
        .and_then(|certificate| certificate.tbs_certificate.get::<ExtendedKeyUsage>().ok()?);
    usage.is_some_and(|(_, ExtendedKeyUsage(uses))| uses.contains(&CLIENT_AUTHENTICATION))
}

/// The names in a certificate; none where it cannot be read whole.
///
/// The common name counts only where there is no extension for alternative names, whatever that would hold.
pub(crate) fn read_names(certificate: &[u8]) -> Vec<Name> {
    let names = Certificate::from_der(certificate)
        .ok()
        .and_then(|certificate| {
            let alternative = certificate.tbs_certificate.get::<SubjectAltName>().ok()?;
            Some(match alternative {
                Some((_, SubjectAltName(names))) => {
                    names.iter().filter_map(read_alternative).collect()
                }
                None => read_common_name(&certificate).into_iter().collect(),
            })
        });
    let mut names: Vec<Name> = names.unwrap_or_default();
    if names.len() > MAX_NAMES {
        return Vec::new();
    }
    names.sort_by_key(|name| name.kind);
    names
}

fn read_alternative(name: &GeneralName) -> Option<Name> {
    match name {
        GeneralName::UniformResourceIdentifier(text) => Name::new(NameKind::Uri, text.as_str()),
        GeneralName::DnsName(text) => Name::new(NameKind::Dns, text.as_str()),
        GeneralName::Rfc822Name(text) => Name::new(NameKind::Email, text.as_str()),
        GeneralName::OtherName(_)
        | GeneralName::DirectoryName(_)
        | GeneralName::EdiPartyName(_)
        | GeneralName::IpAddress(_)
        | GeneralName::RegisteredId(_) => None,
    }
}

/// The common name, if there is one alone.
fn read_common_name(certificate: &Certificate) -> Option<Name> {
    let parts = certificate.tbs_certificate.subject.0.iter();
    let mut found = parts
        .flat_map(|part| part.0.iter())
        .filter(|part| part.oid == COMMON_NAME);
    let (Some(AttributeTypeAndValue { oid: _, value }), None) = (found.next(), found.next()) else {
        return None;
    };
    if value.tag() == Tag::Utf8String {
        let text = value.decode_as::<Utf8StringRef<'_>>().ok()?;
        Name::new(NameKind::CommonName, text.as_str())
    } else if value.tag() == Tag::PrintableString {
        let text = value.decode_as::<PrintableStringRef<'_>>().ok()?;
        Name::new(NameKind::CommonName, text.as_str())
    } else {
        None
    }
}

/// Whom names mean.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Named {
    /// No line fits any of them.
    Nobody,
    /// Whoever all of them that a line fits mean, by the first of these.
    One(Box<Bearer>),
    /// Two of them mean two principals.
    Several,
}

/// Whose certificate it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Bearer {
    pub(crate) principal: Principal,
    pub(crate) identity: Identity,
    pub(crate) name: Name,
}

/// Whom `names` mean by `map`. Each name is asked for itself: a certificate of two principals is that of neither.
pub(crate) fn identify(map: &ClaimMap, names: &[Name]) -> Named {
    let mut found: Option<(Principal, &Name)> = None;
    for name in names {
        let claims = claim(std::slice::from_ref(name));
        let Some((principal, _)) = map.identify("", &claims) else {
            continue;
        };
        match &found {
            None => found = Some((principal, name)),
            Some((first, _)) if *first == principal => {}
            Some(_) => return Named::Several,
        }
    }
    let Some((principal, name)) = found else {
        return Named::Nobody;
    };
    // Roles and attributes are of all names together.
    let Some((_, identity)) = map.identify("", &claim(names)) else {
        return Named::Nobody;
    };
    Named::One(Box::new(Bearer {
        principal,
        identity,
        name: name.clone(),
    }))
}

/// What these names claim: lists, so that an attribute has one kind however many there are.
fn claim(names: &[Name]) -> Map<String, Value> {
    let mut claims = Map::new();
    for name in names {
        let list = claims
            .entry(name.kind.claim())
            .or_insert_with(|| Value::Array(Vec::new()));
        if let Value::Array(list) = list {
            list.push(Value::String(name.text.clone()));
        }
    }
    claims
}

#[cfg(test)]
mod tests {
    use rcgen::{
        CertificateParams, DistinguishedName, DnType, DnValue, ExtendedKeyUsagePurpose, KeyPair,
        SanType,
    };

    use super::*;
    use crate::claim_map::Claimant;

    fn certificate(change: impl FnOnce(&mut CertificateParams)) -> Vec<u8> {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        params.self_signed(&key).unwrap().der().to_vec()
    }

    fn told(certificate: &[u8]) -> Vec<String> {
        let names = read_names(certificate);
        let names = names.iter();
        names
            .map(|name| format!("{}:{}", name.kind.claim(), name.text))
            .collect()
    }

    fn common(value: impl Into<DnValue>) -> Vec<u8> {
        certificate(|params| {
            params
                .distinguished_name
                .push(DnType::CommonName, value.into())
        })
    }

    #[test]
    fn alternative_names_come_before_the_common_name() {
        let san = |sans: Vec<SanType>| {
            certificate(|params| {
                params.distinguished_name.push(DnType::CommonName, "admin");
                params.subject_alt_names = sans;
            })
        };
        let dns = |name: &str| SanType::DnsName(name.try_into().unwrap());
        let uri = SanType::URI("spiffe://acme/bot".try_into().unwrap());
        let email = SanType::Rfc822Name("a@acme.example".try_into().unwrap());
        assert_eq!(told(&san(vec![])), ["common_name:admin"]);
        assert_eq!(
            told(&san(vec![email, dns("b.acme"), uri, dns("a.acme")])),
            [
                "uri:spiffe://acme/bot",
                "dns:b.acme",
                "dns:a.acme",
                "email:a@acme.example"
            ]
        );
        // An extension that names nothing still takes the common name's place.
        let address = SanType::IpAddress([127, 0, 0, 1].into());
        assert!(told(&san(vec![address])).is_empty());
        assert!(told(&san(vec![dns("*.acme")])).is_empty());
        assert!(told(&san(vec![SanType::Rfc822Name("a b@x".try_into().unwrap())])).is_empty());
        assert!(told(&san(vec![dns("a\0.acme")])).is_empty());
        let many: Vec<SanType> = (0..33).map(|n| dns(&format!("a{n}.acme"))).collect();
        assert!(told(&san(many)).is_empty());
        assert!(told(b"no certificate").is_empty());
    }

    #[test]
    fn a_common_name_is_one_and_plain() {
        assert_eq!(told(&common("Support Bot")), ["common_name:Support Bot"]);
        let printable = DnValue::PrintableString("bot".try_into().unwrap());
        assert_eq!(told(&common(printable)), ["common_name:bot"]);
        // A Cyrillic letter, a mark that turns the direction, and blanks that are hard to see.
        for text in [
            "\u{430}dmin",
            "admin\u{202e}",
            " admin",
            "admin ",
            "",
            "a\nb",
            "a\0",
        ] {
            assert!(told(&common(text)).is_empty(), "{text:?}");
        }
        let wide = DnValue::BmpString("admin".try_into().unwrap());
        assert!(told(&common(wide)).is_empty());
        let none = certificate(|params| {
            params
                .distinguished_name
                .push(DnType::OrganizationName, "admin");
        });
        assert!(told(&none).is_empty());
    }

    #[test]
    fn only_what_says_so_is_for_clients() {
        let with = |uses: &[ExtendedKeyUsagePurpose]| {
            certificate(|params| params.extended_key_usages = uses.to_vec())
        };
        let (client, server) = (
            ExtendedKeyUsagePurpose::ClientAuth,
            ExtendedKeyUsagePurpose::ServerAuth,
        );
        assert!(is_for_clients(&with(&[server.clone(), client])));
        assert!(!is_for_clients(&with(&[server])));
        assert!(!is_for_clients(&with(&[ExtendedKeyUsagePurpose::Any])));
        assert!(!is_for_clients(&with(&[])));
        assert!(!is_for_clients(b"no certificate"));
    }

    #[test]
    fn a_certificate_of_two_principals_is_that_of_neither() {
        let map = r#"
            [[principal]]
            claim = "dns"
            value = "boss.acme"
            is = 'Agent::"boss"'

            [[principal]]
            claim = "dns"
            pattern = '([a-z]+)\.acme'
            is = 'Agent::"$1"'

            [[principal]]
            claim = "uri"
            pattern = 'spiffe://acme/([a-z]+)'
            is = 'Agent::"$1"'

            [[role]]
            claim = "uri"
            pattern = 'spiffe://acme/.*'
            is = 'Role::"meshed"'
        "#;
        let map = ClaimMap::read(map, Claimant::Certificate).unwrap();
        let who = |names: &[(NameKind, &str)]| {
            let names = names
                .iter()
                .filter_map(|(kind, text)| Name::new(*kind, text));
            match identify(&map, &names.collect::<Vec<_>>()) {
                Named::Nobody => "none".to_owned(),
                Named::Several => "several".to_owned(),
                Named::One(bearer) => format!(
                    "{} as {} of {} roles",
                    bearer.principal,
                    bearer.name.text,
                    bearer.identity.roles().len()
                ),
            }
        };
        let (uri, dns) = (NameKind::Uri, NameKind::Dns);
        let bot = "Agent::\"bot\" as spiffe://acme/bot of 1 roles";
        assert_eq!(who(&[(uri, "spiffe://acme/bot"), (dns, "bot.acme")]), bot);
        assert_eq!(who(&[(uri, "spiffe://acme/bot"), (dns, "x.other")]), bot);
        let both = [(uri, "spiffe://acme/bot"), (dns, "boss.acme")];
        assert_eq!(who(&both), "several");
        assert_eq!(who(&[(dns, "bot.acme"), (dns, "boss.acme")]), "several");
        assert_eq!(
            who(&[(dns, "boss.acme")]),
            "Agent::\"boss\" as boss.acme of 0 roles"
        );
        for name in [
            "BOSS.acme",
            "boss.acme.",
            "boss.acme.evil",
            "x.boss.acme",
            "\u{212a}.acme",
        ] {
            assert_eq!(who(&[(dns, name)]), "none", "{name}");
        }
        // A name is of its kind.
        assert_eq!(who(&[(NameKind::CommonName, "boss.acme")]), "none");
        assert_eq!(who(&[]), "none");
    }
}
