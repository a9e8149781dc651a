//! Changes as people and machines read them.

use std::{fmt::Write as _, time::Duration};

use palisade::{
    change::Receipt,
    guard::{ChangeView, ChangedRows, PastDifference, PastHistory, Preview, PreviewedChange},
    moment::print_utc,
};
use palisade_scan::{quote_lines, spell_out};
use serde_json::{Value, json};

use crate::{
    args::Format,
    commands,
    human::{self, Paint},
};

/// Changes one after another.
pub(super) fn list(all: &[ChangeView], format: Format) -> String {
    match format {
        Format::Text if all.is_empty() => "there are no changes\n".to_owned(),
        Format::Json | Format::Text => all.iter().map(|view| change(view, format)).collect(),
    }
}

/// A change.
pub(crate) fn change(view: &ChangeView, format: Format) -> String {
    match format {
        Format::Json => format!("{}\n", json!(view)),
        Format::Text => describe(view) + &describe_next(view),
    }
}

/// A change and what it does.
pub(crate) fn previewed_change(looked: &PreviewedChange, format: Format) -> String {
    match format {
        Format::Json => format!("{}\n", previewed_change_json(looked)),
        Format::Text => previewed_change_text(looked),
    }
}

fn previewed_change_json(looked: &PreviewedChange) -> Value {
    let PreviewedChange {
        view,
        preview,
        is_as_validated,
    } = looked;
    let mut body = json!(view);
    if let (Value::Object(told), Some(preview)) = (&mut body, preview) {
        let Preview {
            rows,
            row_counts,
            counted,
            lock_held_ms,
            generated,
        } = preview;
        told.insert("as_validated".to_owned(), json!(is_as_validated));
        if let Some(ms) = lock_held_ms {
            told.insert("lock_held_ms".to_owned(), json!(ms));
        }
        told.insert("generated".to_owned(), json!(generated));
        told.insert("row_counts".to_owned(), json!(row_counts));
        told.insert("also_changed".to_owned(), list_counted(counted));
        told.insert("difference".to_owned(), json!(rows));
    }
    body
}

fn previewed_change_text(looked: &PreviewedChange) -> String {
    let PreviewedChange {
        view,
        preview,
        is_as_validated,
    } = looked;
    let mut text = describe(view);
    if let Some(Preview {
        rows,
        row_counts,
        counted,
        lock_held_ms,
        generated,
    }) = preview
    {
        text.push_str(&human::difference(rows, Paint::for_stdout()));
        let _ = writeln!(text, "{row_counts}");
        text.push_str(&describe_counted(counted));
        if let Some(ms) = lock_held_ms {
            let _ = writeln!(text, "no other change could be written for {ms} ms");
        }
        if !generated.is_empty() {
            let _ = writeln!(
                text,
                "made anew each time, so that other values may be kept: {}",
                spell_out(&generated.join(", "))
            );
        }
        if !is_as_validated {
            text.push_str(
                "This is not what it did when it was validated: it cannot be kept before it is validated again.\n",
            );
        }
    }
    text + &describe_next(view)
}

/// What is different of a table between two moments.
pub(crate) fn difference(compared: &PastDifference, format: Format) -> String {
    let PastDifference { from, to, preview } = compared;
    match format {
        Format::Json => {
            let told = json!({
                "from": from, "to": to,
                "row_counts": preview.row_counts,
                "also_changed": list_counted(&preview.counted),
                "difference": preview.rows,
            });
            format!("{told}\n")
        }
        Format::Text => {
            let to = to.as_ref().map_or("now".to_owned(), human::describe_moment);
            format!(
                "from {} to {to}\n{}{}\n{}",
                human::describe_moment(from),
                human::rows(&preview.rows, Paint::for_stdout()),
                preview.row_counts,
                describe_counted(&preview.counted)
            )
        }
    }
}

/// What became of rows.
pub(crate) fn history(listed: &PastHistory, format: Format) -> String {
    let PastHistory { from, preview } = listed;
    match format {
        Format::Json => {
            let told = json!({
                "from": from,
                "also_changed": list_counted(&preview.counted),
                "history": preview.rows,
            });
            format!("{told}\n")
        }
        Format::Text => {
            let from = from.as_ref();
            let from = from.map(|from| format!("from {}\n", human::describe_moment(from)));
            format!(
                "{}{}{}",
                from.unwrap_or_default(),
                human::rows(&preview.rows, Paint::for_stdout()),
                describe_counted(&preview.counted)
            )
        }
    }
}

/// Tables that are not shown row by row.
fn list_counted(counted: &[(String, ChangedRows)]) -> Value {
    let told = counted.iter();
    told.map(|(table, rows)| json!({"table": table, "rows": rows}))
        .collect()
}

fn describe_counted(counted: &[(String, ChangedRows)]) -> String {
    let told = counted.iter();
    told.map(|(table, rows)| format!("also: {table}: {rows}\n"))
        .collect()
}

/// What can be done with a change now.
fn describe_next(view: &ChangeView) -> String {
    let names = commands::names();
    let next: Vec<&str> = view
        .next_valid_actions
        .iter()
        .filter_map(|action| names.name(action))
        .collect();
    format!("  next: {}\n", next.join(", "))
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
    if let Some(revert) = &view.reverts {
        text.push_str(&format!(
            "  sets {} back to how it was at {}\n",
            spell_out(&revert.table),
            human::describe_moment(&revert.to)
        ));
    }
    for statement in &view.statements {
        for line in quote_lines(statement).lines() {
            text.push_str(&format!("  {line}\n"));
        }
    }
    if let Some(preview) = &view.preview {
        text.push_str(&format!("  preview {preview}\n"));
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
        "  digest of the statements {}\n",
        receipt.statements
    ));
    text
}
