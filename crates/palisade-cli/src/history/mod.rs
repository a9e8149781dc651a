//! `palisade history` and `palisade snapshots`: tables as they were.

pub(crate) mod args;

use palisade::{
    guard::{Moments, PastRows, Refusal, SnapshotView},
    past::HistoryOrder,
    session::{Session, Transport},
};
use palisade_scan::spell_out;
use serde_json::json;

use crate::{
    args::Format,
    changes::{self, args::PlaceArguments},
    database::Access,
    exit::{Exit, Failure},
    history::args::{
        DiffTableArguments, EnableArguments, HistoryArguments, HistoryCommand,
        ListHistoryArguments, PruneArguments, RebaseArguments, SnapshotArguments, SnapshotsCommand,
    },
    query::Gate,
    statements::read_key,
    stdout,
};

/// Runs a command of histories.
pub(crate) fn run(command: &HistoryCommand) -> Result<Exit, Failure> {
    match command {
        HistoryCommand::Enable(arguments) => enable(arguments),
        HistoryCommand::Disable(arguments) => {
            let (gate, _) = open(&arguments.place)?;
            let order = HistoryOrder::Disable;
            print_scripts(&gate, &arguments.tables, &order, arguments.place.format)
        }
        HistoryCommand::Rebase(arguments) => rebase(arguments),
        HistoryCommand::Prune(arguments) => prune(arguments),
        HistoryCommand::Tables(arguments) => list_tables(arguments),
        HistoryCommand::List(arguments) => list_history(arguments),
        HistoryCommand::Diff(arguments) => compare(arguments),
    }
}

/// Runs a command of snapshots.
pub(crate) fn run_snapshots(command: &SnapshotsCommand) -> Result<Exit, Failure> {
    match command {
        SnapshotsCommand::Create(arguments) => create(arguments),
        SnapshotsCommand::List(arguments) => list(arguments),
        SnapshotsCommand::Delete(arguments) => delete(arguments),
    }
}

fn open(place: &PlaceArguments) -> Result<(Gate, Session), Failure> {
    let (setup, database) = place.setup()?;
    // An account that writes does not start where it is to read alone.
    let access = setup.access(Access::Read)?;
    let gate = Gate::open(&setup, &database, access, setup.limits.clone())?;
    let session = Session::new(setup.principal.clone()).over(Transport::Cli);
    Ok((gate, session))
}

fn enable(arguments: &EnableArguments) -> Result<Exit, Failure> {
    let (gate, _) = open(&arguments.tables.place)?;
    let order = HistoryOrder::Enable {
        account: arguments.account.clone(),
    };
    let HistoryArguments { place, tables } = &arguments.tables;
    print_scripts(&gate, tables, &order, place.format)
}

/// A history that is kept again begins anew.
fn rebase(arguments: &RebaseArguments) -> Result<Exit, Failure> {
    let (gate, _) = open(&arguments.place)?;
    let tables = match arguments.tables.is_empty() {
        true => name_kept(&gate),
        false => arguments.tables.clone(),
    };
    if tables.is_empty() {
        return Err(Failure::Usage(
            "no table has a history\n  help: `palisade history enable` prints the SQL that keeps one"
                .to_owned(),
        ));
    }
    let order = HistoryOrder::Enable {
        account: arguments.account.clone(),
    };
    print_scripts(&gate, &tables, &order, arguments.place.format)
}

fn prune(arguments: &PruneArguments) -> Result<Exit, Failure> {
    let (gate, _) = open(&arguments.tables.place)?;
    match gate.guard().find_label(&arguments.before) {
        Ok((label, _)) => {
            let order = HistoryOrder::Prune(label);
            let HistoryArguments { place, tables } = &arguments.tables;
            print_scripts(&gate, tables, &order, place.format)
        }
        Err(refusal) => changes::refuse(refusal, arguments.tables.place.format),
    }
}

fn print_scripts(
    gate: &Gate,
    tables: &[String],
    order: &HistoryOrder,
    format: Format,
) -> Result<Exit, Failure> {
    let mut scripts = Vec::with_capacity(tables.len());
    for table in tables {
        let script = gate.guard().write_history_script(table, order);
        scripts.push(script.map_err(Failure::Usage)?);
    }
    let text = match format {
        Format::Text => scripts.join("\n"),
        Format::Json => format!("{}\n", json!({"sql": scripts})),
    };
    stdout::text(&text).map(|()| Exit::Permitted)
}

/// The tables that have a history.
fn name_kept(gate: &Gate) -> Vec<String> {
    let firewall = gate.firewall();
    let catalog = firewall.catalog();
    let kept = catalog.relations().iter();
    let kept = kept.filter(|relation| catalog.companion(relation).is_some());
    kept.map(|relation| relation.database_name()).collect()
}

fn list_tables(place: &PlaceArguments) -> Result<Exit, Failure> {
    let (gate, _) = open(place)?;
    let names = name_kept(&gate);
    let text = match place.format {
        Format::Json => format!("{}\n", json!({"tables": names})),
        Format::Text if names.is_empty() => {
            "no table has a history\n  help: `palisade history enable` prints the SQL that keeps one\n"
                .to_owned()
        }
        Format::Text => names
            .iter()
            .map(|name| format!("{}\n", spell_out(name)))
            .collect(),
    };
    stdout::text(&text).map(|()| Exit::Permitted)
}

fn compare(arguments: &DiffTableArguments) -> Result<Exit, Failure> {
    let format = arguments.place.format;
    let (gate, session) = open(&arguments.place)?;
    let moments = Moments {
        from: &arguments.from,
        to: arguments.to.as_deref(),
    };
    let call = gate.change_call(&session);
    let compared = gate.guard().compare_past(&arguments.table, moments, call);
    match gate.block_on(compared) {
        Ok(compared) => {
            let text = changes::print::difference(&compared, format);
            stdout::text(&text).map(|()| Exit::Permitted)
        }
        Err(refusal) => changes::refuse(refusal, format),
    }
}

fn list_history(arguments: &ListHistoryArguments) -> Result<Exit, Failure> {
    let format = arguments.place.format;
    let key = arguments.key.as_deref().map(read_key).transpose()?;
    let (gate, session) = open(&arguments.place)?;
    let rows = PastRows {
        table: &arguments.table,
        key: key.as_ref(),
    };
    let call = gate.change_call(&session);
    let listed = gate
        .guard()
        .list_history(rows, arguments.from.as_deref(), call);
    match gate.block_on(listed) {
        Ok(listed) => {
            let text = changes::print::history(&listed, format);
            stdout::text(&text).map(|()| Exit::Permitted)
        }
        Err(refusal) => changes::refuse(refusal, format),
    }
}

fn create(arguments: &SnapshotArguments) -> Result<Exit, Failure> {
    let (gate, session) = open(&arguments.place)?;
    let created = gate.guard().create_snapshot(&arguments.name, &session);
    let created = gate.block_on(created);
    tell(created.map(|view| vec![view]), arguments.place.format)
}

fn list(place: &PlaceArguments) -> Result<Exit, Failure> {
    let (gate, session) = open(place)?;
    tell(gate.guard().list_snapshots(&session), place.format)
}

fn delete(arguments: &SnapshotArguments) -> Result<Exit, Failure> {
    let (gate, session) = open(&arguments.place)?;
    let deleted = gate.guard().delete_snapshot(&arguments.name, &session);
    tell(deleted.map(|view| vec![view]), arguments.place.format)
}

fn tell(told: Result<Vec<SnapshotView>, Refusal>, format: Format) -> Result<Exit, Failure> {
    let views = match told {
        Ok(views) => views,
        Err(refusal) => return changes::refuse(refusal, format),
    };
    let text = match format {
        Format::Json => views
            .iter()
            .map(|view| format!("{}\n", json!(view)))
            .collect(),
        Format::Text if views.is_empty() => "there are no snapshots\n".to_owned(),
        Format::Text => views
            .iter()
            .map(|view| format!("{}  {}\n", view.taken, view.snapshot))
            .collect(),
    };
    stdout::text(&text).map(|()| Exit::Permitted)
}
