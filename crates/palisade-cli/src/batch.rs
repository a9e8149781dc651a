//! Batches: JSON lines in, one JSON line out for each, in order, whatever comes in.

use std::{
    collections::BTreeSet,
    fmt,
    io::{BufRead, Write},
};

use palisade::{
    code::Code,
    session::{Principal, Session},
    value::Params,
};
use serde::{
    Deserializer as _,
    de::{MapAccess, Visitor},
};
use serde_json::value::RawValue;

use crate::{
    answer::{Answer, Answerer, Request},
    exit::{Exit, Failure},
    json, principal_name, standing,
};

/// How the lines of a batch are answered.
pub(crate) struct Batch<'a> {
    /// What answers them.
    pub(crate) answerer: &'a dyn Answerer,
    /// Of lines without `as`.
    pub(crate) session: Session,
    /// Bytes of a line that are kept.
    pub(crate) max_line_bytes: usize,
    /// What the operator is told of a principal; an error where nothing can be permitted to its type.
    pub(crate) standing: &'a dyn Fn(&Principal) -> Result<Vec<String>, Failure>,
}

/// A line and what it asks.
struct Read {
    id: Option<Box<RawValue>>,
    request: Result<Request, String>,
}

impl Batch<'_> {
    /// Answers every line of `input` on `output`, flushed one by one. Empty lines are passed over. What there is to tell of
    /// a principal is told on standard error, before its first answer.
    pub(crate) fn run(
        &self,
        input: &mut dyn BufRead,
        output: &mut dyn Write,
    ) -> Result<Exit, Failure> {
        let mut exit = Exit::Permitted;
        let mut known = BTreeSet::new();
        while let Some(line) = read_line(input, self.max_line_bytes)
            .map_err(|error| Failure::Usage(format!("cannot read the batch: {error}")))?
        {
            let answer = match line {
                Line::Blank => continue,
                Line::TooLong => {
                    exit = Exit::Usage;
                    let most = self.max_line_bytes;
                    Answer::invalid(
                        Code::LimitQuerySize,
                        format!("the line is longer than {most} bytes"),
                    )
                }
                Line::Text(bytes) => {
                    let Read { id, request } = read(&bytes, &self.session);
                    let mut answer = match request {
                        Ok(request) => {
                            self.introduce(request.session.principal(), &mut known);
                            self.answerer.answer(&request)
                        }
                        Err(why) => {
                            exit = Exit::Usage;
                            Answer::invalid(Code::RequestInvalid, why)
                        }
                    };
                    answer.id = id;
                    answer
                }
            };
            let text = json::line(&answer).map_err(|error| Failure::Internal(error.to_string()))?;
            writeln!(output, "{text}")
                .and_then(|()| output.flush())
                .map_err(|error| Failure::output(&error))?;
        }
        Ok(exit)
    }

    /// Tells of `principal`, unless it is `known`.
    fn introduce(&self, principal: &Principal, known: &mut BTreeSet<Principal>) {
        if known.insert(principal.clone()) {
            let told = (self.standing)(principal);
            standing::tell(&told.unwrap_or_else(|failure| vec![first_line(&failure)]));
        }
    }
}

/// What a failure says, without the help for the command line.
fn first_line(failure: &Failure) -> String {
    let text = failure.to_string();
    let line = text.lines().next().unwrap_or_default();
    line.strip_prefix("error: ").unwrap_or(line).to_owned()
}

/// A line of an input.
pub(crate) enum Line {
    /// It holds nothing but blanks.
    Blank,
    /// Its bytes, without its end.
    Text(Vec<u8>),
    /// It is longer than what is kept.
    TooLong,
}

/// The next line without its end; `None` at the end of the input. What is beyond `max` is read and
/// dropped, so that one line never takes more memory.
pub(crate) fn read_line(input: &mut dyn BufRead, max: usize) -> std::io::Result<Option<Line>> {
    let mut line = Vec::new();
    let mut any = false;
    let mut too_long = false;
    loop {
        let chunk = match input.fill_buf() {
            Ok(chunk) => chunk,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if chunk.is_empty() {
            break;
        }
        any = true;
        let end = chunk.iter().position(|byte| *byte == b'\n');
        let piece = chunk.get(..end.unwrap_or(chunk.len())).unwrap_or_default();
        if line.len().saturating_add(piece.len()) > max {
            too_long = true;
            line = Vec::new();
        } else if !too_long {
            line.extend_from_slice(piece);
        }
        let used = end.map_or(chunk.len(), |end| end + 1);
        input.consume(used);
        if end.is_some() {
            break;
        }
    }
    Ok(if !any {
        None
    } else if too_long {
        Some(Line::TooLong)
    } else if line.iter().all(u8::is_ascii_whitespace) {
        Some(Line::Blank)
    } else {
        Some(Line::Text(line))
    })
}

fn read(line: &[u8], session: &Session) -> Read {
    let invalid = |why: String| Read {
        id: None,
        request: Err(why),
    };
    let Ok(text) = std::str::from_utf8(line) else {
        return invalid("the line is not UTF-8".to_owned());
    };
    let entries = match entries(text) {
        Ok(entries) => entries,
        Err(error) => return invalid(format!("the line is not a JSON object: {error}")),
    };
    let id = entries
        .iter()
        .find(|(key, _)| key == "id")
        .map(|(_, value)| value);
    let id = id.filter(|value| is_id(value)).cloned();
    Read {
        id,
        request: request(entries, session),
    }
}

/// What a line asks. The texts of errors say what the line should have been.
fn request(entries: Vec<(String, Box<RawValue>)>, session: &Session) -> Result<Request, String> {
    let mut sql = None;
    let mut params = None;
    let mut session = session.clone();
    let mut seen = Vec::new();
    for (key, value) in entries {
        if seen.contains(&key) {
            return Err(format!("`{}` is there twice", key.escape_debug()));
        }
        match key.as_str() {
            "id" if is_id(&value) => {}
            "id" => return Err("`id` must be a string, a number or null".to_owned()),
            "sql" => sql = Some(string("sql", &value)?),
            "params" => {
                let json: serde_json::Value = serde_json::from_str(value.get())
                    .map_err(|error| format!("`params`: {error}"))?;
                params = Some(Params::from_json(&json)?);
            }
            "as" => {
                let principal = principal_name::parse(&string("as", &value)?)
                    .map_err(|error| format!("`as`: {error}"))?;
                session = Session::new(principal).over(session.transport());
            }
            other => {
                return Err(format!(
                    "there is no key `{}`; a line has `id`, `sql`, `params` and `as`",
                    other.escape_debug()
                ));
            }
        }
        seen.push(key);
    }
    Ok(Request {
        sql: sql.ok_or("`sql` is missing")?,
        params: params.unwrap_or_default(),
        session,
    })
}

fn string(key: &str, value: &RawValue) -> Result<String, String> {
    serde_json::from_str(value.get()).map_err(|_| format!("`{key}` must be a string"))
}

/// A string, a number or null; checked by its first character, since it is valid JSON.
fn is_id(value: &RawValue) -> bool {
    !value.get().starts_with(['{', '[', 't', 'f'])
}

/// The keys and values of a JSON object, in order, repeated keys included.
fn entries(text: &str) -> serde_json::Result<Vec<(String, Box<RawValue>)>> {
    struct Entries;
    impl<'de> Visitor<'de> for Entries {
        type Value = Vec<(String, Box<RawValue>)>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut entries = Vec::new();
            while let Some(entry) = map.next_entry()? {
                entries.push(entry);
            }
            Ok(entries)
        }
    }
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let entries = deserializer.deserialize_map(Entries)?;
    deserializer.end()?;
    Ok(entries)
}

#[cfg(test)]
mod tests {
    #![allow(
        clippy::unwrap_used,
        clippy::indexing_slicing,
        clippy::panic,
        reason = "tests"
    )]

    use std::io::BufReader;

    use super::*;

    /// Answers with what was asked.
    struct Echo;

    impl Answerer for Echo {
        fn answer(&self, request: &Request) -> Answer {
            let mut answer = Answer::invalid(Code::SyntaxEmpty, &request.sql);
            answer.policies = vec![request.session.principal().to_string()];
            answer
        }
    }

    fn ask(input: &[u8], capacity: usize, exit: Exit) -> Vec<serde_json::Value> {
        let mut output = Vec::new();
        let mut input = BufReader::with_capacity(capacity, input);
        let batch = Batch {
            answerer: &Echo,
            session: Session::new(Principal::new("Agent", "default")),
            max_line_bytes: 100,
            standing: &|_| Ok(Vec::new()),
        };
        assert_eq!(batch.run(&mut input, &mut output).unwrap(), exit);
        let text = String::from_utf8(output).unwrap();
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    #[test]
    fn every_line_is_answered_in_order() {
        let mut input = b"{\"id\":1,\"sql\":\"a\"}\n\n \r\n{\"sql\":\"b\",\"id\":\"x\",\"as\":\"User::\\\"u\\\"\"}\r\n\xFF\n".to_vec();
        input.extend(vec![b'x'; 500]);
        input.extend(b"\n{\"id\":null,\"sql\":\"c\"}");
        for capacity in [1, 7, 8192] {
            let answers = ask(&input, capacity, Exit::Usage);
            let told: Vec<_> = answers
                .iter()
                .map(|a| format!("{} {} {}", a["id"], a["code"], a["message"]).replace('"', ""))
                .collect();
            assert_eq!(
                told,
                [
                    "1 syntax.empty a",
                    "x syntax.empty b",
                    "null request.invalid the line is not UTF-8",
                    "null limit.query-size the line is longer than 100 bytes",
                    "null syntax.empty c",
                ]
            );
            assert_eq!(answers[1]["policies"][0], "User::\"u\"");
        }
    }

    #[test]
    fn what_is_not_a_request_is_said() {
        for (line, id, message) in [
            ("7", "null", "not a JSON object"),
            ("{\"sql\":\"a\"} x", "null", "not a JSON object"),
            ("[]", "null", "not a JSON object"),
            ("{\"id\":3}", "3", "`sql` is missing"),
            ("{\"id\":3,\"sql\":null}", "3", "`sql` must be a string"),
            (
                "{\"id\":3,\"sql\":\"\\ud800\"}",
                "3",
                "`sql` must be a string",
            ),
            ("{\"sql\":\"a\",\"id\":{}}", "null", "`id` must be"),
            (
                "{\"id\":3,\"sql\":\"a\",\"sql\":\"b\"}",
                "3",
                "`sql` is there twice",
            ),
            (
                "{\"id\":3,\"sql\":\"a\",\"limit\":1}",
                "3",
                "no key `limit`",
            ),
            (
                "{\"id\":3,\"sql\":\"a\",\"as\":\"root\"}",
                "3",
                "`root` is not a principal",
            ),
            (
                "{\"id\":3,\"sql\":\"a\",\"params\":1}",
                "3",
                "JSON array or object",
            ),
        ] {
            let answers = ask(line.as_bytes(), 8192, Exit::Usage);
            assert_eq!(answers.len(), 1, "{line}");
            assert_eq!(answers[0]["code"], "request.invalid", "{line}");
            assert_eq!(answers[0]["id"].to_string(), id, "{line}");
            let told = answers[0]["message"].as_str().unwrap();
            assert!(told.contains(message), "{line}: {told}");
        }
    }
}
