//! `palisade changes`: what waits to be approved or kept, and what it does row by row.

use std::{io::Write as _, time::Duration};

use palisade::{
    change::Receipt,
    code::Code,
    guard::{ChangeView, LookedAtChange, Preview, Refusal},
    moment::print_utc,
    session::{Session, Transport},
};
use palisade_scan::spell_out;
use serde_json::json;

use crate::{
    approvals_args::ChangesArguments,
    args::Format,
    database::Access,
    database_name::Source,
    exit::{Exit, Failure},
    human::{self, Paint},
    output,
    query::Gate,
    setup::Setup,
};

/// Runs the command.
pub(crate) fn run(arguments: &ChangesArguments) -> Result<Exit, Failure> {
    let (setup, database) = Setup::over(
        Source::argument(&arguments.source)?,
        &arguments.secret,
        &arguments.policies,
        Some(&arguments.audit),
    )?;
    let limits = setup.limits.clone();
    // To run what is taken back takes the right to write.
    let gate = Gate::open(&setup, &database, Access::Write, limits)?;
    let session = Session::new(setup.principal.clone()).over(Transport::Cli);
    let told = match &arguments.id {
        None => gate
            .changes(&session)
            .map(|all| list(&all, arguments.format)),
        Some(id) => gate
            .inspect_change(id, &session)
            .map(|looked| show(&looked, arguments.format)),
    };
    match told {
        Ok(text) => output::text(&text).map(|()| Exit::Permitted),
        Err(refusal) => {
            tell(&refusal);
            Ok(match refusal.rejection.code() {
                Code::Internal => Exit::Internal,
                _ => Exit::Refused,
            })
        }
    }
}

pub(crate) fn tell(refusal: &Refusal) {
    let rejection = &refusal.rejection;
    // There is no reader if this fails.
    let _ = writeln!(
        std::io::stderr(),
        "REFUSED {}\nmessage: {}\nhint: {}",
        rejection.code(),
        rejection.message(),
        rejection.code().remediation()
    );
}

fn list(all: &[ChangeView], format: Format) -> String {
    match format {
        Format::Json => all
            .iter()
            .map(|view| format!("{}\n", json!(view)))
            .collect(),
        Format::Text if all.is_empty() => "there are no changes\n".to_owned(),
        Format::Text => all.iter().map(describe).collect(),
    }
}

fn show(looked: &LookedAtChange, format: Format) -> String {
    let LookedAtChange {
        view,
        preview,
        is_as_validated,
    } = looked;
    match format {
        Format::Json => {
            let preview = preview.as_ref();
            let body = json!({
                "change": view,
                "as_validated": preview.map(|_| is_as_validated),
                "also_changed": preview.map(|preview| &preview.counted),
                "generated": preview.map(|preview| &preview.generated),
                "difference": preview.map(|preview| &preview.rows),
            });
            format!("{body}\n")
        }
        Format::Text => {
            let mut text = describe(view);
            if let Some(Preview {
                rows,
                counted,
                generated,
            }) = preview
            {
                text.push_str(&human::rows(rows, Paint::for_stdout()));
                for (table, rows) in counted {
                    match rows {
                        0 => {
                            text.push_str(&format!("also: {table}, more rows than policy shows\n"))
                        }
                        rows => text.push_str(&format!("also: {table} {rows} rows\n")),
                    }
                }
                if !generated.is_empty() {
                    text.push_str(&format!(
                        "made anew each time, so that other values may be kept: {}\n",
                        spell_out(&generated.join(", "))
                    ));
                }
                if !is_as_validated {
                    text.push_str(
                        "This is not what it did when it was validated: it cannot be kept before it is validated again.\n",
                    );
                }
            }
            text
        }
    }
}

/// A change in a few lines. An agent wrote them: what hides is spelled out, and each line is set in.
fn describe(view: &ChangeView) -> String {
    let approval = match &view.approval {
        Some(level) => format!(", approval: {level}"),
        None => String::new(),
    };
    let mut text = format!(
        "{}  {}\n  {}{approval}\n",
        view.change,
        view.state.word(),
        view.proposed_by
    );
    if let Some(by) = &view.decided_by {
        text.push_str(&format!("  decided by {}\n", spell_out(by)));
    }
    if let Some(reason) = &view.reason {
        for line in reason.lines() {
            text.push_str(&format!("  # {}\n", spell_out(line)));
        }
    }
    if let Some(undone) = &view.compensates {
        text.push_str(&format!("  undoes the change {undone}\n"));
    }
    for statement in &view.statements {
        for line in statement.lines() {
            text.push_str(&format!("  | {}\n", spell_out(line)));
        }
    }
    if let Some(receipt) = &view.receipt {
        text.push_str(&describe_receipt(receipt));
    }
    text
}

/// A receipt in a few lines.
fn describe_receipt(receipt: &Receipt) -> String {
    let kept = print_utc(Duration::from_millis(receipt.kept_ms));
    let mut text = format!("  receipt {}, kept at {kept}\n", receipt.id);
    for count in &receipt.tables {
        text.push_str(&format!(
            "  {}.{}: {} new, {} changed, {} deleted rows\n",
            spell_out(&count.schema),
            spell_out(&count.table),
            count.inserted,
            count.updated,
            count.deleted
        ));
    }
    text.push_str(&format!(
        "  digests: statements {}, difference {}, keys {}\n",
        receipt.statements, receipt.difference, receipt.keys
    ));
    text
}
