//! `palisade ledger`: receipts of changes that were kept, and whether they are what was written.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use palisade::{
    catalog::Change,
    change::ChangeWrite,
    guard::{LedgerFault, ReceiptView, Refusal, TracedRow},
    moment::print_utc,
    session::{Session, Transport},
    token::Lifetime,
};
use palisade_scan::spell_out;
use palisade_state::VerifyFault;
use serde::Serialize;
use serde_json::json;

use crate::{
    args::{
        Format,
        ledger::{LedgerCommand, LedgerPruneArguments, LedgerShowArguments, LedgerTraceArguments},
    },
    changes::{self, args::PlaceArguments},
    database::{Access, Database},
    exit::{Exit, Failure},
    query::Gate,
    setup::Setup,
    statements::read_key,
    stdout,
};

/// Runs the command.
pub(crate) fn run(command: &LedgerCommand) -> Result<Exit, Failure> {
    match command {
        LedgerCommand::List(arguments) => list(arguments),
        LedgerCommand::Show(arguments) => show(arguments),
        LedgerCommand::Trace(arguments) => trace(arguments),
        LedgerCommand::Why(arguments) => why(arguments),
        LedgerCommand::Verify(arguments) => verify(arguments),
        LedgerCommand::Prune(arguments) => prune(arguments),
    }
}

fn open(setup: &Setup, database: &Database) -> Result<(Gate, Session), Failure> {
    // An account that writes does not start where it is to read alone.
    let gate = Gate::open(setup, database, Access::Write, setup.limits.clone())?;
    let session = Session::new(setup.principal.clone()).over(Transport::Cli);
    Ok((gate, session))
}

fn list(arguments: &PlaceArguments) -> Result<Exit, Failure> {
    let (setup, database) = arguments.setup()?;
    let (gate, session) = open(&setup, &database)?;
    let told = gate.guard().list_receipts(&session);
    let told = told.map(|all| print_all(&all, arguments.format));
    tell(told, arguments.format)
}

fn show(arguments: &LedgerShowArguments) -> Result<Exit, Failure> {
    let (setup, database) = arguments.place.setup()?;
    let (gate, session) = open(&setup, &database)?;
    let told = gate.guard().get_receipt(&arguments.id, &session);
    let told = told.map(|view| match arguments.place.format {
        Format::Json => format!("{}\n", json!(view)),
        Format::Text => describe(&view),
    });
    tell(told, arguments.place.format)
}

fn trace(arguments: &LedgerTraceArguments) -> Result<Exit, Failure> {
    let key = read_key(&arguments.key)?;
    let (setup, database) = arguments.place.setup()?;
    let (gate, session) = open(&setup, &database)?;
    let row = TracedRow {
        table: &arguments.table,
        key: &key,
    };
    let told = gate.guard().trace_row(row, &session);
    let told = told.map(|all| print_all(&all, arguments.place.format));
    tell(told, arguments.place.format)
}

/// Tells the operator, who holds the state file, why a change could happen.
fn why(arguments: &LedgerShowArguments) -> Result<Exit, Failure> {
    let (setup, database) = arguments.place.setup()?;
    let store = setup.approvals.require_store()?;
    let links = store.verify_receipts().map_err(|fault| match fault {
        VerifyFault::Chain(fault) => Failure::Usage(format!(
            "{fault}\n  help: `palisade ledger verify` tells what else is wrong"
        )),
        fault @ VerifyFault::Store(_) => Failure::Internal(fault.to_string()),
    })?;
    let id = &arguments.id;
    let mut links = links.iter().map(|link| &link.body);
    let Some(link) = links.find(|link| link.receipt.id == *id || link.change == *id) else {
        return Err(Failure::Usage(format!(
            "there is no receipt `{}`\n  help: `palisade ledger list` lists them",
            spell_out(id)
        )));
    };
    let (gate, _) = open(&setup, &database)?;
    let receipt = &link.receipt;
    let firewall = gate.guard().firewall();
    let told = Why {
        receipt: &receipt.id,
        change: &link.change,
        proposed_by: &receipt.proposed_by,
        reason: link.reason.as_deref(),
        permitted_by: &receipt.permitted_by,
        approval_demanded_by: &receipt.policies,
        approved_by: receipt.approved_by.as_deref(),
        writes: &receipt.writes,
        same_policies: receipt.policy_version == firewall.policies().version(),
    };
    let text = match arguments.place.format {
        Format::Json => format!("{}\n", json!(told)),
        Format::Text => told.describe(),
    };
    stdout::text(&text).map(|()| Exit::Permitted)
}

/// Why a change could happen.
#[derive(Serialize)]
struct Why<'a> {
    receipt: &'a str,
    change: &'a str,
    proposed_by: &'a str,
    reason: Option<&'a str>,
    permitted_by: &'a [String],
    approval_demanded_by: &'a [String],
    approved_by: Option<&'a str>,
    writes: &'a [ChangeWrite],
    /// Whether policies and principals are those of the decision.
    same_policies: bool,
}

impl Why<'_> {
    fn describe(&self) -> String {
        let mut text = format!(
            "{}  change {} by {}\n",
            self.receipt,
            self.change,
            spell_out(self.proposed_by)
        );
        if let Some(reason) = self.reason {
            text.push_str(&format!("  # {}\n", spell_out(reason)));
        }
        let permitted_by = match self.permitted_by {
            [] => "not recorded: the change was kept by an earlier version".to_owned(),
            ids => spell_out(&ids.join(", ")).into_owned(),
        };
        text.push_str(&format!("  permitted by  {permitted_by}\n"));
        if !self.approval_demanded_by.is_empty() {
            text.push_str(&format!(
                "  approval demanded by  {}\n",
                spell_out(&self.approval_demanded_by.join(", "))
            ));
        }
        if let Some(by) = self.approved_by {
            text.push_str(&format!("  approved by  {}\n", spell_out(by)));
        }
        for write in self.writes {
            text.push_str(&format!("  may {}\n", describe_write(write)));
        }
        text.push_str(match self.same_policies {
            true => "  policies and principals are the same now\n",
            false => "  policies or principals are others now\n",
        });
        text
    }
}

/// `update main.tickets.subject`.
fn describe_write(write: &ChangeWrite) -> String {
    let ChangeWrite {
        change,
        table,
        column,
    } = write;
    let verb = match change {
        Change::Insert => "insert",
        Change::Update => "update",
        Change::Delete => "delete",
        Change::Truncate => "truncate",
    };
    let dot = if column.is_empty() { "" } else { "." };
    format!("{verb} {}{dot}{}", spell_out(table), spell_out(column))
}

fn print_all(all: &[ReceiptView], format: Format) -> String {
    match format {
        Format::Json => all
            .iter()
            .map(|view| format!("{}\n", json!(view)))
            .collect(),
        Format::Text if all.is_empty() => "there are no receipts\n".to_owned(),
        Format::Text => all.iter().map(describe).collect(),
    }
}

fn tell(told: Result<String, Refusal>, format: Format) -> Result<Exit, Failure> {
    match told {
        Ok(text) => stdout::text(&text).map(|()| Exit::Permitted),
        Err(refusal) => changes::refuse(refusal, format),
    }
}

fn verify(arguments: &PlaceArguments) -> Result<Exit, Failure> {
    let (setup, database) = arguments.setup()?;
    let store = setup.approvals.require_store()?;
    let links = match store.verify_receipts() {
        Ok(links) => links,
        Err(VerifyFault::Chain(fault)) => {
            return report(arguments.format, 0, None, &[fault.to_string()]);
        }
        Err(fault @ VerifyFault::Store(_)) => return Err(Failure::Internal(fault.to_string())),
    };
    let (gate, _) = open(&setup, &database)?;
    let compared = gate.block_on(gate.guard().compare_receipts(&links));
    let compared = compared.map_err(Failure::Unavailable)?;
    let faults: Vec<String> = compared
        .iter()
        .flatten()
        .map(LedgerFault::to_string)
        .collect();
    report(
        arguments.format,
        links.len(),
        Some(compared.is_some()),
        &faults,
    )
}

fn prune(arguments: &LedgerPruneArguments) -> Result<Exit, Failure> {
    let Ok(Lifetime::Span(age)) = arguments.older_than.parse() else {
        return Err(Failure::Usage(format!(
            "`{}` is no time\n  help: write minutes, hours or days, from `1m` to `365d`",
            arguments.older_than
        )));
    };
    let (setup, database) = arguments.place.setup()?;
    let (gate, _) = open(&setup, &database)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let since = now.unwrap_or_default().saturating_sub(age);
    let since = u64::try_from(since.as_millis()).unwrap_or_default();
    let pruned = gate.block_on(gate.guard().prune_images(since));
    let text = match pruned.map_err(Failure::Unavailable)? {
        Some(parts) => match arguments.place.format {
            Format::Json => format!("{}\n", json!({"parts": parts})),
            Format::Text => format!("{parts} parts of images are deleted\n"),
        },
        None => {
            return Err(Failure::Usage(
                "the database has no table palisade_images, so that there is nothing to delete\n  help: see `palisade setup-sql --writable --steps`"
                    .to_owned(),
            ));
        }
    };
    stdout::text(&text).map(|()| Exit::Permitted)
}

/// Tells what was found. `in_database` says whether the database has a table of receipts, where it was asked.
fn report(
    format: Format,
    count: usize,
    in_database: Option<bool>,
    faults: &[String],
) -> Result<Exit, Failure> {
    let text = match format {
        Format::Json => format!(
            "{}\n",
            json!({"receipts": count, "in_database": in_database, "faults": faults})
        ),
        Format::Text if faults.is_empty() => describe_whole(count, in_database),
        Format::Text => faults
            .iter()
            .map(|fault| format!("FAULT {}\n", spell_out(fault)))
            .collect(),
    };
    stdout::text(&text)?;
    Ok(match faults.is_empty() {
        true => Exit::Permitted,
        false => Exit::Refused,
    })
}

/// That all receipts are as they were written.
fn describe_whole(count: usize, in_database: Option<bool>) -> String {
    let receipts = match count {
        1 => "1 receipt is as it was written".to_owned(),
        count => format!("{count} receipts are as they were written"),
    };
    let beside = match in_database {
        Some(true) => ", in the database too",
        Some(false) | None => "; the database has no table of receipts",
    };
    format!("{receipts}{beside}\n")
}

/// A receipt as a person reads it.
fn describe(view: &ReceiptView) -> String {
    let ReceiptView {
        change,
        reason,
        receipt,
    } = view;
    let mut text = format!(
        "{}  {}  change {change} by {}\n",
        receipt.id,
        print_utc(Duration::from_millis(receipt.kept_ms)),
        spell_out(&receipt.proposed_by)
    );
    if let Some(by) = &receipt.approved_by {
        text.push_str(&format!("  approved by {}\n", spell_out(by)));
    }
    if let Some(reason) = reason {
        text.push_str(&format!("  # {}\n", spell_out(reason)));
    }
    for table in &receipt.tables {
        text.push_str(&format!(
            "  {}.{}: {} new, {} changed, {} deleted\n",
            spell_out(&table.schema),
            spell_out(&table.table),
            table.inserted,
            table.updated,
            table.deleted
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::describe_whole;

    #[test]
    fn one_receipt_is_one() {
        assert_eq!(
            describe_whole(1, Some(true)),
            "1 receipt is as it was written, in the database too\n"
        );
        let several =
            "2 receipts are as they were written; the database has no table of receipts\n";
        assert_eq!(describe_whole(2, None), several);
    }
}
