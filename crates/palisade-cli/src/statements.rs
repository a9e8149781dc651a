//! What `query`, `check` and `explain` share: one statement or a batch, as text or as JSON.

use std::{
    fs::File,
    io::{BufRead, BufReader, Read as _, Write as _},
    path::Path,
};

use palisade::{
    code::Code,
    firewall::Firewall,
    limits::Limits,
    session::{Session, Transport},
    value::Params,
};

use crate::{
    answer::{Answer, Answerer, Request},
    args::{FormArguments, Format},
    batch::Batch,
    exit::{Exit, Failure},
    human::{self, Paint},
    json, output,
    setup::Setup,
    standing,
};

/// Answers what the command line asks, on standard output.
pub(crate) fn run(
    answerer: &dyn Answerer,
    (setup, firewall): (&Setup, &Firewall),
    sql: Option<&str>,
    form: &FormArguments,
) -> Result<Exit, Failure> {
    let told = standing::describe(firewall, &setup.principal)?;
    let session = Session::new(setup.principal.clone()).over(Transport::Cli);
    let max_bytes = max_input_bytes(&setup.limits);
    if let Some(path) = &form.batch {
        let mut input = open(path)?;
        let mut output = std::io::stdout().lock();
        let batch = Batch {
            answerer,
            session,
            max_line_bytes: max_bytes,
            standing: &|principal| standing::describe(firewall, principal),
        };
        return batch.run(&mut *input, &mut output);
    }
    standing::tell(&told);
    note_starter(setup, form.format);
    let params = match &form.params {
        None => Params::None,
        Some(text) => serde_json::from_str(text)
            .map_err(|error| error.to_string())
            .and_then(|json: serde_json::Value| Params::from_json(&json))
            .map_err(|why| Failure::Usage(format!("`--params`: {why}")))?,
    };
    let sql = sql.ok_or_else(|| Failure::Usage("there is no statement".to_owned()))?;
    let answer = match text(sql, max_bytes)? {
        Ok(sql) => answerer.answer(&Request {
            sql,
            params,
            session,
        }),
        Err(refused) => *refused,
    };
    print(&answer, form.format)?;
    Ok(answer.exit())
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
fn max_input_bytes(limits: &Limits) -> usize {
    limits
        .max_query_bytes
        .saturating_mul(8)
        .saturating_add(64 * 1024)
}

fn open(path: &Path) -> Result<Box<dyn BufRead>, Failure> {
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

/// The statement, from standard input where the command line says `-`; or the answer to a statement that is too long
/// or no text.
fn text(sql: &str, max_bytes: usize) -> Result<Result<String, Box<Answer>>, Failure> {
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
    let refused = |code, message: String| Ok(Err(Box::new(Answer::invalid(code, message))));
    if bytes.len() > max_bytes {
        return refused(
            Code::LimitQuerySize,
            format!("the statement is longer than {max_bytes} bytes"),
        );
    }
    match String::from_utf8(bytes) {
        Ok(text) => Ok(Ok(text)),
        Err(_) => refused(
            Code::RequestInvalid,
            "the statement is not UTF-8".to_owned(),
        ),
    }
}

pub(crate) fn print(answer: &Answer, format: Format) -> Result<(), Failure> {
    let text = match format {
        Format::Json => {
            json::line(answer).map_err(|error| Failure::Internal(error.to_string()))? + "\n"
        }
        Format::Text => human::answer(answer, Paint::for_stdout()),
    };
    output::text(&text)
}
