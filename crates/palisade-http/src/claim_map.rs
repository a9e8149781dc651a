//! Who asks, by what a token or a certificate claims. A file has lines, and the first line that fits names the principal.

use std::{collections::BTreeSet, str::FromStr};

use palisade::session::{AttributeValue, Identity, Principal};
use regex::{Regex, RegexBuilder};
use serde::Deserialize;
use serde_json::{Map, Value};

/// Bytes that the automaton of a pattern may take.
const MAX_PATTERN: usize = 1 << 20;

/// The longest claim that is compared, in bytes.
const MAX_CLAIM: usize = 1_024;

/// The most values of one claim that are looked at.
const MAX_VALUES: usize = 1_000;

/// Lines that make a principal, roles and attributes of the claims of a token or of a certificate. Without a line of `[[principal]]` that fits there
/// is no principal.
///
/// ```
/// let map: palisade_http::ClaimMap = r#"
///     [[principal]]
///     claim = "email"
///     pattern = '([a-z.]+)@example\.com'
///     is = 'Agent::"$1"'
///
///     [[role]]
///     claim = ["realm_access", "roles"]
///     value = "analysts"
///     is = 'Role::"analyst"'
///
///     [[attribute]]
///     claim = "tenant"
///     name = "tenant"
/// "#.parse()?;
/// # Ok::<_, palisade_http::ClaimMapError>(())
/// ```
#[derive(Debug, Clone)]
pub struct ClaimMap {
    principals: Vec<Line>,
    roles: Vec<Line>,
    attributes: Vec<AttributeLine>,
}

/// What claims something of its bearer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Claimant {
    /// A token of an authorization server, which can claim anything.
    Token,
    /// A client certificate, which claims its names.
    Certificate,
}

impl Claimant {
    /// Why a line is none of it, if so.
    fn check(self, issuer: Option<&str>, claim: &Claim) -> Result<(), String> {
        match (self, issuer, claim) {
            (Self::Token, _, _) => Ok(()),
            (Self::Certificate, Some(_), _) => Err(
                "`issuer` is of tokens; what certificates count, their authorities say".to_owned(),
            ),
            (Self::Certificate, None, Claim::Name(name))
                if CERTIFICATE_CLAIMS.contains(&&**name) =>
            {
                Ok(())
            }
            (Self::Certificate, None, Claim::Name(_) | Claim::Path(_)) => Err(format!(
                "a certificate claims `{}` alone",
                CERTIFICATE_CLAIMS.join("`, `")
            )),
        }
    }
}

/// What a certificate claims.
const CERTIFICATE_CLAIMS: [&str; 4] = ["uri", "dns", "email", "common_name"];

/// Why a file maps no claims. The text says where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ClaimMapError(String);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    principal: Vec<toml::Spanned<LineText>>,
    #[serde(default)]
    role: Vec<toml::Spanned<LineText>>,
    #[serde(default)]
    attribute: Vec<toml::Spanned<AttributeLine>>,
}

/// A line of `[[principal]]` or `[[role]]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LineText {
    issuer: Option<String>,
    claim: Claim,
    value: Option<String>,
    pattern: Option<String>,
    is: String,
}

/// A line of `[[attribute]]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct AttributeLine {
    issuer: Option<String>,
    claim: Claim,
    name: String,
}

/// Where a claim is: its name, or the names that lead to it.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
enum Claim {
    Name(String),
    Path(Vec<String>),
}

impl Claim {
    fn find<'c>(&self, claims: &'c Map<String, Value>) -> Option<&'c Value> {
        match self {
            Self::Name(name) => claims.get(name),
            Self::Path(names) => {
                let (first, rest) = names.split_first()?;
                let mut found = claims.get(first)?;
                for name in rest {
                    found = found.as_object()?.get(name)?;
                }
                Some(found)
            }
        }
    }

    /// Its texts: one, or those of a list.
    fn texts<'c>(&self, claims: &'c Map<String, Value>) -> Vec<&'c str> {
        let texts: Vec<&str> = match self.find(claims) {
            Some(Value::String(text)) => vec![text],
            Some(Value::Array(list)) => {
                let list = list.iter().take(MAX_VALUES);
                list.filter_map(Value::as_str).collect()
            }
            Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_)) | None => {
                Vec::new()
            }
        };
        let is_short = |text: &&str| text.len() <= MAX_CLAIM;
        texts.into_iter().filter(is_short).collect()
    }
}

/// What a claim must be.
#[derive(Debug, Clone)]
enum Wanted {
    Value(String),
    /// Of the whole claim.
    Pattern(Regex),
}

#[derive(Debug, Clone)]
struct Line {
    issuer: Option<String>,
    claim: Claim,
    wanted: Wanted,
    is: String,
}

impl Line {
    fn read(text: LineText) -> Result<Self, String> {
        let LineText {
            issuer,
            claim,
            value,
            pattern,
            is,
        } = text;
        let wanted = match (value, pattern) {
            (Some(value), None) => Wanted::Value(value),
            (None, Some(pattern)) => Wanted::Pattern(anchor(&pattern)?),
            (None, None) | (Some(_), Some(_)) => {
                return Err("a line has either a `value` or a `pattern`".to_owned());
            }
        };
        let line = Self {
            issuer,
            claim,
            wanted,
            is,
        };
        // With a letter for what the pattern finds.
        let groups = match &line.wanted {
            Wanted::Value(_) => 0,
            Wanted::Pattern(pattern) => pattern.captures_len().saturating_sub(1),
        };
        let sample = fill(&line.is, |group| (group <= groups).then_some("x"));
        let sample = sample.ok_or_else(|| {
            format!(
                "`{}` takes a group that the pattern lacks; it has {groups}",
                line.is
            )
        })?;
        Principal::parse(&sample).map_err(|error| error.to_string())?;
        Ok(line)
    }

    /// Every principal that it makes of the claims.
    fn make(&self, issuer: &str, claims: &Map<String, Value>) -> Vec<Principal> {
        if !is_of(self.issuer.as_deref(), issuer) {
            return Vec::new();
        }
        let texts = self.claim.texts(claims).into_iter();
        let made = texts.filter_map(|text| match &self.wanted {
            Wanted::Value(value) => (value == text).then(|| self.is.clone()),
            Wanted::Pattern(pattern) => {
                let found = pattern.captures(text)?;
                // What a claim says becomes an id and nothing else: quotes in it make no principal.
                fill(&self.is, |group| {
                    found.get(group).map(|found| found.as_str())
                })
            }
        });
        made.filter_map(|text| Principal::parse(&text).ok())
            .collect()
    }
}

/// A pattern of a whole text.
fn anchor(pattern: &str) -> Result<Regex, String> {
    let build = |pattern: &str| {
        let built = RegexBuilder::new(pattern).size_limit(MAX_PATTERN).build();
        built.map_err(|error| format!("the pattern cannot be used: {error}"))
    };
    // Whole by itself, it cannot end the group around it.
    build(pattern)?;
    build(&format!(r"\A(?:{pattern})\z"))
}

/// `template` with `$1` to `$9` as `group` has them; `None` if it lacks one.
fn fill<'g>(template: &str, group: impl Fn(usize) -> Option<&'g str>) -> Option<String> {
    let mut out = String::new();
    let mut rest = template.chars();
    while let Some(c) = rest.next() {
        match c {
            '$' => {
                let digit = rest.next()?.to_digit(10).filter(|digit| *digit > 0)?;
                out.push_str(group(usize::try_from(digit).ok()?)?);
            }
            other => out.push(other),
        }
    }
    Some(out)
}

/// Whether a line for `wanted` is one for `issuer`.
fn is_of(wanted: Option<&str>, issuer: &str) -> bool {
    wanted.is_none_or(|wanted| wanted == issuer)
}

impl FromStr for ClaimMap {
    type Err = ClaimMapError;

    fn from_str(text: &str) -> Result<Self, ClaimMapError> {
        Self::read(text, Claimant::Token)
    }
}

impl ClaimMap {
    /// Reads the lines for what `of` claims.
    pub(crate) fn read(text: &str, of: Claimant) -> Result<Self, ClaimMapError> {
        let File {
            principal,
            role,
            attribute,
        } = toml::from_str(text).map_err(|error| ClaimMapError(error.to_string()))?;
        let fault = |start: usize, why: String| {
            let before = text.get(..start).unwrap_or_default();
            let number = before.matches('\n').count().saturating_add(1);
            ClaimMapError(format!("line {number}: {why}"))
        };
        let read = |lines: Vec<toml::Spanned<LineText>>| {
            let lines = lines.into_iter().map(|line| {
                let start = line.span().start;
                let line = line.into_inner();
                of.check(line.issuer.as_deref(), &line.claim)
                    .and_then(|()| Line::read(line))
                    .map_err(|why| fault(start, why))
            });
            lines.collect::<Result<Vec<Line>, _>>()
        };
        let (principals, roles) = (read(principal)?, read(role)?);
        let attributes = attribute.into_iter().map(|line| {
            let start = line.span().start;
            let line = line.into_inner();
            of.check(line.issuer.as_deref(), &line.claim)
                .map_err(|why| fault(start, why))?;
            Ok(line)
        });
        let attributes = attributes.collect::<Result<_, _>>()?;
        if principals.is_empty() {
            return Err(ClaimMapError(
                "without `[[principal]]` there is no principal".to_owned(),
            ));
        }
        Ok(Self {
            principals,
            roles,
            attributes,
        })
    }

    /// Who asks with a token of `issuer`, or with a certificate, that claims this.
    pub(crate) fn identify(
        &self,
        issuer: &str,
        claims: &Map<String, Value>,
    ) -> Option<(Principal, Identity)> {
        let lines = self.principals.iter();
        let principal = lines.flat_map(|line| line.make(issuer, claims)).next()?;
        let mut identity = Identity::default();
        for role in self.roles.iter().flat_map(|line| line.make(issuer, claims)) {
            identity = identity.with_role(role);
        }
        for line in &self.attributes {
            if is_of(line.issuer.as_deref(), issuer)
                && let Some(value) = line.claim.find(claims).and_then(read_attribute)
            {
                identity = identity.with_attribute(line.name.clone(), value);
            }
        }
        Some((principal, identity))
    }
}

/// A claim as an attribute; `None` for what is none.
fn read_attribute(value: &Value) -> Option<AttributeValue> {
    match value {
        Value::String(text) => {
            (text.len() <= MAX_CLAIM).then(|| AttributeValue::Text(text.clone()))
        }
        Value::Number(number) => number.as_i64().map(AttributeValue::Number),
        Value::Bool(boolean) => Some(AttributeValue::Boolean(*boolean)),
        Value::Array(list) if list.len() <= MAX_VALUES => {
            let texts = list.iter().map(|one| one.as_str().map(str::to_owned));
            let texts: Option<BTreeSet<String>> = texts.collect();
            texts.map(AttributeValue::Texts)
        }
        Value::Array(_) | Value::Object(_) | Value::Null => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn identify(map: &str, claims: &Value) -> Option<(String, Identity)> {
        let map: ClaimMap = map.parse().unwrap();
        let found = map.identify("https://a", claims.as_object().unwrap());
        found.map(|(principal, identity)| (principal.to_string(), identity))
    }

    const MAP: &str = r#"
        [[principal]]
        claim = "groups"
        value = "support"
        is = 'Agent::"support-bot"'

        [[principal]]
        issuer = "https://a"
        claim = "email"
        pattern = '([a-z.]+)@example\.com'
        is = 'Agent::"$1"'

        [[role]]
        claim = ["realm", "roles"]
        value = "analysts"
        is = 'Role::"analyst"'

        [[attribute]]
        claim = "https://example.com/tenant"
        name = "tenant"
    "#;

    #[test]
    fn the_first_line_that_fits_names_the_principal() {
        let both = json!({"groups": ["x", "support"], "email": "ana@example.com"});
        assert_eq!(identify(MAP, &both).unwrap().0, "Agent::\"support-bot\"");
        let second = json!({"groups": "supporters", "email": "ana@example.com",
            "realm": {"roles": ["analysts", "analysts2"]}, "https://example.com/tenant": 7});
        let (principal, identity) = identify(MAP, &second).unwrap();
        assert_eq!(principal, "Agent::\"ana\"");
        let expected = Identity::default()
            .with_role(Principal::new("Role", "analyst"))
            .with_attribute("tenant", AttributeValue::Number(7));
        assert_eq!(identity, expected);
    }

    #[test]
    fn patterns_are_of_the_whole_claim() {
        for none in [
            json!({"email": "ana@example.com.evil.org"}),
            json!({"email": "x ana@example.com"}),
            json!({"email": "ana@example.com\n"}),
            json!({"email": "ana@exampleXcom"}),
            json!({"email": ["a", 7, null]}),
            json!({"email": {"a": "ana@example.com"}}),
            json!({"groups": {"support": true}}),
            json!({}),
        ] {
            assert_eq!(identify(MAP, &none), None, "{none}");
        }
        let alternatives = "[[principal]]\nclaim = \"a\"\npattern = 'b|c'\nis = 'Agent::\"x\"'";
        assert!(identify(alternatives, &json!({"a": "c"})).is_some());
        assert_eq!(identify(alternatives, &json!({"a": "bc"})), None);
        let every = "[[principal]]\nclaim = \"a\"\npattern = '(.*)'\nis = 'Agent::\"$1\"'";
        assert_eq!(identify(every, &json!({"a": "x\", \"y"})), None);
        assert_eq!(identify(every, &json!({"a": ""})), None);
    }

    #[test]
    fn a_certificate_claims_its_names_alone() {
        let line = |claim: &str| {
            format!("[[principal]]\nclaim = {claim}\nvalue = \"b\"\nis = 'Agent::\"x\"'\n")
        };
        let read = |text: &str| ClaimMap::read(text, Claimant::Certificate);
        for claim in CERTIFICATE_CLAIMS {
            assert!(read(&line(&format!("\"{claim}\""))).is_ok(), "{claim}");
        }
        let good = line("\"uri\"");
        for (text, why) in [
            (line("\"URI\""), "line 1: a certificate claims `uri`"),
            (line("[\"uri\"]"), "line 1: a certificate claims"),
            (format!("{good}issuer = \"a\""), "line 1: `issuer`"),
            (
                format!("{good}{}", line("\"san\"").replace("principal", "role")),
                "line 5: a certificate claims",
            ),
            (
                format!("{good}[[attribute]]\nclaim = \"sub\"\nname = \"s\""),
                "line 5: a certificate claims",
            ),
        ] {
            let error = read(&text).unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn a_file_that_says_it_wrong_is_refused() {
        for (map, why) in [
            ("", "principal"),
            ("principal = []", "[[principal]]"),
            (
                "[[principal]]\nclaim = \"a\"\nis = 'Agent::\"x\"'",
                "line 1",
            ),
            (
                "[[principal]]\nclaim = \"a\"\nvalue = \"b\"\nis = 'x'",
                "not a principal",
            ),
            (
                "[[principal]]\nclaim = \"a\"\npattern = 'b'\nis = 'Agent::\"$1\"'",
                "has 0",
            ),
            (
                "[[principal]]\nclaim = \"a\"\npattern = '('\nis = 'Agent::\"x\"'",
                "pattern",
            ),
            (
                "[[principal]]\nclaim = \"a\"\nvalue = \"b\"\nis = 'Agent::\"x\"'\nnot = 1",
                "not",
            ),
        ] {
            let error = map.parse::<ClaimMap>().unwrap_err().to_string();
            assert!(error.contains(why), "{map}: {error}");
        }
    }
}
