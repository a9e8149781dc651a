//! What `query`, `check` and `explain` share: one statement or a batch, as text or as JSON.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{BufRead, BufReader, Read as _, Write as _},
    path::Path,
};

use palisade::{
    code::Code,
    firewall::Firewall,
    limits::Limits,
    session::{Session, Transport},
    value::{Params, Value},
};

use crate::{
    answer::{Answer, Answerer, Request},
    args::{FormArguments, Format},
    batch::Batch,
    exit::{Exit, Failure},
    human::{self, Paint},
    json,
    setup::Setup,
    standing, stdout,
};

/// Answers what the command line asks, on standard output.
pub(crate) fn run(
    answerer: &dyn Answerer,
    (setup, firewall): (&Setup, &Firewall),
    sql: Option<&str>,
    form: &FormArguments,
) -> Result<Exit, Failure> {
    let told = standing::describe(firewall, &setup.principal)?;
    if let Some(path) = &form.batch {
        let mut input = open(path)?;
        let mut output = std::io::stdout().lock();
        let batch = Batch {
            answerer,
            session: session(setup),
            max_line_bytes: max_input_bytes(&setup.limits),
            standing: &|principal| standing::describe(firewall, principal),
        };
        return batch.run(&mut *input, &mut output);
    }
    standing::tell(&told);
    let answer = answer_one(answerer, setup, sql, form)?;
    print(&answer, form.format)?;
    Ok(answer.exit())
}

/// Answers the one statement of the command line, and prints nothing of the answer.
pub(crate) fn answer(
    answerer: &dyn Answerer,
    (setup, firewall): (&Setup, &Firewall),
    sql: Option<&str>,
    form: &FormArguments,
) -> Result<Answer, Failure> {
    standing::tell(&standing::describe(firewall, &setup.principal)?);
    answer_one(answerer, setup, sql, form)
}

fn answer_one(
    answerer: &dyn Answerer,
    setup: &Setup,
    sql: Option<&str>,
    form: &FormArguments,
) -> Result<Answer, Failure> {
    note_starter(setup, form.format);
    let params = read_params(form.params.as_deref())?;
    let sql = sql.ok_or_else(|| Failure::Usage("there is no statement".to_owned()))?;
    Ok(match read_text(sql, max_input_bytes(&setup.limits))? {
        Ok(sql) => answerer.answer(&Request {
            sql,
            params,
            session: session(setup),
        }),
        Err((code, why)) => Answer::invalid(code, why),
    })
}

/// The session of the command line's own principal.
fn session(setup: &Setup) -> Session {
    Session::new(setup.principal.clone()).over(Transport::Cli)
}

/// The parameters that a JSON array or object holds.
pub(crate) fn read_params(text: Option<&str>) -> Result<Params, Failure> {
    let Some(text) = text else {
        return Ok(Params::None);
    };
    serde_json::from_str(text)
        .map_err(|error| error.to_string())
        .and_then(|json: serde_json::Value| Params::from_json(&json))
        .map_err(|why| Failure::Usage(format!("parameters: {why}")))
}

/// The primary key of a row, as a JSON object.
pub(crate) fn read_key(text: &str) -> Result<BTreeMap<String, Value>, Failure> {
    match read_params(Some(text)) {
        Ok(Params::Named(key)) => Ok(key),
        Ok(Params::None | Params::Positional(_)) | Err(_) => Err(Failure::Usage(
            "the key is no JSON object\n  help: write the columns of the primary key and their values, '{\"id\": 1}'"
                .to_owned(),
        )),
    }
}

/// Says on standard error, before an answer for people, that the starter policies decide.
pub(crate) fn note_starter(setup: &Setup, format: Format) {
    if setup.is_starter && format == Format::Text {
        // There is no reader if this fails.
        let _ = writeln!(
            std::io::stderr(),
            "note: no --policies given; the built-in starter policies decide\n      \
             (`palisade policy print-starter` shows them)"
        );
    }
}

/// Bytes of one line of a batch, or of a statement on standard input, that are kept. A statement
/// within the limit fits however its characters are escaped.
pub(crate) fn max_input_bytes(limits: &Limits) -> usize {
    limits
        .max_query_bytes
        .saturating_mul(8)
        .saturating_add(64 * 1024)
}

/// A file of lines; `-` is standard input.
pub(crate) fn open(path: &Path) -> Result<Box<dyn BufRead>, Failure> {
    if path == Path::new("-") {
        return Ok(Box::new(BufReader::new(std::io::stdin())));
    }
    let file = File::open(path).map_err(|error| {
        Failure::Usage(format!(
            "cannot read the batch `{}`: {error}",
            path.display()
        ))
    })?;
    Ok(Box::new(BufReader::new(file)))
}

/// The statement, from standard input where the command line says `-`; or why it is too long or no text.
pub(crate) fn read_text(
    sql: &str,
    max_bytes: usize,
) -> Result<Result<String, (Code, String)>, Failure> {
    if sql != "-" {
        return Ok(Ok(sql.to_owned()));
    }
    let mut bytes = Vec::new();
    let most = u64::try_from(max_bytes)
        .unwrap_or(u64::MAX)
        .saturating_add(1);
    std::io::stdin()
        .take(most)
        .read_to_end(&mut bytes)
        .map_err(|error| Failure::Usage(format!("cannot read standard input: {error}")))?;
    if bytes.len() > max_bytes {
        let why = format!("the statement is longer than {max_bytes} bytes");
        return Ok(Err((Code::LimitQuerySize, why)));
    }
    let text = String::from_utf8(bytes);
    let why = "the statement is not UTF-8".to_owned();
    Ok(text.map_err(|_| (Code::RequestInvalid, why)))
}

pub(crate) fn print(answer: &Answer, format: Format) -> Result<(), Failure> {
    let text = match format {
        Format::Json => {
            json::line(answer).map_err(|error| Failure::Internal(error.to_string()))? + "\n"
        }
        Format::Text => human::answer(answer, Paint::for_stdout()),
    };
    stdout::text(&text)
}
